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
