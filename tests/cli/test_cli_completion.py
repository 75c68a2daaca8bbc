"""Shell completion: the scripts in real shells, and the candidates of `__complete`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memfs import Vault
from memfs.cli.command_table import COMMANDS
from memfs.cli.completion import find_vault, run_complete
from memfs.cli.main import main

BIN = Path(sys.executable).parent


def shell(name: str, where: Path, *lines: str) -> list[str]:
    """Run lines in a shell and return the lines it prints."""
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    env = {"PATH": f"{BIN}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "HOME": str(where)}
    done = subprocess.run(
        [name, "-c", "\n".join(lines)], cwd=where, env=env, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def in_bash(where: Path, *words: str) -> list[str]:
    """Return the completions of bash for the last word."""
    quoted = " ".join(f"'{word}'" for word in words)
    return shell(
        "bash", where, "source <(memfs completion bash)", f"COMP_WORDS=(memfs {quoted})",
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))", "_memfs", 'printf "%s\\n" "${COMPREPLY[@]}"',
    )  # fmt: skip


def in_fish(where: Path, line: str) -> list[str]:
    """Return the completions of fish for a line."""
    candidates = shell("fish", where, "memfs completion fish | source", f"complete -C '{line}'")
    return sorted(candidate.partition("\t")[0] for candidate in candidates)


def in_zsh(where: Path, line: str) -> str:
    """Return the arguments of a line in zsh after a tab; `memfs` is replaced by a function that only echoes them."""
    return "".join(
        shell(
            "zsh", where, "zmodload zsh/zpty", "zpty typist zsh -f -i",
            "zpty -w typist 'PS1=; autoload -Uz compinit; compinit -u -D; source <(memfs completion zsh)'",
            "zpty -w typist 'memfs() { [[ $1 == __complete ]] && command memfs \"$@\" || print -r \"<$*>\" }'",
            "zpty -w typist 'print ready.'",
            "zpty -r typist output '*ready.*ready.*'",
            f"zpty -w -n typist $'{line}\t\n'", "zpty -r typist output '*<*>*'",
            "print -r -- ${${output##*<}%%>*}", "zpty -d typist",
        )
    )  # fmt: skip


def candidates(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    run_complete(words)
    return [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()]


def test_bash_completes_commands_options_and_memories(example: Path) -> None:
    assert in_bash(example, "re") == ["remove", "read", "restore", "retry"]
    assert in_bash(example, "add", "x", "--t") == ["--type", "--tag", "--title"]
    assert in_bash(example, "read", "notes/Z") == ["notes/Zürich trip.md"]
    assert in_bash(example, "read", "notes/Zürich\\ tr") == ["notes/Zürich trip.md"]
    assert in_bash(example, "read", "nothing") == [""]


def test_bash_completes_in_the_vault_of_the_vault_option(example: Path) -> None:
    assert in_bash(example.parent, "--vault", str(example), "read", "fa") == ["facts/"]
    assert in_bash(example.parent, "--vault", "=", str(example), "read", "fa") == ["facts/"]
    assert in_bash(example.parent, "read", "fa") == [""]


def test_fish_completes_the_same(example: Path) -> None:
    assert in_fish(example, "memfs re") == ["read", "remove", "restore", "retry"]
    assert in_fish(example, "memfs add x --type=f") == ["--type=fact"]
    assert in_fish(example, "memfs read notes/Zürich\\ tr") == ["notes/Zürich trip.md"]
    assert in_fish(example.parent, f"memfs --vault={example} read fa") == ["facts/"]
    assert in_fish(example.parent, "memfs read fa") == []


def test_zsh_completes_the_same(example: Path) -> None:
    assert in_zsh(example, "memfs read notes/Z") == "read notes/Zürich trip.md"
    assert in_zsh(example, "memfs add x --type=f") == "add x --type=fact"
    assert in_zsh(example.parent, f"memfs --vault={example} read fa") == f"--vault={example} read facts/"
    assert in_zsh(example, "memfs nothing") == "nothing"


def test_every_command_and_option_is_a_candidate(capsys: pytest.CaptureFixture[str]) -> None:
    assert candidates(capsys, "") == [command.name for command in COMMANDS]
    for command in COMMANDS:
        options = {name for argument in command.arguments for name in argument.names if name.startswith("--")}
        assert options | {"--vault", "--json", "--help"} == set(candidates(capsys, command.name, "-"))


def test_candidates_fit_the_cursor_position(
    example: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(example / "facts")

    assert candidates(capsys, "read", "facts/alice/cl") == [
        "facts/alice/climbing-hall-pass.md", "facts/alice/climbs-6b.md", "facts/alice/climbs-6c.md",
    ]  # fmt: skip
    assert candidates(capsys, "move", "people/bob", "p") == ["people/", "preferences/", "projects/"]
    assert candidates(capsys, "move", "people/bob", "people/") == []
    assert candidates(capsys, "forget", "people/bob", "people/al") == ["people/alice.md"]
    assert candidates(capsys, "add", "x", "-n", "/fac") == ["/facts/"]
    assert candidates(capsys, "add", "x", "--type", "f") == ["fact"]
    assert candidates(capsys, "add", "x", "--set", "") == []
    assert candidates(capsys, "update", "--set", "a", "=", "b", "people/al") == ["people/alice.md"]
    assert candidates(capsys, "completion", "") == ["bash", "zsh", "fish"]
    assert candidates(capsys, "init", "al") == ["alice/"]
    assert candidates(capsys, "nonsense", "") == []


def test_files_that_are_not_memories_are_no_candidates(
    vault: Vault, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("README.md", "~tea.md", "#tea.md", ".tea.md", "tea.txt", "tea\x1b.md", "tea.md"):
        (vault.root / name).write_text("x")
    (vault.root / "sessions").mkdir()
    (vault.root / "link.md").symlink_to("tea.md")
    monkeypatch.chdir(vault.root)

    assert candidates(capsys, "read", "") == ["tea.md"]


def test_completion_finds_the_vault_that_vault_finds(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    (vault.root / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(vault.root / "a" / "b")
    by_settings = find_vault("")
    (vault.root / "memfs.yaml").unlink()
    by_state = find_vault("")
    shutil.rmtree(vault.root / ".memfs")

    assert by_settings == by_state == str(vault.root)
    assert find_vault("") is None


def test_completion_opens_no_vault(example: Path) -> None:
    code = "import sys; from memfs.cli.main import main; main(['__complete', 'read', 'p']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=example, capture_output=True, text=True, timeout=60)

    assert "people/" in done.stdout
    assert not set(done.stdout.split()) & {"yaml", "json", "memfs.vault.vault", "memfs.data_types", "filelock"}


def test_the_scripts_can_be_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    for name, first in {"bash": "_memfs() {", "zsh": "_memfs() {", "fish": "function __memfs_complete"}.items():
        assert main(["completion", name, "--json"]) == 0
        assert capsys.readouterr().out.startswith(f'{{"shell": "{name}", "script": "{first}')
