"""`keygen`, `encrypt`, `decrypt`, `rotate` and `read --reveal`, run by `main`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import Memfs
from support.files import Snapshot

from memfs import Vault
from memfs.privacy.keys import new_key, parse_key

PEANUTS = "facts/bob/allergic-to-peanuts"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMFS_KEY", "MEMFS_KEY_NEXT", "MEMFS_KEY_TEAM"):
        monkeypatch.setenv(name, new_key())


def test_keygen_prints_the_key_on_stdout_and_how_to_set_it_on_stderr(memfs: Memfs) -> None:
    ran = memfs("keygen", "--key", "team")
    facts = memfs("keygen", "--json").value

    assert len(parse_key(ran.out.strip(), "x")) == 32
    assert ran.err.startswith("Set it with: export MEMFS_KEY_TEAM=...\n")
    assert ran.out.strip() not in ran.err
    assert (list(facts), facts["variable"]) == (["key", "name", "variable"], "MEMFS_KEY")
    assert facts["key"] != ran.out.strip()


def test_keygen_needs_no_vault(memfs: Memfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")

    assert memfs("keygen").code == 0


def test_encrypt_read_and_decrypt(memfs: Memfs, example: Path) -> None:
    before = (example / f"{PEANUTS}.md").read_bytes()
    ran = memfs("encrypt", PEANUTS, "./notes/dentist.md")

    assert (ran.code, ran.out) == (0, f"encrypted {PEANUTS}.md\nencrypted notes/dentist.md\n")
    assert ran.err == (
        f"note: {PEANUTS}.md: its file name contains words of the encrypted text; --rename names the file by its id\n"
    )
    assert memfs("search", "adrenaline").code == 1
    assert "adrenaline" in memfs("read", PEANUTS, "--reveal", "--json").value["body"]
    assert "adrenaline" not in memfs("read", PEANUTS).out
    assert memfs("decrypt", PEANUTS).out == f"decrypted {PEANUTS}.md\n"
    assert (example / f"{PEANUTS}.md").read_bytes() == before
    assert memfs("decrypt", PEANUTS).out == f"unchanged {PEANUTS}.md\n"


def test_fields_and_keys_are_named(memfs: Memfs) -> None:
    facts = memfs(
        "encrypt", PEANUTS, "--field", "tags", "--field", "source", "--key", "team", "--rename", "--json"
    ).value
    header = memfs("read", facts[0]["id"], "--json").value["header"]

    assert list(facts[0]) == ["id", "path", "outcome", "stamp", "left"]
    assert (facts[0]["path"], facts[0]["left"]) == (f"facts/bob/{facts[0]['id']}.md", [])
    assert header["source"].startswith("enc:v1:team:")
    assert memfs("decrypt", facts[0]["id"], "--field", "source").code == 0
    header = memfs("read", facts[0]["id"], "--json").value["header"]
    assert header["source"] == "session s-2026-03-19, message 8"
    assert header["tags"][0].startswith("enc:v1:team:")


def test_encrypt_goes_on_after_a_failure(memfs: Memfs) -> None:
    ran = memfs("encrypt", "nothing", PEANUTS)

    assert (ran.code, ran.out) == (1, f"encrypted {PEANUTS}.md\n")
    assert "memfs: 'nothing': no such memory\n" in ran.err
    assert memfs("encrypt", PEANUTS, "--field", "type").code == 2


def test_a_missing_field_is_an_error_that_lists_the_existing_fields(memfs: Memfs, example: Path) -> None:
    (example / "plain.md").write_text("---\ntype: fact\n---\n\nTea.\n", encoding="utf-8")
    ran, bare = memfs("encrypt", PEANUTS, "--field", "phone"), memfs("encrypt", "plain", "--field", "phone")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"memfs: {PEANUTS}.md: phone: is not in the header\nhint: Name a key of its header (source, tags), or body.\n"
    )
    assert bare.err.endswith("hint: Its header has no key that can be encrypted; name body.\n")


def test_a_key_is_not_rotated_to_itself(memfs: Memfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMFS_KEY_TEAM")

    for key in ("next", "team"):
        ran = memfs("rotate", "--from", key, "--to", key)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == (
            f"memfs: key {key!r}: is both the old and the new key\n"
            "hint: Name another key as the new one; `memfs keygen` makes one.\n"
        )


def test_a_wrong_or_missing_key_changes_nothing(
    memfs: Memfs, example: Path, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    memfs("encrypt", PEANUTS)
    before = snapshot(example)
    monkeypatch.setenv("MEMFS_KEY", new_key())
    wrong = memfs("decrypt", PEANUTS)
    monkeypatch.delenv("MEMFS_KEY")
    missing = memfs("read", PEANUTS, "--reveal")

    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err.startswith(f"memfs: {PEANUTS}.md: body: cannot be decrypted with the key 'default': another key")
    assert "hint: Set the key that it was encrypted with" in wrong.err
    assert (missing.code, missing.out) == (2, "")
    assert missing.err.startswith("memfs: MEMFS_KEY: not set; it holds the key 'default'\nhint: Set the variable")
    assert snapshot(example) == before


def test_rotate_reports_the_number_of_memories_and_the_failures(memfs: Memfs, example: Path) -> None:
    memfs("encrypt", PEANUTS, "people/bob")
    file = example / "people/bob.md"
    file.write_text(file.read_text().rstrip("\n")[:-1] + "\n")
    ran = memfs("rotate", "--from", "default", "--to", "next")

    assert (ran.code, ran.out) == (1, "rotated 1 memory from the key default to next\n")
    assert ran.err.startswith("memfs: people/bob.md: body: cannot be decrypted with the key 'default'")
    facts = memfs("rotate", "--from", "next", "--to", "team", "/facts", "--json").value
    assert (facts["from"], facts["to"]) == ("next", "team")
    assert [written["path"] for written in facts["rotated"]] == [f"{PEANUTS}.md"]
    assert memfs("rotate", "--from", "next", "--to", "team").out == "rotated 0 memories from the key next to team\n"
    assert memfs("rotate", "--from", "next").code == 2


def test_encrypt_warns_that_git_history_keeps_the_text(memfs: Memfs, example: Path) -> None:
    (example / ".git").mkdir()

    assert memfs("encrypt", PEANUTS, "people/bob").err.endswith(
        "note: git keeps the committed versions; docs/encryption.md shows how to rewrite its history\n"
    )


def test_without_the_extra_the_error_names_it(example: Path) -> None:
    code = "import sys; sys.modules['cryptography'] = None; from memfs.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "encrypt", PEANUTS],
        cwd=example,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "memfs: encryption: needs the extra 'crypto', which is not installed\n"
        "hint: Install it: pip install 'memfs-vault[crypto]'.\n"
    )
    assert not Vault(example).read(PEANUTS).is_encrypted
