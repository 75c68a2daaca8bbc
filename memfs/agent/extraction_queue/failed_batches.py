"""Batches of turns whose extraction failed, in `.memfs/failed`: kept until they are retried or dropped."""

import json
import os
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memfs.agent.extraction_queue.pending_log import (
    MAX_FILE_BYTES,
    PendingLog,
    PendingSummary,
    drop_pending,
    from_json,
    to_json,
)
from memfs.agent.extraction_queue.process_dirs import open_state_dir
from memfs.agent.extraction_queue.turns import MessageEdit
from memfs.agent.messages import Message
from memfs.errors import MemfsError, VaultError
from memfs.fs.files import read, write

FAILED = "failed"


@dataclass(frozen=True)
class FailedBatch:
    """A batch of turns whose extraction failed; `store` is the place of its store (see `store_place`)."""

    name: str
    store: str
    reason: str
    time: float
    messages: Sequence[Message]


def keep_failed(root: Path, store: str, reason: str, messages: Sequence[Message]) -> str:
    """Write a batch whose extraction failed and return its name."""
    name = f"{time.time_ns()}-{secrets.token_hex(3)}.json"
    value = {"store": store, "reason": reason, "time": time.time(), "messages": messages}
    with open_state_dir(root, FAILED) as directory:
        text = json.dumps(value, ensure_ascii=False, indent=1, default=to_json)
        write(directory, name, text.encode("utf-8", "surrogatepass"))
        os.chmod(name, 0o600, dir_fd=directory)
        os.fsync(directory)
    return name


def list_failed(root: Path) -> list[FailedBatch]:
    """Return the failed batches, oldest first; files that cannot be read are left out."""
    with suppress(OSError, VaultError), open_state_dir(root, FAILED, create=False) as directory:
        return [found for name in sorted(os.listdir(directory)) if (found := _read_failed(directory, name))]
    return []


def retry(root: Path, batch: FailedBatch) -> None:
    """Move a failed batch back to `.memfs/pending`: the next agent on the vault takes it over."""
    log = PendingLog(root, [batch.store])
    log.append(*({"turn": number, "message": message} for number, message in enumerate(batch.messages)))
    log.sync()
    log.close()
    drop(root, batch)


def drop(root: Path, batch: FailedBatch | PendingSummary) -> None:
    """Delete a failed batch, or a pending log without a live owner; do nothing if it no longer exists."""
    if isinstance(batch, PendingSummary):
        drop_pending(root, batch)
        return
    with suppress(FileNotFoundError), open_state_dir(root, FAILED) as directory:
        os.unlink(batch.name, dir_fd=directory)


def edit_failed(root: Path, edit: MessageEdit) -> None:
    """Replace or remove a message in the failed batches; a batch without messages is deleted."""
    for batch in list_failed(root):
        if edit.affects(batch.messages):
            if kept := edit.apply_to_all(batch.messages):
                keep_failed(root, batch.store, batch.reason, kept)
            drop(root, batch)


def _read_failed(directory: int, name: str) -> FailedBatch | None:
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError, MemfsError):
        value = json.loads(read(directory, name, MAX_FILE_BYTES).data, object_hook=from_json)
        messages = [message for message in value["messages"] if isinstance(message, dict)]
        return FailedBatch(name, str(value["store"]), str(value["reason"]), float(value["time"]), messages)
    return None
