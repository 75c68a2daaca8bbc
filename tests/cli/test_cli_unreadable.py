"""Files that memfs may not read, and a wrong locale: reported, and never treated as missing files."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import NOBODY, REPOSITORY

from memfs.privacy.keys import new_key

Ran = Callable[..., "subprocess.CompletedProcess[str]"]
BOB = "people/bob"
CODE = """
import contextlib, io, os, sys
from memfs.cli.main import main
user, spare, root, *words = sys.argv[1:]
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    for one in (words, ["read", "nothing"]):  # import modules that an ordinary user may not be able to read
        main(["--vault", spare, *one])
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(int(user)), os.setuid(int(user))
sys.exit(main(["--vault", root, *words]))
"""


@pytest.fixture
def root(public_path: Path) -> Path:
    """A copy of the example vault that an ordinary user owns."""
    root = public_path / "vault"
    shutil.copytree(REPOSITORY / "example-vault", root)
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", root], check=True)
    return root


@pytest.fixture
def memfs(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Run a command in that vault as that user."""
    monkeypatch.setenv("MEMFS_KEY", new_key())
    monkeypatch.setenv("MEMFS_KEY_NEXT", new_key())

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        shutil.copytree(REPOSITORY / "example-vault", tmp_path / "spare", dirs_exist_ok=True)
        command = [sys.executable, "-c", CODE, str(NOBODY), str(tmp_path / "spare"), str(root), *words]
        return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)

    return run


def hide(place: Path) -> None:
    """Make a file or a directory readable only by root."""
    os.chown(place, 0, 0)
    place.chmod(0o700 if place.is_dir() else 0o600)


@pytest.mark.parametrize("place", ["people", f"{BOB}.md"])
def test_rotate_reports_unreadable_files_that_may_need_the_old_key(root: Path, memfs: Ran, place: str) -> None:
    memfs("encrypt", BOB, "facts/bob/allergic-to-peanuts")
    hide(root / place)

    ran = memfs("rotate", "--from", "default", "--to", "next")

    assert (ran.returncode, ran.stdout) == (1, "rotated 1 memory from the key default to next\n")
    assert ran.stderr.startswith(f"memfs: {place}: Permission denied: not read\nhint: Keep the old key until")


@pytest.mark.parametrize("words", [(), ("/people",)])
def test_scan_reports_an_unreadable_directory(root: Path, memfs: Ran, words: tuple[str, ...]) -> None:
    hide(root / "people")

    printed, value = memfs("scan", *words), json.loads(memfs("scan", *words, "--json").stdout)

    assert printed.stderr == "people: not scanned: Permission denied\n"
    assert value["skipped"] == [{"path": "people", "reason": "Permission denied"}]


def test_doctor_counts_an_unreadable_file_as_a_problem_in_files(root: Path, memfs: Ran) -> None:
    hide(root / f"{BOB}.md")
    memfs("sync")

    for ran in (memfs("doctor"), memfs("doctor")):
        assert ran.returncode == 1
        assert ran.stdout.startswith("index: no problems\nfiles: ")
    assert f"{BOB}.md:1: Permission denied: not read\n" in memfs("check").stdout


def test_eval_goes_on_if_an_expected_memory_cannot_be_read(root: Path, memfs: Ran) -> None:
    hide(root / "people")

    ran = memfs("eval", "--json")
    facts = json.loads(ran.stdout)

    assert ran.returncode == 1
    assert facts["questions"] == 29
    assert facts["problems"][0]["reason"].endswith("cannot be read: Permission denied")


def test_a_permission_error_has_a_hint_about_permissions(root: Path, memfs: Ran) -> None:
    hide(root / f"{BOB}.md")

    assert "hint: Check the permissions of the file" in memfs("append", BOB, "More.").stderr


def test_a_locale_that_is_not_utf8_is_refused(root: Path) -> None:
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "memfs", "--vault", str(root), "list"]
    ran = subprocess.run(command, env=ascii_only, cwd=REPOSITORY, capture_output=True, text=True)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(
        "memfs: the locale: has ascii file names, but a vault needs UTF-8\nhint: Set PYTHONUTF8=1"
    )
    plain_c = subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, cwd=REPOSITORY, capture_output=True)
    assert "notes/Zürich trip.md".encode().rpartition(b"/")[2] in plain_c.stdout


@pytest.mark.parametrize("place", [".memfs", ".memfs/index"])
def test_status_shows_where_no_index_can_be_written(root: Path, memfs: Ran, place: str) -> None:
    memfs("sync")
    hide(root / place)

    ran = memfs("status")

    assert "  index      none\n" in ran.stdout
    assert f"  trouble    {place} is not writable: each process builds its index in memory\n" in ran.stdout
