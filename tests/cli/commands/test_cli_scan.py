"""`memfs scan`: the path, line and kind of secrets in files, never the secret."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import Git
from support.files import Snapshot
from support.secret_samples import EACH, SPOKEN, pieces

from memfs import Vault
from memfs.agent.sessions.session_log import SessionLog
from memfs.cli.main import main
from memfs.privacy.policy import Policy

TOKEN = next(secret for kind, _, secret in EACH if kind == "github-token")
HINT = "hint: Remove it (`memfs edit PATH`)"


@pytest.fixture
def root(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vault with a secret in a memory; the current directory."""
    (vault.root / "notes").mkdir()
    (vault.root / "notes" / "deploy.md").write_text(f"---\ntitle: Deploy\n---\n\nUse {TOKEN} for it.\n")
    (vault.root / "notes" / "tea.md").write_text("Alice drinks tea, and pays by 4111 1111 1111 1111.\n")
    monkeypatch.chdir(vault.root)
    return vault.root


def scan(*words: str) -> int:
    return main(["scan", *words])


def test_scan_prints_place_and_kind_but_never_the_secret(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scan() == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "notes/deploy.md:5: github-token",
        "notes/tea.md:1: card",
        "1 secret and 1 other finding in 3 files",
    ]
    assert printed.err.startswith(HINT)
    assert TOKEN not in printed.out + printed.err


def test_scan_finds_every_kind_of_secret(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "all.md").write_text(SPOKEN)

    assert scan("all.md", "--json") == 1
    value = json.loads(capsys.readouterr().out)
    assert {one["kind"] for one in value["findings"]} == {kind for kind, _, _ in EACH}
    assert not any(piece in json.dumps(value) for _, _, secret in EACH for piece in pieces(secret))


def test_json_has_stable_keys(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "picture.png").write_bytes(b"\x89PNG\0\0")

    assert scan("--json") == 1
    assert json.loads(capsys.readouterr().out) == {
        "files": 4,
        "secrets": 1,
        "findings": [
            {"path": "notes/deploy.md", "line": 5, "kind": "github-token", "secret": True},
            {"path": "notes/tea.md", "line": 1, "kind": "card", "secret": False},
        ],
        "skipped": [{"path": "picture.png", "reason": "not a text file"}],
    }


