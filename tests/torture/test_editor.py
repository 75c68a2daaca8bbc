"""A person's save is never lost: an editor and an agent write the same file.

Every write carries a token of its own: `save-3` is the line of the editor's third save, `append-7` a line and
`key-9` a header value of the agent. The editor reads the file, adds its line to what it read, and saves; when
the file gets long it takes out the oldest lines, and notes which. So a token can be

- in the file, or in a conflict copy beside it;
- in a kept version: replaced there by a later write;
- taken out by the editor, which read it and left it out of a later save on purpose;
- else gone without a trace, and there must be none of these.

That a token is *only* in a kept version must have a reason. For a key of the agent it is its next value. For a
line of the agent it is an editor's save that was made from a state before that line: begun before the append was
acknowledged, ended after it began, and without the line. Any other way out of the file is memfs's own fault.
The agent keeps all versions here, not the last 20, so that there is time to look.
"""

import os
import random
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import memfs.storage.versions
from memfs import MemfsError, Vault
from memfs.errors import MemoryNotFoundError

from .figures import figure
from .support import LIMIT, Crew, Event, Log, history, sealed, swept, tokens

SMALL, FULL = 100, 1_500
SMALL_PROGRAM, FULL_PROGRAM = 10, 200
PAUSE = 0.002  # seconds at most between two steps of an editor
LONG, TIDY = 60, 20  # lines at which the editor takes out the oldest, and how many
_TOKEN = re.compile(r"\b(?:save|append|key)-\d+\b")


