"""Facts that a model was told are accepted: on disk before it is told so, and written in the background."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from memfs.after_fork import Mutex
from memfs.agent.extraction_queue.pending_log import Accepted, Left, PendingLog
from memfs.agent.run_sync import ended, is_in_loop
from memfs.errors import AggregateMemoryError, InvalidMemoryError, MemfsError
from memfs.privacy.policy import DEFAULT, Policy, report

log = logging.getLogger("memfs.agent")
TRIES = 10  # after which a fact is left to the next start


class AcceptedFacts:
    """What was accepted and is not written yet; `write` writes one."""

    def __init__(
        self,
        write: Callable[[Accepted], Awaitable[None]],
        root: Path | None,
        places: Mapping[str, str],
        redaction: Policy | None = None,
    ) -> None:
        self._write, self._redaction = write, redaction or DEFAULT
        self._places = places  # by the names of those stores that last
        self._log = PendingLog(root, places.values()) if root and places else None
        self._writing: dict[str, asyncio.AbstractEventLoop] = {}  # keys, and where they are being written
        self._facts: dict[str, Accepted] = {}
        self._tries: dict[str, int] = {}
        self._inherited: list[str] = []  # that nobody has begun to write
        self._mutex = Mutex()  # of what is in the log and in `_facts`
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        return len(self._facts)

    async def accept(self, entries: Sequence[str], stores: Sequence[str]) -> None:
        """Take facts down for stores, durably where these last, and begin to write them.

        SecretRefusedError, and none is taken down, if one holds what is rejected.
        """
        admitted = [self._redaction.admit(entry) for entry in entries]
        for one in admitted:
            report("an accepted fact", one.counts)
        facts = {secrets.token_hex(8): Accepted(one.value, list(stores)) for one in admitted}
        await asyncio.to_thread(self._take_down, facts)
        for key in facts:
            self._begin(key)

    def inherit(self, left: Left) -> None:
        """Take over the facts that a process which is gone had accepted; `resume` or `flush` writes them."""
        names = {place: name for name, place in self._places.items()}
        facts = {
            key: self._redacted(fact, [names[place] for place in fact.stores if place in names])
            for key, fact in left.facts.items()
        }
        try:
            self._take_down(facts)
        except (OSError, MemfsError) as error:
            log.warning("accepted facts of an earlier run wait for the next one: %s", error)
            return
        self._inherited += left.facts
        left.facts = {}
        if left.is_empty:
            with suppress(OSError):  # written twice is there once
                left.log.clear()

    def resume(self) -> None:
        """Begin to write what was inherited, where there is an event loop."""
        if not self._inherited or not is_in_loop():
            return
        with self._mutex:
            keys, self._inherited = self._inherited, []
        for key in keys:
            self._begin(key)

    async def flush(self) -> None:
        """Write what is pending, and wait for what is being written. Never raises."""
        while running := [task for task in list(self._tasks) if task.get_loop() is asyncio.get_running_loop()]:
            await asyncio.wait(running)
        for key in list(self._facts):
            if loop := self._writing.get(key):  # by another flush, or in another loop
                await ended(lambda key=key: key not in self._writing, loop)  # type: ignore[misc]
            await self._try(key)

    def close(self) -> None:
        if self._log:
            self._log.close()

    def _take_down(self, facts: Mapping[str, Accepted]) -> None:
        with self._mutex:
            records = [self._record(key, fact) for key, fact in facts.items() if self._places.keys() & set(fact.stores)]
            if self._log and records:
                self._log.append(*records)
            self._facts.update(facts)
        if self._log and records:
            self._log.sync()

    def _redacted(self, fact: Accepted, stores: Sequence[str]) -> Accepted:
        """A fact that was accepted, and cannot be refused any more."""
        content, metadata = self._redaction.redact(fact.content), self._redaction.redact(fact.metadata)
        return Accepted(content.value, stores, metadata.value)

    def _begin(self, key: str) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._try(key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _try(self, key: str) -> None:
        with self._mutex:
            fact = self._facts.get(key)
            if fact is None or self._is_being_written(key) or self._tries.get(key, 0) >= TRIES:
                return
            self._writing[key] = asyncio.get_running_loop()
        try:
            await self._write(fact)
        except Exception as error:
            if not _is_refused(error):
                self._tries[key] = self._tries.get(key, 0) + 1
                log.warning("an accepted fact is not written yet: %s", error)
                return
            log.error("an accepted fact is dropped: %s", error)
        finally:
            self._writing.pop(key, None)
        with self._mutex, suppress(OSError, MemfsError):  # written twice is there once
            self._facts.pop(key, None)
            if self._log:
                self._log.append({"done": key})
                if not self._facts:
                    self._log.clear()

    def _is_being_written(self, key: str) -> bool:
        loop = self._writing.get(key)
        return loop is not None and not loop.is_closed()

    def _record(self, key: str, fact: Accepted) -> dict[str, Any]:
        places = [self._places[name] for name in fact.stores if name in self._places]
        return {"fact": key, "content": fact.content, "stores": places, "metadata": fact.metadata}


def _is_refused(error: Exception) -> bool:
    """Tell whether no store will ever take it."""
    reasons = error.errors if isinstance(error, AggregateMemoryError) else [error]
    return all(isinstance(reason, InvalidMemoryError) for reason in reasons)