def test_without_a_secret_the_exit_code_is_0(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scan("notes/tea.md") == 0
    assert capsys.readouterr().out == "notes/tea.md:1: card\nno secrets and 1 other finding in 1 file\n"
    assert scan("memfs.yaml") == 0
    assert capsys.readouterr().out == "no secrets in 1 file\n"


def test_the_example_vault_has_no_secrets(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scan("--vault", str(example)) == 0
    assert capsys.readouterr().out.startswith("no secrets in ")


def test_scan_changes_no_file(root: Path, snapshot: Snapshot, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(root)

    scan()
    scan("--all", "--json")
    assert snapshot(root) == before


@pytest.mark.parametrize(
    ("word", "files"),
    [
        ("/", 3), (".", 3), ("/notes", 2), ("notes", 2), ("notes/", 2), ("./notes/tea.md", 1), ("notes/tea", 1),
        ("/notes/tea.md", 1), ("{root}/notes/tea.md", 1), ("{root}", 3),
    ],
)  # fmt: skip
def test_scan_takes_paths_and_namespaces_in_every_form(
    root: Path, word: str, files: int, capsys: pytest.CaptureFixture[str]
) -> None:
    scan(word.format(root=root), "--json")
    assert json.loads(capsys.readouterr().out)["files"] == files


@pytest.mark.parametrize("word", ["nothing", "../nothing.md", "/../outside.md"])
def test_scan_of_a_missing_path_is_an_error(root: Path, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    (root.parent / "outside.md").write_text(TOKEN)

    assert scan(word) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"memfs: {word!r}: no such file, directory or namespace in this vault\nhint: See ")


@pytest.mark.parametrize("word", ["../outside.md", "notes/../../outside.md", "{root}/../outside.md", ".."])
def test_scan_of_a_path_outside_the_vault_is_a_usage_error(
    root: Path, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (root.parent / "outside.md").write_text(TOKEN)
    word = word.format(root=root)

    assert scan(word) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"memfs: {word!r}: outside the vault\nhint: Name a path in {root}, or ")


def test_symlinks_are_not_followed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root.parent / "outside.md").write_text(TOKEN)
    (root / "link.md").symlink_to("../outside.md")
    (root / "loop").symlink_to(".")

    assert scan("link.md", "--json") == 0
    assert json.loads(capsys.readouterr().out)["skipped"][0]["path"] == "link.md"
    scan("--json")
    assert json.loads(capsys.readouterr().out)["secrets"] == 1


def test_archive_sessions_and_other_text_files_are_scanned_but_hidden_files_are_not(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SessionLog(root, "s-1", redaction=Policy({"secrets": "off"})).append({"role": "user", "content": f"a\n{TOKEN}"})
    for place in ("archive/old.md", "script.py", ".obsidian/cache.json", ".memfs/x.md"):
        (root / place).parent.mkdir(exist_ok=True)
        (root / place).write_text(TOKEN)

    scan("--json")
    assert [one["path"] for one in json.loads(capsys.readouterr().out)["findings"] if one["secret"]] == [
        "archive/old.md", "notes/deploy.md", "script.py", "sessions/s-1/main.agent.jsonl",
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_a_text_in_another_encoding_is_scanned(root: Path, encoding: str, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "odd.md").write_bytes(f"é\n{TOKEN}\n".encode(encoding))

    assert scan("odd.md") == 1
    assert capsys.readouterr().out.startswith("odd.md:2: github-token\n")


def test_control_characters_in_a_file_name_are_escaped(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/a\x1b[2J\xff.md")).write_text(TOKEN)

    assert scan() == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "a\\x1b[2J\\udcff.md:1: github-token" in out


def test_the_policy_selects_the_kinds_of_secrets(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "memfs.yaml").write_text("redaction: {github-token: off, card: reject}\n")

    assert scan() == 1
    assert capsys.readouterr().out.splitlines() == ["notes/tea.md:1: card", "1 secret in 3 files"]
    (root / "notes" / "mail.md").write_text("bob@example.org\n")
    assert scan("--all", "notes") == 1
    assert capsys.readouterr().out.splitlines()[:3] == [
        "notes/deploy.md:5: github-token", "notes/mail.md:1: email", "notes/tea.md:1: card",
    ]  # fmt: skip


def test_paths_can_be_read_from_stdin(root: Path) -> None:
    command = [sys.executable, "-m", "memfs", "scan", "-z", "notes/tea.md"]
    done = subprocess.run(command, input=b"notes/deploy.md\0", cwd=root, capture_output=True)

    assert done.returncode == 1
    assert done.stdout.decode().splitlines() == [
        "notes/tea.md:1: card",
        "notes/deploy.md:5: github-token",
        "1 secret and 1 other finding in 2 files",
    ]


def scan_listed(root: Path, listed: bytes, *words: str) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "memfs", "scan", "-z", *words]
    return subprocess.run(command, input=listed, cwd=root, capture_output=True)


def test_an_empty_list_on_stdin_scans_no_file(root: Path) -> None:
    done = scan_listed(root, b"")

    assert (done.returncode, done.stdout, done.stderr) == (0, b"no secrets in 0 files\n", b"")


def test_missing_files_of_a_list_on_stdin_are_skipped(root: Path) -> None:
    listed = b"notes/deploy.md\0notes/gone.md\0../outside.md\0notes/{tea}.md\0"
    (root.parent / "outside.md").write_text(TOKEN)
    done = scan_listed(root, listed)

    assert done.returncode == 1
    assert done.stdout.decode() == "notes/deploy.md:5: github-token\n1 secret in 1 file\n"
    assert done.stderr.decode().splitlines()[:3] == [
        "notes/gone.md: not scanned: no such file",
        "../outside.md: not scanned: outside the vault",
        "notes/{tea}.md: not scanned: no such file",
    ]
    assert len(json.loads(scan_listed(root, listed, "--json").stdout)["skipped"]) == 3
    assert scan_listed(root, listed, "notes/gone.md").stdout == b""


def test_the_help_example_scans_the_files_changed_in_git(root: Path, git: Git) -> None:
    (root / "notes" / "old.md").write_text("Old.\n")
    git(root.parent, "init", "-q")
    git(root.parent, "add", "vault/notes/tea.md", "vault/notes/old.md")
    git(root.parent, "commit", "-qm", "x")
    (root / "notes" / "old.md").unlink()
    git(root.parent, "add", "-N", "vault/notes/deploy.md")
    changed = git(root, "diff", "--name-only", "--relative", "-z", "main")

    done = scan_listed(root, changed.encode())
    assert done.stdout.decode().splitlines() == ["notes/deploy.md:5: github-token", "1 secret in 1 file"]
    assert b"notes/old.md: not scanned: no such file\n" in done.stderr


# --- git


def test_staged_content_is_scanned_as_it_is_staged(root: Path, git: Git, capsys: pytest.CaptureFixture[str]) -> None:
    git(root, "init", "-q")
    git(root, "add", "notes/tea.md")
    (root / "notes" / "tea.md").write_text(f"{TOKEN}\n")  # not staged

    assert scan("--staged") == 0
    assert capsys.readouterr().out == "notes/tea.md:1: card\nno secrets and 1 other finding in 1 file\n"
    git(root, "add", "notes")
    (root / "notes" / "deploy.md").unlink()  # still staged
    assert scan("--staged") == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "notes/deploy.md:5: github-token",
        "notes/tea.md:1: github-token",
    ]
    git(root, "commit", "-qm", "x")
    assert scan("--staged") == 0
    assert capsys.readouterr().out == "no secrets in 0 files\n"


def test_a_vault_inside_a_repository_scans_only_its_own_files(
    tmp_path: Path, git: Git, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.txt").write_text(TOKEN)
    Vault.init(tmp_path / "notes")
    (tmp_path / "notes" / 'odd "näme".md').write_text(TOKEN)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "other.txt", "notes")

    assert scan("--staged", "--vault", str(tmp_path / "notes")) == 1
    assert capsys.readouterr().out.splitlines()[0] == 'odd "näme".md:1: github-token'


def test_a_pre_commit_hook_stops_only_commits_with_a_secret(root: Path, git: Git) -> None:
    git(root, "init", "-q")
    hook = root / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\nexec {sys.executable} -m memfs scan --staged\n")
    hook.chmod(0o755)
    git(root, "add", "notes/tea.md")
    git(root, "commit", "-qm", "tea")
    (root / "notes" / "tea.md").write_text(f"{TOKEN}\n")

    with pytest.raises(AssertionError, match=r"notes/tea\.md:1: github-token"):
        git(root, "commit", "-qam", "a secret")
    assert git(root, "log", "--oneline").count("\n") == 1
    (root / "notes" / "tea.md").write_text("Alice drinks tea.\n")
    git(root, "commit", "-qam", "tea")


def test_staged_without_git_is_an_error(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scan("--staged") == 1
    assert "git: fatal: not a git repository" in capsys.readouterr().err
    assert scan("--staged", "notes") == 2
    assert "--staged scans all that is staged" in capsys.readouterr().err