@pytest.mark.parametrize("saves", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_no_save_and_no_update_is_lost_beside_an_editor(tmp_path: Path, saves: int) -> None:
    """Half of the saves in place, half by rename."""
    _run(tmp_path, edit_by_hand, saves, "", "in place and by rename")


@pytest.mark.parametrize(
    ("saves", "program"),
    [
        pytest.param(SMALL_PROGRAM, "sed -i"),
        pytest.param(FULL_PROGRAM, "sed -i", marks=pytest.mark.torture),
        pytest.param(FULL_PROGRAM, "vim in place", marks=pytest.mark.torture),
        pytest.param(FULL_PROGRAM, "vim by rename", marks=pytest.mark.torture),
    ],
)
def test_no_save_and_no_update_is_lost_beside_a_real_editor(tmp_path: Path, saves: int, program: str) -> None:
    """The same with programs people use."""
    _run(tmp_path, edit_by_program, saves, program, program)


def _run(tmp_path: Path, editor: Callable[..., None], saves: int, program: str, how: str) -> None:
    root, stop, log = tmp_path / "vault", tmp_path / "stop", Log(tmp_path / "log")
    with Vault.init(root) as vault:
        ref = vault.add("A page that two of us write.", "/shared").path
    with Crew(tmp_path) as crew:
        agent = crew.start(update, str(root), ref, str(tmp_path / "log"), str(stop))
        person = crew.start(editor, str(root / ref), saves, program, str(tmp_path / "log"))
        person.finish(LIMIT + saves)
        stop.touch()
        agent.finish()
    versions = history(root)
    swept(root)

    events = log.new()
    with Vault(root) as vault:
        copies = [memory for memory in vault.list("/shared") if ".conflict-" in memory.path]
        assert {problem.path for problem in vault.check()} <= {memory.path for memory in copies}
        in_file = set(_TOKEN.findall(vault.read(ref).text))
        in_copies = {token for memory in copies for token in _TOKEN.findall(memory.text)}
        for memory in (vault.read(ref), *copies):
            tokens(memory.body)
    in_versions = set(_TOKEN.findall((versions + history(root)).decode(errors="replace")))
    saved = [event for event in events if event["kind"] == "save"]
    done = [event for event in events if event["kind"] in {"append", "key"}]
    taken_out = {token for event in saved for token in event["removed"]}
    here = in_file | in_copies | taken_out
    gone = [event["token"] for event in (*saved, *done) if event["token"] not in here | in_versions]
    assert gone == [], f"{len(gone)} of {len(saved)} saves and {len(done)} updates gone without a trace"
    aside = [event for event in events if event["kind"] == "append" and event["token"] not in here]
    assert [event for event in aside if not _overwritten(event, saved)] == []
    assert len(saved) == saves
    refused = [event["error"] for event in events if event["kind"] == "refused"]
    assert set(refused) <= {"MemoryNotFoundError"}
    figure(
        f"a person's save is never lost: {how}",
        f"{len(saved)} saves, {len(done)} acknowledged updates: 0 gone without a trace "
        f"({len(copies)} conflict copies; {len(aside)} appended lines overwritten by a save of an older state, in kept "
        f"versions; {sum(event['token'] not in here for event in saved)} saves in kept versions only; "
        f"{len(refused)} updates refused)",
    )


def _overwritten(event: Event, saved: list[Event]) -> bool:
    """Tell whether a save of a state without this line explains that it is not in the file."""
    return any(
        save["began"] < event["time"] and save["time"] > event["began"] and event["token"] not in save["held"]
        for save in saved
    )


def update(root: str, ref: str, path: str, stop: str) -> None:
    """The agent: append a line, set a key, as fast as it can."""
    memfs.storage.versions.MAX_VERSIONS = 1 << 30
    log, number = Log(path), 0
    with Vault(root) as vault:
        while not os.path.exists(stop):
            number += 1
            kind = "append" if number % 2 else "key"
            token, began = f"{kind}-{number}", time.monotonic()
            try:
                if kind == "append":
                    vault.append(ref, sealed(token))
                else:
                    vault.update(ref, last=token)
            except MemfsError as error:
                log.note(kind="refused", token=token, error=type(error).__name__)
                if not isinstance(error, MemoryNotFoundError):
                    raise
            else:
                log.note(kind=kind, token=token, began=began)


def edit_by_hand(file: str, saves: int, _: str, path: str) -> None:
    """The editor: read, think, save in place or by rename."""
    log, chance = Log(path), random.Random(saves)
    for number in range(saves):
        token, began = f"save-{number}", time.monotonic()
        with open(file, encoding="utf-8", newline="") as opened:
            text = opened.read()
        time.sleep(chance.random() * PAUSE)
        text, removed = _tidied(text)
        text = text.rstrip("\n") + f"\n{sealed(token)}\n"
        in_place = chance.random() < 0.5
        if in_place:
            fd = os.open(file, os.O_WRONLY | os.O_TRUNC)
            time.sleep(chance.random() * PAUSE)
            os.write(fd, text.encode())
            os.close(fd)
        else:
            temporary = f"{os.path.dirname(file)}/.{number}.swp"
            Path(temporary).write_text(text, encoding="utf-8", newline="")
            os.rename(temporary, file)
        log.note(kind="save", token=token, began=began, held=_TOKEN.findall(text), removed=removed, in_place=in_place)


def _tidied(text: str) -> tuple[str, list[str]]:
    """A text without its oldest lines, once it is long; and their tokens."""
    lines = text.splitlines(keepends=True)
    ours = [line for line in lines if line.startswith("token ")]
    out = set(ours[:TIDY]) if len(ours) > LONG else set()
    return "".join(line for line in lines if line not in out), _TOKEN.findall("".join(out))


def edit_by_program(file: str, saves: int, program: str, path: str) -> None:
    """The editor: a real one, which reads, adds a line and saves.

    vim sees by itself that a file changes under its hands, and then does not write: its save is tried again.
    """
    log, number = Log(path), 0
    while number < saves:
        token, began = f"save-{number}", time.monotonic()
        if program == "sed -i":
            command = ["sed", "-i", f"$a {sealed(token)}", file]
        else:
            copy = "yes" if program == "vim in place" else "no"
            setting = f"set backupskip= writebackup backupcopy={copy}"
            commands = (
                setting,
                f"call append('$', '{sealed(token)}')",
                "sleep 2m",
                "w!",
                "if &mod | cquit | endif",
                "qa!",
            )
            command = ["vim", "-es", "-N", "-n", "-u", "NONE", "-i", "NONE"]
            command += [part for line in commands for part in ("-c", line)] + [file]
        yes = "y\n" * 3  # vim asks whether it should write a file that changed
        if subprocess.run(command, check=False, timeout=LIMIT, input=yes, text=True).returncode == 0:
            log.note(kind="save", token=token, began=began, held=[], removed=[])
            number += 1
