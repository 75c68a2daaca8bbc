"""A person's save is never lost: an editor and an agent write the same file.

Every write has its own token: `save-3` is the line of the editor's third save, `append-7` a line and `key-9` a
header value of the agent. The editor reads the file, adds its line, and saves; when the file gets long it removes
the oldest lines, and logs which. So a token can be

- in the file, or in a conflict copy beside it;
- in a kept version, because a later write replaced it;
- removed by the editor, which read it and left it out of a later save on purpose;
- else lost without a trace, which must never happen.

There must be a reason if a token is *only* in a kept version. For a key of the agent it is the next value. For a
line of the agent it is an editor's save of an earlier state: begun before the append was acknowledged, ended after
the append began, and without the line. Any other disappearance is a fault of memfs.
The agent keeps all versions here, not the last 20, so that all of them can be checked at the end.
"""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.editor import TOKEN, edit_by_hand
from support.processes import TIMEOUT_SECONDS, Event, Log, WorkerPool, checksummed, tokens
from support.vaults import assert_cleaned_up, history

import memfs.storage.versions
from memfs import MemfsError, Vault
from memfs.errors import MemoryNotFoundError

from .figures import figure

SMALL, FULL = 100, 1_500
SMALL_PROGRAM, FULL_PROGRAM = 10, 200


@pytest.mark.parametrize("saves", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_no_save_and_no_update_is_lost_beside_an_editor(tmp_path: Path, saves: int) -> None:
    """Half of the saves are in place, half by rename."""
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
    """The same, with real programs."""
    _run(tmp_path, edit_by_program, saves, program, program)


def _run(tmp_path: Path, editor: Callable[..., None], saves: int, program: str, how: str) -> None:
    root, stop, log = tmp_path / "vault", tmp_path / "stop", Log(tmp_path / "log")
    with Vault.init(root) as vault:
        ref = vault.add("A page with two writers.", "/shared").path
    with WorkerPool(tmp_path) as pool:
        agent = pool.start(update, str(root), ref, str(tmp_path / "log"), str(stop))
        person = pool.start(editor, str(root / ref), saves, program, str(tmp_path / "log"))
        person.finish(TIMEOUT_SECONDS + saves)
        stop.touch()
        agent.finish()
    versions = history(root)
    assert_cleaned_up(root)

    events = log.new()
    with Vault(root) as vault:
        copies = [memory for memory in vault.list("/shared") if ".conflict-" in memory.path]
        assert {problem.path for problem in vault.check()} <= {memory.path for memory in copies}
        in_file = set(TOKEN.findall(vault.read(ref).text))
        in_copies = {token for memory in copies for token in TOKEN.findall(memory.text)}
        for memory in (vault.read(ref), *copies):
            tokens(memory.body)
    in_versions = set(TOKEN.findall((versions + history(root)).decode(errors="replace")))
    saved = [event for event in events if event["kind"] == "save"]
    done = [event for event in events if event["kind"] in {"append", "key"}]
    removed = {token for event in saved for token in event["removed"]}
    here = in_file | in_copies | removed
    lost = [event["token"] for event in (*saved, *done) if event["token"] not in here | in_versions]
    assert lost == [], f"{len(lost)} of {len(saved)} saves and {len(done)} updates lost without a trace"
    overwritten = [event for event in events if event["kind"] == "append" and event["token"] not in here]
    assert [event for event in overwritten if not _overwritten(event, saved)] == []
    assert len(saved) == saves
    refused = [event["error"] for event in events if event["kind"] == "refused"]
    assert set(refused) <= {"MemoryNotFoundError"}
    figure(
        f"a person's save is never lost: {how}",
        f"{len(saved)} saves, {len(done)} acknowledged updates: 0 lost without a trace "
        f"({len(copies)} conflict copies; {len(overwritten)} appended lines overwritten by a save of an older state, "
        f"in kept versions; {sum(event['token'] not in here for event in saved)} saves in kept versions only; "
        f"{len(refused)} updates refused)",
    )


def _overwritten(event: Event, saved: list[Event]) -> bool:
    """Return whether a save of an earlier state explains that this line is not in the file."""
    return any(
        save["began"] < event["time"] and save["time"] > event["began"] and event["token"] not in save["held"]
        for save in saved
    )


def update(root: str, ref: str, path: str, stop: str) -> None:
    """Act as the agent: append a line, set a key, as fast as possible."""
    memfs.storage.versions.MAX_VERSIONS = 1 << 30
    log, number = Log(path), 0
    with Vault(root) as vault:
        while not os.path.exists(stop):
            number += 1
            kind = "append" if number % 2 else "key"
            token, began = f"{kind}-{number}", time.monotonic()
            try:
                if kind == "append":
                    vault.append(ref, checksummed(token))
                else:
                    vault.update(ref, last=token)
            except MemfsError as error:
                log.note(kind="refused", token=token, error=type(error).__name__)
                if not isinstance(error, MemoryNotFoundError):
                    raise
            else:
                log.note(kind=kind, token=token, began=began)


def edit_by_program(file: str, saves: int, program: str, path: str) -> None:
    """Run a real editor, which reads, adds a line and saves.

    vim notices when a file changes while it is open, and then does not write: its save is repeated.
    """
    log, number = Log(path), 0
    while number < saves:
        token, began = f"save-{number}", time.monotonic()
        if program == "sed -i":
            command = ["sed", "-i", f"$a {checksummed(token)}", file]
        else:
            copy = "yes" if program == "vim in place" else "no"
            setting = f"set backupskip= writebackup backupcopy={copy}"
            commands = (
                setting,
                f"call append('$', '{checksummed(token)}')",
                "sleep 2m",
                "w!",
                "if &mod | cquit | endif",
                "qa!",
            )
            command = ["vim", "-es", "-N", "-n", "-u", "NONE", "-i", "NONE"]
            command += [part for line in commands for part in ("-c", line)] + [file]
        yes = "y\n" * 3  # vim asks whether it should write a file that changed
        if subprocess.run(command, check=False, timeout=TIMEOUT_SECONDS, input=yes, text=True).returncode == 0:
            log.note(kind="save", token=token, began=began, held=[], removed=[])
            number += 1
