"""The coordinator: takes down the turns of one agent, and has each store get them in the background.

Every store has a mark, the number of the last turn it has. A save moves the mark ahead of its work, so that the next
one goes on behind it, and back if it fails or is cancelled. The saves of a store follow one another, also across
event loops; a save whose loop is closed is given up. With a log, a turn is on disk before anything is done with it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

from memfs.after_fork import Mutex
from memfs.agent.echo_filter import EchoFilter
from memfs.agent.extraction.config import Binding, Extraction, ExtractorContext
from memfs.agent.extraction.facts import redacted, write_fact
from memfs.agent.extraction_queue.pending_log import Left, PendingLog, amend_unheld, keep_failed
from memfs.agent.extraction_queue.turns import Amendment, Turn, batch, filtered
from memfs.agent.messages import Message, copied, transcript
from memfs.agent.run_sync import Save, ended, is_in_loop
from memfs.agent.telemetry import Telemetry, quietly
from memfs.errors import AggregateMemoryError, ExtractionError
from memfs.privacy.log_redaction import heard, policy_of
from memfs.privacy.policy import Policy
from memfs.stores.agent.protocol import AddMessagesContext, CuratedStore, Found, MemoryStore, has_method, store_place

log = logging.getLogger("memfs.agent")
FAILURES = 10  # in a row, after which a store is tried less often
PROBE = 3  # of so many requests one is tried then
SIMILAR = 10  # memories that it may name
_living: "WeakSet[Coordinator]" = WeakSet()  # of this process


class Coordinator:
    """The turns of one agent, on their way into its stores. Thread-safe."""

    aggregate: type[AggregateMemoryError] = AggregateMemoryError

    def __init__(
        self,
        bindings: Sequence[Binding],
        default_model: Any = None,
        *,
        root: Path | None = None,
        ledger: EchoFilter | None = None,
        telemetry: Telemetry | None = None,
        redaction: Policy | None = None,
    ) -> None:
        self._bindings = list(bindings)
        self._configs: dict[int, Extraction] = {id(one.store): one.config for one in bindings}
        self._default_model = default_model
        self.root = root  # of the vault that keeps what is pending
        places = {id(one.store): store_place(one.store, root) for one in bindings} if root else {}
        self._places: dict[int, str] = {key: place for key, place in places.items() if place}  # of stores that last
        self._log = PendingLog(root, self._places.values()) if root and self._places else None
        self._ledger = ledger or EchoFilter()
        self._telemetry = telemetry or Telemetry()
        self._redaction = redaction or policy_of(one.store for one in bindings)
        self._mutex = Mutex()
        self._turns: list[Turn] = []
        self._next = 0
        self._marks = {id(one.store): -1 for one in bindings}
        self._saves: dict[int, Save] = {}  # the last of each store
        self._running: set[Save] = set()
        self._held: dict[int, dict[Save, int]] = {id(one.store): {} for one in bindings}  # marks before saves that run
        self._consecutive_failures: dict[int, int] = {}
        self._skipped: dict[int, int] = {}
        self._before: dict[int, deque[Message]] = {id(one.store): deque(maxlen=one.context) for one in bindings}
        self._changes: list[Amendment] = []  # a save that runs has its turns as they were
        self._left: list[Left] = []
        self._is_left_tried = False
        self._saving_left: dict[tuple[int, str], asyncio.AbstractEventLoop] = {}
        self.is_over = False  # the agent is gone, and its turns were asked to be saved
        _living.add(self)

    # --- taking down

    def record(self, message: Message) -> None:
        """Take a message down, without what is not to be kept."""
        message = heard(self._redaction, message)
        with self._mutex:
            turn = Turn(self._next, copied(message))
            self._next += 1
            self._turns.append(turn)
            self._note({"turn": turn.number, "message": message})

    def recall(self, messages: Sequence[Message]) -> None:
        """Have messages of an earlier run go along with the next ones, to understand them by."""
        for before in self._before.values():
            before.extend(messages)

    def amend(self, change: Amendment) -> None:
        """Have another message, or none, where one that was taken down still waits; nothing of it stays on the disk."""
        if change.message is not None:
            change = replace(change, message=heard(self._redaction, change.message))
        with self._mutex:
            self._changes.append(change)
            kept = [(turn.number, change.of(turn.message)) for turn in self._turns]
            self._turns = [Turn(number, message) for number, message in kept if message is not None]
            for before in self._before.values():
                messages = change.among(before)
                before.clear()
                before.extend(messages)
            if self._log:
                self._log.amend(change) if self._turns else self._log.clear()
            for left in self._left:
                left.amend(change)
            self._left = [left for left in self._left if not left.is_empty]

    def inherit(self, left: Sequence[Left]) -> None:
        """Take over what agents that are gone have left; it is saved with the next save."""
        with self._mutex:
            self._left.extend(left)

    @property
    def pending(self) -> int:
        """How many turns some store has yet to get."""
        with self._mutex:
            return len(self._turns) + sum(len(left.turns) for left in self._left)

    def sync(self) -> None:
        """Have what is pending on the disk."""
        if self._log:
            with _logged():
                self._log.sync()

    def close(self) -> None:
        """Let go of the logs; what is pending waits there for the next agent. A save that goes on keeps its log."""
        with self._mutex:
            goes_on = any(self._held.values())
            logs = [None if goes_on else self._log, *(left.log for left in self._left)]
            self._left = []
            if self._log and not goes_on and len(self._places) == len(self._bindings):
                self._turns = []  # whoever takes the log has them
                self._marks = dict.fromkeys(self._marks, self._next - 1)
        for held in filter(None, logs):
            held.close()

    # --- saving

    def schedule(self, store: MemoryStore) -> None:
        """Save a store's turns in the background; outside of an event loop they wait for the next flush."""
        if is_in_loop():
            self.process(store, quietly(self._telemetry.link))

    def schedule_all(self) -> None:
        """Save all turns in the background, for no trigger will ask for it any more."""
        for binding in self._bindings:
            if self._marks[id(binding.store)] < self._next - 1:
                self.schedule(binding.store)

    def schedule_left(self) -> None:
        """Save in the background what other agents left, and nothing else; what fails waits for the next save."""
        if self._left and not self._is_left_tried and is_in_loop():
            self._is_left_tried = True
            for binding in self._bindings:
                self._enqueue(binding.store, only_left=True)

    def process(self, store: MemoryStore, link: Any = None) -> "asyncio.Task[None] | None":
        """Queue a save behind the one before; None while the store is left alone for its failures."""
        return self._enqueue(store, link) if self._should_attempt(store) else None

    async def flush(self) -> None:
        """Save everything, and wait until nothing new was begun meanwhile. Never raises."""
        for binding in self._bindings:
            self._enqueue(binding.store)
        await self._quiet()

    async def settle(self) -> None:
        """Wait for the saves that run; what no trigger asked for stays pending, if that can be on the disk."""
        for binding in self._bindings:
            if id(binding.store) not in self._places:
                self._enqueue(binding.store)
        await self._quiet()
        if self._log:
            await asyncio.to_thread(self.sync)

    async def _quiet(self) -> None:
        """Wait until no save runs, nor was begun meanwhile."""
        waited: set[Save] = set()
        while running := {save for save in self._running if not save.is_done} - waited:
            waited |= running
            await asyncio.gather(*(save.finished() for save in running))

    def _should_attempt(self, store: MemoryStore) -> bool:
        if self._consecutive_failures.get(id(store), 0) < FAILURES:
            return True
        self._skipped[id(store)] = self._skipped.get(id(store), 0) + 1
        return self._skipped[id(store)] % PROBE == 0

    def _enqueue(self, store: MemoryStore, link: Any = None, *, only_left: bool = False) -> "asyncio.Task[None]":
        save = Save()
        with self._mutex:
            previous = self._saves.get(id(store))
            self._saves[id(store)] = save
            self._running = {one for one in self._running if not (one.is_done or one.loop.is_closed())} | {save}
        save.task = save.loop.create_task(self._run(store, save, previous, link, only_left=only_left))
        return save.task

    async def _run(self, store: MemoryStore, save: Save, previous: Save | None, link: Any, *, only_left: bool) -> None:
        if previous is not None:
            await previous.finished()
        await (self._save_left(store) if only_left else self._extract(store, link, save))

    async def _extract(self, store: MemoryStore, link: Any = None, save: Save | None = None) -> None:
        """Save what a store has yet to get: first what others have left, then this agent's turns."""
        save = save or Save()
        await self._save_left(store)
        end = self._next  # what is said meanwhile waits for its own trigger
        while fresh := self._claim(store, save, end):
            try:
                kept = await self._save(store, fresh, link, self._before[id(store)])
            except BaseException as error:
                self._give_back(store, save)
                if not isinstance(error, Exception):  # cancelled: the turns are as they were
                    raise
                self._failed(store, error)
                return
            self._before[id(store)].extend(self._as_they_are(turn.message for turn in kept))
            self._settled(store, save)

    async def _save(self, store: MemoryStore, turns: list[Turn], link: Any, before: Iterable[Message]) -> list[Turn]:
        config = self._configs[id(store)]
        kept = filtered(turns, config.filter)
        span = quietly(
            self._telemetry.start,
            "extract",
            link=link,
            store=store.name,
            message_count=len(kept),
            filtered_count=len(turns) - len(kept),
            extractor=type(config.extractor).__name__ if config.extractor is not None else None,
        )
        count = 0
        try:
            if kept:
                with self._telemetry.current(span):
                    count = await self._write(store, kept, config, list(before))
                self._consecutive_failures[id(store)] = 0
                self._skipped.pop(id(store), None)
        except BaseException as error:
            quietly(self._telemetry.end, "extract", span, error=error)
            raise
        quietly(self._telemetry.end, "extract", span, entry_count=count)
        return kept

    async def _write(self, store: MemoryStore, turns: list[Turn], config: Extraction, before: list[Message]) -> int:
        messages = [turn.message for turn in turns]
        if config.extractor is None:
            context = AddMessagesContext(sequence_numbers=[turn.number for turn in turns])
            await store.add_messages(messages, context)
            return len(messages)
        similar = await _similar(store, transcript(messages))
        extractor_context = ExtractorContext(self._default_model, before, similar, is_strict=True)
        try:
            facts = await config.extractor.extract(messages, extractor_context)
        except ExtractionError as error:
            if self.root is None or id(store) not in self._places:
                log.error("store %s: %s; its turns are dropped, for the store has no vault", store.name, error)
                return 0
            if not (left := self._as_they_are(messages)):
                return 0
            reason = self._redaction.redact(str(error)).value  # it may quote what was said
            name = await asyncio.to_thread(keep_failed, self.root, self._places[id(store)], reason, left)
            log.error("store %s: %s; its turns are kept as %s: %s", store.name, error, name, error.hint)
            return 0
        news = [redacted(fact, self._redaction) for fact in facts if not self._is_echo(store, fact, similar)]
        outcomes = await asyncio.gather(*(write_fact(store, fact) for fact in news), return_exceptions=True)
        if failures := [outcome for outcome in outcomes if isinstance(outcome, BaseException)]:
            message = f"failed to write {len(failures)} of {len(news)} extracted facts"
            raise self.aggregate(message, failures)
        return len(news)

    def _as_they_are(self, messages: Iterable[Message]) -> list[Message]:
        """Messages of a save that ran, with what was amended meanwhile."""
        found = list(messages)
        for change in self._changes:
            found = change.among(found)
        return found

    def _is_echo(self, store: MemoryStore, fact: Any, similar: Sequence[Found]) -> bool:
        """Tell whether a fact was told from memory, and is still there."""
        if getattr(fact, "target", None) or not self._ledger.is_echo(fact.content):
            return False
        there = EchoFilter()
        there.note(found.content for found in similar)
        return not has_method(store, "similar") or there.is_echo(fact.content)

    async def _save_left(self, store: MemoryStore) -> None:
        """Save the turns that other agents left; what fails is tried again with the next save."""
        for left in list(self._left):
            try:
                await self._save_one_left(store, left)
            except Exception as error:
                log.warning("store %s: turns of an earlier run are still pending: %s", store.name, error)
            with self._mutex:
                self._left = [one for one in self._left if not one.is_empty]

    async def _save_one_left(self, store: MemoryStore, left: Left) -> None:
        place = self._places.get(id(store), "")
        key = (id(left), place)
        other = self._saving_left.get(key)
        if other:
            await ended(lambda: self._saving_left.get(key) is not other, other)
        if (other := self._saving_left.get(key)) and not other.is_closed():
            return  # it goes on when its loop does
        self._saving_left[key] = asyncio.get_running_loop()
        try:
            await self._save_portions(store, left, place)
        finally:
            self._saving_left.pop(key, None)

    async def _save_portions(self, store: MemoryStore, left: Left, place: str) -> None:
        while turns := batch([Turn(number, heard(self._redaction, message)) for number, message in left.fresh(place)]):
            await self._save(store, turns, None, ())
            left.marks[place] = turns[-1].number
            with _logged():
                left.log.append({"store": place, "mark": turns[-1].number})
                if left.is_empty:
                    left.log.clear()
                    left.log.close()

    # --- marks

    def _claim(self, store: MemoryStore, save: Save, end: int) -> list[Turn]:
        """The next turns before `end` that a store has yet to get, which are now this save's."""
        held = self._held[id(store)]
        with self._mutex:
            for lost in [one for one in held if one.is_lost()]:
                self._marks[id(store)] = min(held.pop(lost), self._marks[id(store)])
            mark = self._marks[id(store)]
            fresh = batch([turn for turn in self._turns if mark < turn.number < end])
            if fresh:
                held[save], self._marks[id(store)] = mark, fresh[-1].number
            return fresh

    def _give_back(self, store: MemoryStore, save: Save) -> None:
        with self._mutex:
            now = self._marks[id(store)]
            self._marks[id(store)] = min(self._held[id(store)].pop(save, now), now)  # one that was lost holds nothing

    def _settled(self, store: MemoryStore, save: Save) -> None:
        """A store has its turns: what all stores have is dropped."""
        with self._mutex:
            self._held[id(store)].pop(save, None)
            sure = {key: min([mark, *self._held[key].values()]) for key, mark in self._marks.items()}
            if id(store) in self._places:
                self._note({"store": self._places[id(store)], "mark": sure[id(store)]})
            self._turns = [turn for turn in self._turns if turn.number > min(sure.values())]
            if not self._turns and self._log:
                with _logged():
                    self._log.clear()

    def _failed(self, store: MemoryStore, error: Exception) -> None:
        failures = self._consecutive_failures[id(store)] = self._consecutive_failures.get(id(store), 0) + 1
        if failures >= FAILURES:
            log.error("store %s: saving failed %d times in a row: %s", store.name, failures, error)
        else:
            log.warning("store %s: saving failed, and is tried again: %s", store.name, error)

    def _note(self, record: dict[str, Any]) -> None:
        """Have a line in the log; without a log, or where it cannot be written, memory must do."""
        if self._log:
            with _logged():
                self._log.append(record)


def amend(root: Path, change: Amendment) -> None:
    """Have a message be another one, or none, wherever in a vault it waits to be distilled and nobody else holds it."""
    for coordinator in list(_living):
        if coordinator.root == root:
            coordinator.amend(change)
    amend_unheld(root, change)


@contextmanager
def _logged() -> Iterator[None]:
    """Go on where a log cannot be written: on a full disk, say, or what JSON has no form for."""
    try:
        yield
    except Exception as error:
        log.warning("pending turns are in memory only: %s", error)


async def _similar(store: MemoryStore, text: str) -> Sequence[Found]:
    """The memories that an extractor may name; without them it can only add."""
    if not has_method(store, "similar"):
        return ()
    try:
        return await cast("CuratedStore", store).similar(text, SIMILAR)
    except Exception as error:
        log.warning("store %s: similar memories were not found: %s", store.name, error)
        return ()
