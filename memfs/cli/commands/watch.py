"""The command `watch`: print changes in the vault as they happen."""

import argparse
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Self

from memfs.cli.inputs import open_vault
from memfs.cli.output import count, flush_stdout, print_json, safe_text
from memfs.data_types import Change
from memfs.errors import MemfsError
from memfs.json_output import change_json
from memfs.vault.vault import Vault

WATCHER_CHECK_SECONDS = 2  # seconds without a change after which `check_watcher` is called


def run_watch(args: argparse.Namespace) -> int:
    """Print changes until a signal arrives or the reader of stdout goes away."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ChangeQueue() as queue, open_vault(args.vault, watch=True) as vault:
            vault.subscribe(queue.put)
            memories = count(vault.status().memories, "memory")
            print(f"watching {safe_text(vault.root)}, {memories}; stop with Ctrl-C", file=sys.stderr, flush=True)
            for change in queue.until_closed(sys.stdout.fileno(), lambda: check_watcher(vault)):
                _print_change(vault, change, as_json=args.json)
    except (KeyboardInterrupt, BrokenPipeError):
        flush_stdout()
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


class ChangeQueue:
    """A queue of changes from the watcher's thread to the printing thread, which sleeps in poll() until one arrives."""

    def __init__(self) -> None:
        self._changes: SimpleQueue[Change] = SimpleQueue()
        self._wakeup_reader, self._wakeup_writer = os.pipe()
        os.set_blocking(self._wakeup_writer, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._wakeup_reader)
        os.close(self._wakeup_writer)

    def put(self, change: Change) -> None:
        """Add a change, from any thread, without blocking."""
        self._changes.put(change)
        with suppress(BlockingIOError):  # the pipe is full of unread bytes, which wake the reader as well
            os.write(self._wakeup_writer, b"!")

    def until_closed(self, stream: int, on_idle: Callable[[], None]) -> Iterator[Change]:
        """Yield changes until the reader of the stream closes it; call `on_idle` after some seconds without any."""
        poll = select.poll()
        poll.register(self._wakeup_reader, select.POLLIN)
        poll.register(stream, 0)
        while stream not in (ready := dict(poll.poll(WATCHER_CHECK_SECONDS * 1000))):
            if not ready:
                on_idle()
                continue
            os.read(self._wakeup_reader, 4096)
            while not self._changes.empty():
                yield self._changes.get()


def check_watcher(vault: Vault) -> None:
    """Raise MemfsError if the watcher of the vault is not running any more."""
    if not vault.status().watcher:
        error = MemfsError(f"{vault.root}: the watcher ended")
        error.hint = "See its log message, and start `memfs watch` again."
        raise error


def _print_change(vault: Vault, change: Change, *, as_json: bool) -> None:
    if as_json:
        print_json(change_json(change, _memory_id(vault, change.path), datetime.now(UTC)))
    elif change.old_path:
        print(change.kind, safe_text(change.old_path), "->", safe_text(change.path))
    else:
        print(change.kind, safe_text(change.path))
    sys.stdout.flush()


def _memory_id(vault: Vault, path: str) -> str | None:
    """Return the id of the memory at a path; None if it does not exist any more or cannot be read."""
    if os.path.lexists(vault.root / path):  # `read` would take the path of a missing file for an id and scan all files
        with suppress(MemfsError):
            return vault.read(path).id
    return None
