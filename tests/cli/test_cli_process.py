"""Behaviour that needs a real process: stdin, exit codes, signals, pipes, a terminal, an editor."""

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli_process import MEMFS, TIMEOUT_SECONDS, environment, on_terminal, run

from memfs import Vault

# --- start


def test_version_imports_nothing_heavy(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "memfs", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    assert re.fullmatch(r"memfs \d+\.\d+\.\d+\n", done.stdout)
    assert not imported & {
        "yaml",
        "pydantic",
        "tantivy",
        "argparse",
        "json",
        "memfs.vault.vault",
        "memfs.data_types",
        "filelock",
    }


def test_a_command_imports_only_its_own_module(example: Path) -> None:
    code = "import sys; from memfs.cli.main import main; main(['check']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=example, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    groups = {name.removeprefix("memfs.cli.") for name in done.stderr.split() if name.startswith("memfs.cli.")}

    assert groups == {"main", "parser", "arguments", "command_table", "commands", "commands.check", "inputs", "output"}


def test_a_removed_current_directory_is_a_clear_error(tmp_path: Path) -> None:
    line = f'mkdir gone; cd gone; rmdir ../gone; "{sys.executable}" -m memfs list'
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment(), capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (1, "memfs: the current directory does not exist any more\n")


def test_without_a_vault_the_exit_code_is_2(tmp_path: Path) -> None:
    done = run(tmp_path, "list")

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no vault here\nhint: Make one with" in done.stderr


def test_a_log_level_that_does_not_exist_is_a_usage_error(example: Path) -> None:
    done = run(example, "list", MEMFS_LOG="loud")

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().splitlines() == [
        "memfs: MEMFS_LOG: 'loud' is not debug, info, warning or error",
        "hint: Set it to one of these, or unset it.",
    ]


# --- stdin and stdout


def test_a_text_from_stdin_is_stored_exactly(example: Path) -> None:
    text = "---\nlooks: like a header\n---\r\n\n東京 \x1b[31m\n\n".encode()
    run(example, "add", "-", "-n", "/raw", stdin=text + b"\n")
    path = run(example, "list", "/raw", "--paths").stdout.decode().strip()

    assert run(example, "read", path, "--body").stdout == text + b"\n"


def test_append_and_update_read_stdin(example: Path) -> None:
    run(example, "update", "people/emma", "--body", "-", stdin=b"One.\n")
    run(example, "append", "people/emma", "-", stdin=b"Two.\nThree.\n")

    assert run(example, "read", "people/emma", "--body").stdout == b"One.\nTwo.\nThree.\n"


def test_stdin_that_is_not_utf8_is_refused(example: Path) -> None:
    done = run(example, "add", "-", stdin=b"caf\xe9")

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"memfs: stdin: is not UTF-8 at byte 3\n")


def test_a_closed_reader_of_stdout_is_exit_code_141_without_a_message(example: Path) -> None:
    process = subprocess.Popen(
        [*MEMFS, "list"], cwd=example, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()

    assert (process.wait(TIMEOUT_SECONDS), stderr) == (141, b"")


def test_a_full_disk_behind_stdout_is_an_error(example: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*MEMFS, "list"], cwd=example, stdout=full, stderr=subprocess.PIPE, timeout=TIMEOUT_SECONDS
        )

    assert (done.returncode, done.stderr) == (1, b"memfs: no space left on device\n")


def test_closed_streams_do_not_crash(example: Path) -> None:
    def shell(line: str) -> "subprocess.CompletedProcess[bytes]":
        command = ["sh", "-c", line, "sh", *MEMFS]
        return subprocess.run(command, cwd=example, env=environment(), capture_output=True, timeout=TIMEOUT_SECONDS)

    assert shell('"$@" add - <&-').stderr.startswith(b"memfs: stdin: is closed\n")
    assert shell('"$@" remove people/emma <&-').returncode == 2
    assert shell('"$@" list >&-').returncode == 0


def test_a_terminal_of_another_encoding_gets_escapes(example: Path) -> None:
    done = run(example, "list", "/notes", PYTHONIOENCODING="ascii")
    as_json = run(example, "list", "/notes", "--json", PYTHONIOENCODING="ascii")

    assert (done.returncode, as_json.returncode) == (0, 0)
    assert b"Z\\xfcrich trip.md" in done.stdout
    assert b'"notes/Z\\u00fcrich trip.md"' in as_json.stdout


# --- signals and locks


def test_ctrl_c_ends_with_130_and_no_message(example: Path) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen([*MEMFS, "add", "-"], cwd=example, stdin=slave, stderr=subprocess.PIPE)
    assert process.stderr
    process.stderr.readline()  # it waits for the text now
    process.send_signal(signal.SIGINT)
    stderr = process.stderr.read()
    process.stderr.close()
    os.close(master)
    os.close(slave)

    assert (process.wait(TIMEOUT_SECONDS), stderr) == (130, b"")


