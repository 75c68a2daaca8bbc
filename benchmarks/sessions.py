"""Session logs: appends at several lengths, compared with a bare append; restoring, compared with json.loads."""

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.bench_run import BenchRun
from benchmarks.corpus import texts
from benchmarks.measure import Row, interleaved
from memfs import Vault
from memfs.agent.sessions import SessionLog

LENGTHS = (10, 1_000, 10_000)
APPEND_GOAL, RESTORE_GOAL = 1.5, 2.0
BASELINE = "open, write, fsync, close"
PARSING = "json.loads of each line"


def rows(run: BenchRun) -> list[Row]:
    """Return the rows of appends to logs of several lengths, and of restoring the longest."""
    lengths = sorted({min(length, 10 * run.size.memories) for length in LENGTHS})
    vault = Vault.init(run.folder / "sessions")
    found = [_appends(vault, length, run.size.writes) for length in lengths]
    return [*found, *_restores(vault, lengths[-1], run.size.passes)]


def _messages(seed: int, number: int) -> Iterator[dict[str, Any]]:
    """Return turns of a conversation, generated before timing starts."""
    generated = list(islice(texts(seed), number))
    roles = ("user", "assistant")
    return iter([{"role": roles[at % 2], "content": [{"text": text}]} for at, text in enumerate(generated)])


def _filled(vault: Vault, session: str, length: int) -> SessionLog:
    log = SessionLog(vault, session)
    log.append_many({"message": message} for message in _messages(length, length))
    return log


def _appends(vault: Vault, length: int, writes: int) -> Row:
    log = _filled(vault, f"append-{length}", length)
    file = vault.root / log.path
    bare = file.with_name("bare")
    bare.write_bytes(file.read_bytes())
    line = b"x" * (file.stat().st_size // (length + 1) - 1) + b"\n"
    new = _messages(1, writes + 10)
    taken = interleaved({"log": lambda: log.append(next(new)), "baseline": lambda: _append(bare, line)}, writes)
    return Row(
        f"session append, {length:,} messages in the log", taken["log"], BASELINE, taken["baseline"], APPEND_GOAL
    )


def _append(file: Path, line: bytes) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, line)
        os.fsync(fd)
    finally:
        os.close(fd)


def _restores(vault: Vault, length: int, passes: int) -> list[Row]:
    log = _filled(vault, "restore", length)
    lines = (vault.root / log.path).read_text().splitlines()
    taken = interleaved(
        {
            "log": lambda: SessionLog(vault, "restore").messages(),
            "strands": _restart(vault, length),
            "baseline": lambda: [json.loads(line) for line in lines],
        },
        passes,
        block=1,
    )
    assert len(log.messages()) == length
    rows = [("session restored", taken["log"]), ("session restored, for Strands", taken["strands"])]
    return [Row(f"{name}, {length:,} messages", one, PARSING, taken["baseline"], RESTORE_GOAL) for name, one in rows]


def _restart(vault: Vault, length: int) -> Any:
    """Return a function that makes the repository calls of a Strands manager when an agent restarts."""
    from strands.types.session import Session, SessionAgent, SessionType

    from memfs.integrations.strands import VaultSessionRepository

    repository = VaultSessionRepository(vault)
    repository.create_session(Session("restart", SessionType.AGENT))
    repository.create_agent("restart", SessionAgent("main", {}, {}))
    _filled(vault, "restart", length)

    def restart() -> Any:
        again = VaultSessionRepository(vault)
        again.read_session("restart")
        again.read_agent("restart", "main")
        return again.list_messages("restart", "main")

    assert len(restart()) == length
    return restart
