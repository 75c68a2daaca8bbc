"""Facts that the add tool accepted: they are on disk before the model gets its result, and are written afterwards."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from memfs.after_fork import Mutex
from memfs.agent.extraction_queue.pending_log import AcceptedFact, OrphanLog, PendingLog
from memfs.agent.run_sync import is_in_loop, wait_for_other_loop
from memfs.errors import AggregateMemoryError, InvalidMemoryError, MemfsError
from memfs.privacy.policy import DEFAULT_POLICY, Policy, log_redactions

log = logging.getLogger("memfs.agent")
MAX_WRITE_ATTEMPTS = 10  # after which a fact waits for the next start


class AcceptedFacts:
    """The facts that were accepted and are not written yet; `write` writes one to its stores."""

    def __init__(
        self,
        write: Callable[[AcceptedFact], Awaitable[None]],
        root: Path | None,
        places: Mapping[str, str],
        redaction: Policy | None = None,
    ) -> None:
        self._write, self._redaction = write, redaction or DEFAULT_POLICY
        self._places = places  # of the persistent stores, by name
        self._log = PendingLog(root, places.values()) if root and places else None
        self._writing: dict[str, asyncio.AbstractEventLoop] = {}  # the loop in which a fact is being written, by key
        self._facts: dict[str, AcceptedFact] = {}
        self._attempts: dict[str, int] = {}
        self._adopted: list[str] = []  # keys of adopted facts whose write has not started
        self._mutex = Mutex()  # protects the log and `_facts`
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """The number of facts that are not written yet."""
        return len(self._facts)

    async def accept(self, entries: Sequence[str], stores: Sequence[str]) -> None:
        """Record facts for stores, on disk for persistent ones, and start to write them.

        Raises SecretRefusedError, and records none, if the policy rejects one.
        """
        admitted = [self._redaction.admit(entry) for entry in entries]
        for one in admitted:
            log_redactions("an accepted fact", one.counts)
        facts = {secrets.token_hex(8): AcceptedFact(one.value, list(stores)) for one in admitted}
        await asyncio.to_thread(self._record, facts)
        for key in facts:
            self._start_write(key)

    def adopt(self, orphan: OrphanLog) -> None:
        """Take over the accepted facts of a process that has ended; `resume` or `flush` writes them."""
        names = {place: name for name, place in self._places.items()}
        facts = {
            key: self._redact(fact, [names[place] for place in fact.stores if place in names])
            for key, fact in orphan.facts.items()
        }
        try:
            self._record(facts)
        except (OSError, MemfsError) as error:
            log.warning("accepted facts of an earlier run wait for the next one: %s", error)
            return
        self._adopted += orphan.facts
        orphan.facts = {}
        if orphan.is_empty:
            with suppress(OSError):  # if it stays, its facts are written again, and stores keep each once
                orphan.log.clear()

    def resume(self) -> None:
        """Start to write the adopted facts, if an event loop runs."""
        if not self._adopted or not is_in_loop():
            return
        with self._mutex:
            keys, self._adopted = self._adopted, []
        for key in keys:
            self._start_write(key)

    async def flush(self) -> None:
        """Write the pending facts, and wait for running writes; facts that fail stay pending. Never raises."""
        while running := [task for task in list(self._tasks) if task.get_loop() is asyncio.get_running_loop()]:
            await asyncio.wait(running)
        for key in list(self._facts):
            if loop := self._writing.get(key):  # by another flush, or in another loop
                await wait_for_other_loop(lambda key=key: key not in self._writing, loop)  # type: ignore[misc]
            await self._try_write(key)

    def close(self) -> None:
        """Release the log; its pending facts wait for the next agent."""
        if self._log:
            self._log.close()

    def _record(self, facts: Mapping[str, AcceptedFact]) -> None:
        with self._mutex:
            records = [
                self._to_record(key, fact) for key, fact in facts.items() if self._places.keys() & set(fact.stores)
            ]
            if self._log and records:
                self._log.append(*records)
            self._facts.update(facts)
        if self._log and records:
            self._log.sync()

    def _redact(self, fact: AcceptedFact, stores: Sequence[str]) -> AcceptedFact:
        """Return an accepted fact, redacted; it cannot be refused any more."""
        content, metadata = self._redaction.redact(fact.content), self._redaction.redact(fact.metadata)
        return AcceptedFact(content.value, stores, metadata.value)

    def _start_write(self, key: str) -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._try_write(key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _try_write(self, key: str) -> None:
        with self._mutex:
            fact = self._facts.get(key)
            if fact is None or self._is_being_written(key) or self._attempts.get(key, 0) >= MAX_WRITE_ATTEMPTS:
                return
            self._writing[key] = asyncio.get_running_loop()
        try:
            await self._write(fact)
        except Exception as error:
            if not _is_refused(error):
                self._attempts[key] = self._attempts.get(key, 0) + 1
                log.warning("an accepted fact is not written yet: %s", error)
                return
            log.error("an accepted fact is dropped: %s", error)
        finally:
            self._writing.pop(key, None)
        with self._mutex, suppress(OSError, MemfsError):  # without the record it is written again, and stored once
            self._facts.pop(key, None)
            if self._log:
                self._log.append({"done": key})
                if not self._facts:
                    self._log.clear()

    def _is_being_written(self, key: str) -> bool:
        loop = self._writing.get(key)
        return loop is not None and not loop.is_closed()

    def _to_record(self, key: str, fact: AcceptedFact) -> dict[str, Any]:
        places = [self._places[name] for name in fact.stores if name in self._places]
        return {"fact": key, "content": fact.content, "stores": places, "metadata": fact.metadata}


def _is_refused(error: Exception) -> bool:
    """Return whether all stores refuse the fact, and always will."""
    reasons = error.errors if isinstance(error, AggregateMemoryError) else [error]
    return all(isinstance(reason, InvalidMemoryError) for reason in reasons)