def test_a_locked_namespace_is_exit_code_4(example: Path) -> None:
    code = (
        "import sys; from memfs.vault.vault import Vault; Vault.__init__.__kwdefaults__['lock_timeout'] = 0.2\n"
        "from memfs.cli.main import main; sys.exit(main(['add', 'x', '-n', '/people']))"
    )
    holder = os.open(example / "people", os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=example, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    os.close(holder)

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("memfs: /people: still locked by another writer after 0.2 s\nhint: Try again")


# --- a terminal


def test_remove_asks_at_a_terminal(example: Path) -> None:
    no = on_terminal(example, "remove", "people/emma", typed="\n")
    still_exists = (example / "people/emma.md").exists()
    yes = on_terminal(example, "remove", "people/emma", "people/yuki", typed="y\n")

    assert (no[0], still_exists) == (1, True)
    assert "people/emma.md  Emma Moreau\nDelete 1 memory with all kept versions? [y/N] nothing was removed\n" in no[1]
    assert yes[0] == 0
    assert yes[1].endswith(
        "Delete 2 memories with all kept versions? [y/N] removed people/emma.md\nremoved people/yuki.md\n"
    )


def test_remove_at_a_terminal_goes_on_after_a_failure(example: Path) -> None:
    code, seen = on_terminal(example, "remove", "people/emma", "people/nobody", typed="y\n")

    assert code == 1
    assert "people/emma.md  Emma Moreau\nDelete 1 memory with all kept versions? [y/N] removed people/emma.md\n" in seen
    assert "memfs: 'people/nobody': no such memory\n" in seen
    assert not (example / "people/emma.md").exists()
    code, seen = on_terminal(example, "remove", "people/nobody", typed="y\n")
    assert (code, "Delete" in seen, "'people/nobody': no such memory" in seen) == (1, False, True)


def test_ctrl_c_at_a_question_ends_its_line(example: Path) -> None:
    command = [*MEMFS, "remove", "people/emma"]
    master, slave = pty.openpty()
    with subprocess.Popen(command, cwd=example, env=environment(), stdin=slave, stderr=subprocess.PIPE) as process:
        assert process.stderr
        seen = b""
        while not seen.endswith(b"[y/N] "):
            seen += process.stderr.read(1)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    os.close(master)
    os.close(slave)

    assert (process.returncode, rest) == (130, b"\n")
    assert (example / "people/emma.md").exists()


def test_the_debug_log_has_the_duration_of_a_search(example: Path) -> None:
    log = run(example, "search", "peanut", MEMFS_LOG="debug").stderr.decode()

    assert re.search(r"memfs: debug: search: 2 hits in \d+\.\d\d ms, 45 memories known, index \w+\n", log)
    assert run(example, "search", "peanut").stderr == b""


def test_move_at_a_terminal_counts_links_with_the_old_path(example: Path) -> None:
    code, seen = on_terminal(example, "move", "people/bob", "/team", NO_COLOR="1")
    broken = [line for line in run(example, "check", "--all").stdout.decode().splitlines() if "[[people/bob]]" in line]

    assert code == 0
    assert len(broken) > 5
    assert seen == (f"moved to team/bob.md\nnote: {len(broken)} links have the old path; `memfs check` shows them\n")
    _, seen = on_terminal(example, "move", "notes/dentist", "/health")
    assert seen == "moved to health/dentist.md\nnote: 1 link has the old path; `memfs check` shows it\n"
    run(example, "add", "Tea.", "--namespace", "/notes")
    assert on_terminal(example, "move", "notes/tea", "/t") == (0, "moved to t/tea.md\n")
    assert run(example, "move", "people/yuki", "/team").stderr == b""


def test_lines_fit_the_terminal(example: Path) -> None:
    for words in (("list",), ("list", "--table"), ("list", "--archived", "--table")):
        _, seen = on_terminal(example, *words, columns=72, NO_COLOR="1")
        assert max(len(line) for line in seen.splitlines()) <= 72
        assert "…" in seen


def test_wide_characters_keep_columns_aligned(example: Path) -> None:
    _, seen = on_terminal(example, "list", "/notes", columns=120, NO_COLOR="1")

    assert "├── climbing routes.md  Climbing routes\n" in seen
    assert "└── 東京 office.md      Meridian" in seen


def test_colours_are_for_terminals_without_no_color(example: Path) -> None:
    assert "\x1b[" in on_terminal(example, "list")[1]
    assert "\x1b[" not in on_terminal(example, "list", NO_COLOR="1")[1]
    assert "\x1b[" not in on_terminal(example, "list", TERM="dumb")[1]
    assert b"\x1b[" not in run(example, "list").stdout


def test_control_characters_of_a_vault_never_reach_the_terminal(vault: Vault) -> None:
    evil = "\x1b]0;owned\x07\x9b2J\u202egpj.exe\r"
    vault.add(f"{evil}\nBody.", namespace="/a", title=f"A{evil}\n\tB", type=evil, tags=[evil])
    (vault.root / f"a/\x1b[2J{evil[:4]}\nx.md").write_text(f"---\ntype: [{evil}\n---\n# {evil}\n")
    read = (vault.root / "a").iterdir()
    shown = [("list",), ("list", "--table"), ("list", "--paths"), ("list", "--json"), ("check",), ("check", "--json")]
    shown += [("read", f"a/{path.name}") for path in read]
    for words in shown:
        _, seen = on_terminal(vault.root, *words, columns=300, NO_COLOR="1")
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", seen), words
        assert "x1b" in seen or "u001b" in seen, words


def test_read_on_a_terminal_ends_with_one_line_break(vault: Vault) -> None:
    (vault.root / "bare.md").write_bytes(b"one\r\ntwo")

    assert on_terminal(vault.root, "read", "bare") == (0, "one\ntwo\n")
    assert run(vault.root, "read", "bare").stdout == b"one\r\ntwo"


# --- the editor


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_edit_replaces_the_file_with_the_saved_text(example: Path, tmp_path: Path) -> None:
    editor = script(tmp_path / "my editor", 'case "$1" in *.md) echo "Sings alto." >> "$1";; esac')
    done = run(example, "edit", "people/emma", VISUAL=f"'{editor}'", EDITOR="false", TMPDIR=str(tmp_path))

    assert (done.returncode, done.stdout) == (0, b"updated people/emma.md\n")
    assert (example / "people/emma.md").read_text().endswith("\nSings alto.\n")
    assert list(tmp_path.glob("*.md")) == []


def test_edit_without_a_change_prints_unchanged(example: Path) -> None:
    assert run(example, "edit", "people/emma", EDITOR="true").stdout == b"unchanged people/emma.md\n"


def test_edit_keeps_the_text_when_the_file_changed_meanwhile(example: Path, tmp_path: Path) -> None:
    target = example / "people/emma.md"
    editor = script(tmp_path / "editor", f'echo "From afar." >> "{target}"; echo "Mine." >> "$1"')
    done = run(example, "edit", "people/emma", EDITOR=editor, TMPDIR=str(tmp_path))
    kept = re.search(r"Your text is kept in (.*\.md)\.", done.stderr.decode())

    assert (done.returncode, done.stdout) == (3, b"")
    assert kept
    assert Path(kept[1]).read_text().endswith("\nMine.\n")
    assert target.read_text().endswith("\nFrom afar.\n")


@pytest.mark.parametrize(
    ("editor", "code", "words"),
    [
        ("no-such-editor", 2, "memfs: editor 'no-such-editor': no such file or directory"),
        ("'", 2, 'memfs: editor "\'": no closing quotation'),
        ("false", 1, "memfs: editor 'false' ended with exit code 1: nothing was changed"),
        ("rm", 1, "memfs: COPY: no such file or directory"),
        ("truncate -s 0", 1, "memfs: people/emma.md: the edited text is empty: nothing was changed"),
        (
            "sh -c 'printf \"\\351\" > $0'",
            1,
            "memfs: people/emma.md: the edited text is not UTF-8: nothing was changed",
        ),
    ],
)
def test_an_editor_that_fails_changes_nothing(
    example: Path, tmp_path: Path, editor: str, code: int, words: str
) -> None:
    before = (example / "people/emma.md").read_bytes()
    done = run(example, "edit", "people/emma", EDITOR=editor, TMPDIR=str(tmp_path))

    assert (done.returncode, done.stdout) == (code, b"")
    assert re.sub(r"\S+/emma-\S+\.md", "COPY", done.stderr.decode().splitlines()[0]) == words
    assert (example / "people/emma.md").read_bytes() == before


def test_edit_without_a_terminal_does_not_start_vi(example: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "vi", 'echo "Sings alto." >> "$1"')
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = run(example, "edit", "people/emma", PATH=path, TMPDIR=str(tmp_path))

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().splitlines() == [
        "memfs: edit: vi needs a terminal, and there is none",
        "hint: Set VISUAL or EDITOR to an editor that needs none, or use `memfs update` or `memfs append`.",
    ]
    assert list(tmp_path.glob("*.md")) == []
    assert on_terminal(example, "edit", "people/emma", PATH=path) == (0, "updated people/emma.md\n")


def test_edit_prints_problems_in_the_new_header(example: Path) -> None:
    done = run(example, "edit", "people/emma", EDITOR="sed -i s/importance:.*/importance:high/")

    assert done.returncode == 0
    assert re.match(rb"people/emma\.md:\d+: ", done.stderr)


def test_ctrl_c_in_the_editor_is_left_to_the_editor(example: Path, tmp_path: Path) -> None:
    wait = "echo ready; while :; do sleep 0.05; done"
    editor = script(tmp_path / "editor", f"trap 'echo Caught. >> \"$1\"; exit 0' INT; {wait}")
    process = subprocess.Popen(
        [*MEMFS, "edit", "people/emma"],
        cwd=example,
        env=environment(EDITOR=editor),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout
    first = process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    last = process.stdout.readline()
    process.stdout.close()

    assert (first, last, process.wait(TIMEOUT_SECONDS)) == (b"ready\n", b"updated people/emma.md\n", 0)
    assert (example / "people/emma.md").read_text().endswith("\nCaught.\n")
