"""Session logs: an append beside a bare one, at several lengths; restoring beside json.loads of the lines."""

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.corpus import texts
from benchmarks.measure import Row, interleaved
from benchmarks.place import Place
from memfs import Vault
from memfs.agent.sessions import SessionLog

LENGTHS = (10, 1_000, 10_000)
APPEND_GOAL, RESTORE_GOAL = 1.5, 2.0
FLOOR = "open, write, fsync, close"
PARSING = "json.loads of each line"


def rows(place: Place) -> list[Row]:
    """Appends to logs of several lengths, and restoring the longest."""
    lengths = sorted({min(length, 10 * place.size.memories) for length in LENGTHS})
    vault = Vault.init(place.folder / "sessions")
    found = [_appends(vault, length, place.size.writes) for length in lengths]
    return [*found, *_restores(vault, lengths[-1], place.size.passes)]


def _messages(seed: int, number: int) -> Iterator[dict[str, Any]]:
    """Turns of a conversation, made before the clock starts."""
    made = list(islice(texts(seed), number))
    roles = ("user", "assistant")
    return iter([{"role": roles[at % 2], "content": [{"text": text}]} for at, text in enumerate(made)])


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
    taken = interleaved({"log": lambda: log.append(next(new)), "floor": lambda: _append(bare, line)}, writes)
    return Row(f"session append, {length:,} there", taken["log"], FLOOR, taken["floor"], APPEND_GOAL)


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
            "floor": lambda: [json.loads(line) for line in lines],
        },
        passes,
        block=1,
    )
    assert len(log.messages()) == length
    rows = [("session restored", taken["log"]), ("session restored, for Strands", taken["strands"])]
    return [Row(f"{name}, {length:,} messages", one, PARSING, taken["floor"], RESTORE_GOAL) for name, one in rows]


def _restart(vault: Vault, length: int) -> Any:
    """What Strands' manager asks a repository for when an agent starts again."""
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
