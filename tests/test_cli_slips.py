"""What a person mistypes, leaves out or takes for something else is told, and the message knows the way on."""

from pathlib import Path

import pytest
from conftest import Memfs

# --- texts that are empty


@pytest.mark.parametrize("body", ["", "  "])
def test_an_empty_body_is_refused_as_an_empty_text_is(memfs: Memfs, example: Path, body: str) -> None:
    before = (example / "people/bob.md").read_bytes()
    ran = memfs("update", "people/bob", "--body", body, "--tag", "x")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("memfs: text: is empty\n")
    assert ran.err == memfs("append", "people/bob", body).err
    assert (example / "people/bob.md").read_bytes() == before


# --- versions that are not there


def test_restore_without_versions_says_what_is_missing(memfs: Memfs) -> None:
    hint = "hint: See which there are with `memfs versions`; memfs keeps one when it writes.\n"

    assert memfs("restore", "people/alice") == (
        1, "", f"memfs: people/alice.md: no kept version differs from the file\n{hint}"
    )  # fmt: skip
    assert memfs("restore", "people/alice", "--version", "3f9a") == (
        1, "", f"memfs: people/alice.md: no kept version begins with '3f9a'\n{hint}"
    )  # fmt: skip


# --- conditions


def test_a_list_of_sessions_knows_what_it_can_be_asked_for(memfs: Memfs) -> None:
    ran = memfs("sessions", "--where", "foo = 1")
    keys = "session, actor, agents, messages, created, updated, path, actors"

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"memfs: sessions: --where: 'foo' is nothing of a session; keys: {keys}\n")
    assert memfs("sessions", "--where", "actor = alice").code == 0
    assert memfs("sessions", "show", "s-2026-11-15", "--where", "foo = 1").code != 2
