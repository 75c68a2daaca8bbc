"""Pending turns on disk, and a process that ends before they are saved."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memfs import Vault
from memfs.agent import IntervalTrigger
from memfs.agent.extraction.config import Fact
from memfs.agent.extraction_queue.process_dirs import close_process_directories
from memfs.agent.messages import text_of
from memfs.stores import VaultStore

NEVER = {"trigger": IntervalTrigger(10_000)}


class FactPerMessage:
    """An extractor that makes one fact per message."""

    async def extract(self, messages: Sequence[Any], context: Any = None) -> Sequence[Any]:
        return [Fact(text_of(message)) for message in messages]


def facts_in(vault: Vault, actor: str = "alice", **settings: Any) -> VaultStore:
    extraction = {"extractor": FactPerMessage(), **NEVER, **settings.pop("extraction", {})}
    return VaultStore(vault, "/facts/{actorId}", actor=actor, extraction=extraction, **settings)


def state_dir(vault: Vault, name: str = "pending") -> Path:
    place = vault.root / ".memfs" / name
    place.mkdir(parents=True, exist_ok=True)
    return place


def crash() -> None:
    """Close the process directories as the end of a process does; their logs stay."""
    close_process_directories()


def log_of(*lines: object, stores: Sequence[str] = ("facts:/facts/alice",)) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in ({"stores": list(stores)}, *lines))


def turn(number: int, content: object) -> dict[str, Any]:
    return {"turn": number, "message": {"role": "user", "content": content}}
