"""The coordinator: records the turns of one agent and saves them to each store in the background.

Every store has a mark, the number of the last turn it has. A save moves the mark forward before its work, so that the
next save continues after it, and back if it fails or is cancelled. The saves of a store run one after another, also
across event loops; a save whose loop is closed is abandoned. With a log, a turn is on disk before it is processed.
A place is the text that identifies a persistent store to later processes, see `store_place`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakSet

from memfs.after_fork import Mutex
from memfs.agent.echo_filter import EchoFilter
from memfs.agent.extraction.config import Binding, ExtractorContext, ResolvedExtraction
from memfs.agent.extraction.facts import find_similar, redact_fact, write_fact
from memfs.agent.extraction_queue.backoff import FAILURES_BEFORE_BACKOFF, Backoff
from memfs.agent.extraction_queue.failed_batches import edit_failed, keep_failed
from memfs.agent.extraction_queue.pending_log import OrphanLog, PendingLog, edit_orphans
from memfs.agent.extraction_queue.turns import MessageEdit, Turn, filter_turns, first_batch
from memfs.agent.messages import Message, copy_message, transcript
from memfs.agent.run_sync import SaveTask, is_in_loop, wait_for_other_loop
from memfs.agent.telemetry import Telemetry, call_safely
from memfs.errors import AggregateMemoryError, ExtractionError
from memfs.privacy.log_redaction import redact_message, shared_policy
from memfs.privacy.policy import Policy
from memfs.stores.agent.protocol import AddMessagesContext, Found, MemoryStore, has_method, store_place

log = logging.getLogger("memfs.agent")
_coordinators: "WeakSet[Coordinator]" = WeakSet()  # of this process


class Coordinator:
    """The queue of one agent's turns on their way into its stores. Thread-safe."""

    aggregate: type[AggregateMemoryError] = AggregateMemoryError

    def __init__(
        self,
        bindings: Sequence[Binding],
        default_model: Any = None,
        *,
        root: Path | None = None,
        echo_filter: EchoFilter | None = None,
        telemetry: Telemetry | None = None,
        redaction: Policy | None = None,
    ) -> None:
        self._bindings = list(bindings)
        self._configs: dict[int, ResolvedExtraction] = {id(one.store): one.config for one in bindings}
        self._default_model = default_model
        self.root = root  # of the vault that holds the pending turns
        places = {id(one.store): store_place(one.store, root) for one in bindings} if root else {}
        self._places: dict[int, str] = {key: place for key, place in places.items() if place}  # of persistent stores
        self._log = PendingLog(root, self._places.values()) if root and self._places else None
        self._echo_filter = echo_filter or EchoFilter()
        self._telemetry = telemetry or Telemetry()
        self._redaction = redaction or shared_policy(one.store for one in bindings)
        self._mutex = Mutex()
        self._turns: list[Turn] = []
        self._next = 0  # number of the next turn
        self._marks = {id(one.store): -1 for one in bindings}
        self._saves: dict[int, SaveTask] = {}  # the last save of each store
        self._running: set[SaveTask] = set()
        self._marks_before: dict[int, dict[SaveTask, int]] = {id(one.store): {} for one in bindings}  # of running saves
        self._backoff = Backoff()
        self._consecutive_failures = self._backoff.consecutive_failures  # the name that Strands' coordinator has
        self._context: dict[int, deque[Message]] = {id(one.store): deque(maxlen=one.context) for one in bindings}
        self._edits: list[MessageEdit] = []  # also for running saves, whose copies of the turns are older
        self._orphans: list[OrphanLog] = []
        self._are_orphans_scheduled = False
        self._orphan_saves: dict[tuple[int, str], asyncio.AbstractEventLoop] = {}  # running, by log and store
        self.is_final_save_scheduled = False  # no trigger can fire any more, and all turns are being saved
        _coordinators.add(self)

    # --- recording

    def record(self, message: Message) -> None:
        """Queue a message, redacted by the policy."""
        message = redact_message(self._redaction, message)
        with self._mutex:
            turn = Turn(self._next, copy_message(message))
            self._next += 1
            self._turns.append(turn)
            self._append_to_log({"turn": turn.number, "message": message})

    def add_context(self, messages: Sequence[Message]) -> None:
        """Add messages of an earlier run that extractors are shown as context of the next turns."""
        for context in self._context.values():
            context.extend(messages)

    def edit_message(self, edit: MessageEdit) -> None:
        """Replace or remove a message that is still queued; nothing of it stays on disk."""
        if edit.message is not None:
            edit = replace(edit, message=redact_message(self._redaction, edit.message))
        with self._mutex:
            self._edits.append(edit)
            edited = [(turn.number, edit.apply(turn.message)) for turn in self._turns]
            self._turns = [Turn(number, message) for number, message in edited if message is not None]
            for context in self._context.values():
                messages = edit.apply_to_all(context)
                context.clear()
                context.extend(messages)
            if self._log:
                self._log.edit_message(edit) if self._turns else self._log.clear()
            for orphan in self._orphans:
                orphan.edit_message(edit)
            self._orphans = [orphan for orphan in self._orphans if not orphan.is_empty]

    def adopt(self, orphans: Sequence[OrphanLog]) -> None:
        """Take over the turns of agents of ended processes; the next save includes them."""
        with self._mutex:
            self._orphans.extend(orphans)

    @property
    def pending(self) -> int:
        """The number of turns that some store does not have yet."""
        with self._mutex:
            return len(self._turns) + sum(len(orphan.turns) for orphan in self._orphans)

    def sync(self) -> None:
        """Fsync the pending turns."""
        if self._log:
            with _log_failures_only():
                self._log.sync()

    def close(self) -> None:
        """Release the logs; pending turns wait there for the next agent. A log that a running save needs stays open."""
        with self._mutex:
            is_saving = any(self._marks_before.values())
            logs = [None if is_saving else self._log, *(orphan.log for orphan in self._orphans)]
            self._orphans = []
            if self._log and not is_saving and len(self._places) == len(self._bindings):
                self._turns = []  # the next owner of the log has them
                self._marks = dict.fromkeys(self._marks, self._next - 1)
        for open_log in filter(None, logs):
            open_log.close()

    # --- saving

    def schedule(self, store: MemoryStore) -> None:
        """Save a store's turns in the background; outside of an event loop they wait for the next flush."""
        if is_in_loop():
            self.process(store, call_safely(self._telemetry.link))

    def schedule_all(self) -> None:
        """Save all turns in the background, because no trigger will fire any more."""
        for binding in self._bindings:
            if self._marks[id(binding.store)] < self._next - 1:
                self.schedule(binding.store)

    def schedule_orphans(self) -> None:
        """Save only the adopted turns in the background, once; turns that fail wait for the next save."""
        if self._orphans and not self._are_orphans_scheduled and is_in_loop():
            self._are_orphans_scheduled = True
            for binding in self._bindings:
                self._enqueue(binding.store, only_orphans=True)

    def process(self, store: MemoryStore, link: Any = None) -> "asyncio.Task[None] | None":
        """Queue a save after the previous one; None if it is skipped because the store keeps failing."""
        return self._enqueue(store, link) if self._should_attempt(store) else None

    async def flush(self) -> None:
        """Save everything, and wait until no save runs, also none that was started meanwhile. Never raises."""
        for binding in self._bindings:
            self._enqueue(binding.store)
        await self.wait_idle()

    async def settle(self) -> None:
        """Wait for the running saves. Other turns stay pending if they are on disk, and are saved if in memory only."""
        for binding in self._bindings:
            if id(binding.store) not in self._places:
                self._enqueue(binding.store)
        await self.wait_idle()
        if self._log:
            await asyncio.to_thread(self.sync)

    async def wait_idle(self) -> None:
        """Wait until no save runs, also none that was started meanwhile."""
        waited: set[SaveTask] = set()
        while running := {save for save in self._running if not save.is_done} - waited:
            waited |= running
            await asyncio.gather(*(save.wait_done() for save in running))

    def _should_attempt(self, store: MemoryStore) -> bool:
        return self._backoff.should_attempt(id(store))

    def _enqueue(self, store: MemoryStore, link: Any = None, *, only_orphans: bool = False) -> "asyncio.Task[None]":
        save = SaveTask()
        with self._mutex:
            previous = self._saves.get(id(store))
            self._saves[id(store)] = save
            self._running = {one for one in self._running if not (one.is_done or one.loop.is_closed())} | {save}
        work = self._run(store, save, previous, link, only_orphans=only_orphans)
        save.task = save.loop.create_task(work, name=f"memfs: save to {store.name}")
        return save.task

    async def _run(
        self, store: MemoryStore, save: SaveTask, previous: SaveTask | None, link: Any, *, only_orphans: bool
    ) -> None:
        if previous is not None:
            await previous.wait_done()
        await (self._save_orphans(store) if only_orphans else self._extract(store, link, save))

    async def _extract(self, store: MemoryStore, link: Any = None, save: SaveTask | None = None) -> None:
        """Save the turns that a store does not have yet: first adopted ones, then this agent's."""
        save = save or SaveTask()
        await self._save_orphans(store)
        end = self._next  # later turns wait for their own trigger
        while turns := self._claim(store, save, end):
            try:
                kept = await self._save(store, turns, link, self._context[id(store)])
            except BaseException as error:
                self._release_claim(store, save)
                if not isinstance(error, Exception):  # cancelled: the turns are pending again
                    raise
                self._record_failure(store, error)
                return
            self._context[id(store)].extend(self._apply_edits(turn.message for turn in kept))
            self._complete(store, save)

    async def _save(self, store: MemoryStore, turns: list[Turn], link: Any, context: Iterable[Message]) -> list[Turn]:
        config = self._configs[id(store)]
        kept = filter_turns(turns, config.filter)
        span = call_safely(
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
                    count = await self._write(store, kept, config, list(context))
                self._backoff.record_success(id(store))
        except BaseException as error:
            call_safely(self._telemetry.end, "extract", span, error=error)
            raise
        call_safely(self._telemetry.end, "extract", span, entry_count=count)
        return kept

    async def _write(
        self, store: MemoryStore, turns: list[Turn], config: ResolvedExtraction, context: list[Message]
    ) -> int:
        messages = [turn.message for turn in turns]
        if config.extractor is None:
            numbers = AddMessagesContext(sequence_numbers=[turn.number for turn in turns])
            await store.add_messages(messages, numbers)
            return len(messages)
        similar = await find_similar(store, transcript(messages))
        extractor_context = ExtractorContext(self._default_model, context, similar, is_strict=True)
        try:
            facts = await config.extractor.extract(messages, extractor_context)
        except ExtractionError as error:
            await self._keep_failed(store, messages, error)
            return 0
        new = [redact_fact(fact, self._redaction) for fact in facts if not self._is_echo(store, fact, similar)]
        outcomes = await asyncio.gather(*(write_fact(store, fact) for fact in new), return_exceptions=True)
        if failures := [outcome for outcome in outcomes if isinstance(outcome, BaseException)]:
            message = f"failed to write {len(failures)} of {len(new)} extracted facts"
            raise self.aggregate(message, failures)
        return len(new)

    async def _keep_failed(self, store: MemoryStore, messages: list[Message], error: ExtractionError) -> None:
        """Write turns whose extraction failed to `.memfs/failed`; drop them if the store has no vault."""
        if self.root is None or id(store) not in self._places:
            log.error("store %s: %s; its turns are dropped because the store has no vault", store.name, error)
        elif kept := self._apply_edits(messages):
            reason = self._redaction.redact(str(error)).value  # it may quote the conversation
            name = await asyncio.to_thread(keep_failed, self.root, self._places[id(store)], reason, kept)
            log.error("store %s: %s; its turns are kept as %s: %s", store.name, error, name, error.hint)

    def _apply_edits(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages of a save with the edits that were made while it ran."""
        edited = list(messages)
        for edit in self._edits:
            edited = edit.apply_to_all(edited)
        return edited

    def _is_echo(self, store: MemoryStore, fact: Any, similar: Sequence[Found]) -> bool:
        """Return whether a fact repeats a text that the agent got from memory, and the store still has it."""
        if getattr(fact, "target", None) or not self._echo_filter.is_echo(fact.content):
            return False
        stored = EchoFilter()
        stored.record(found.content for found in similar)
        return not has_method(store, "similar") or stored.is_echo(fact.content)

    async def _save_orphans(self, store: MemoryStore) -> None:
        """Save the adopted turns; turns that fail are tried again with the next save."""
        for orphan in list(self._orphans):
            try:
                await self._save_orphan(store, orphan)
            except Exception as error:
                log.warning("store %s: turns of an earlier run are still pending: %s", store.name, error)
            with self._mutex:
                self._orphans = [one for one in self._orphans if not one.is_empty]

    async def _save_orphan(self, store: MemoryStore, orphan: OrphanLog) -> None:
        """Save the turns of an adopted log, unless an event loop that is blocked has begun to."""
        place = self._places.get(id(store), "")
        key = (id(orphan), place)
        other = self._orphan_saves.get(key)
        if other:
            await wait_for_other_loop(lambda: self._orphan_saves.get(key) is not other, other)
        if (other := self._orphan_saves.get(key)) and not other.is_closed():
            return  # the other save continues when its loop does
        self._orphan_saves[key] = asyncio.get_running_loop()
        try:
            await self._save_orphan_batches(store, orphan, place)
        finally:
            self._orphan_saves.pop(key, None)

    async def _save_orphan_batches(self, store: MemoryStore, orphan: OrphanLog, place: str) -> None:
        def unsaved() -> list[Turn]:
            return [
                Turn(number, redact_message(self._redaction, message))
                for number, message in orphan.unsaved_turns(place)
            ]

        while turns := first_batch(unsaved()):
            await self._save(store, turns, None, ())
            orphan.marks[place] = turns[-1].number
            with _log_failures_only():
                orphan.log.append({"store": place, "mark": turns[-1].number})
                if orphan.is_empty:
                    orphan.log.clear()
                    orphan.log.close()

    # --- marks

    def _claim(self, store: MemoryStore, save: SaveTask, end: int) -> list[Turn]:
        """Return the next turns before `end` that a store does not have yet, and reserve them for this save."""
        marks_before = self._marks_before[id(store)]
        with self._mutex:
            for lost in [one for one in marks_before if one.is_lost()]:
                self._marks[id(store)] = min(marks_before.pop(lost), self._marks[id(store)])
            mark = self._marks[id(store)]
            turns = first_batch([turn for turn in self._turns if mark < turn.number < end])
            if turns:
                marks_before[save], self._marks[id(store)] = mark, turns[-1].number
            return turns

    def _release_claim(self, store: MemoryStore, save: SaveTask) -> None:
        with self._mutex:
            now = self._marks[id(store)]  # also the default: the claim of a lost save is released already
            self._marks[id(store)] = min(self._marks_before[id(store)].pop(save, now), now)

    def _complete(self, store: MemoryStore, save: SaveTask) -> None:
        """Record that a store has its turns, and drop the turns that all stores have."""
        with self._mutex:
            self._marks_before[id(store)].pop(save, None)
            saved = {key: min([mark, *self._marks_before[key].values()]) for key, mark in self._marks.items()}
            if id(store) in self._places:
                self._append_to_log({"store": self._places[id(store)], "mark": saved[id(store)]})
            self._turns = [turn for turn in self._turns if turn.number > min(saved.values())]
            if not self._turns and self._log:
                with _log_failures_only():
                    self._log.clear()

    def _record_failure(self, store: MemoryStore, error: Exception) -> None:
        failures = self._backoff.record_failure(id(store))
        if failures >= FAILURES_BEFORE_BACKOFF:
            log.error("store %s: saving failed %d times in a row: %s", store.name, failures, error)
        else:
            log.warning("store %s: saving failed, and is tried again: %s", store.name, error)

    def _append_to_log(self, record: dict[str, Any]) -> None:
        """Append a record to the log; without a log, or if it cannot be written, the turns are in memory only."""
        if self._log:
            with _log_failures_only():
                self._log.append(record)


def edit_pending(root: Path, edit: MessageEdit) -> None:
    """Replace or remove a message wherever it is queued in a vault, except in the logs of other live processes."""
    for coordinator in list(_coordinators):
        if coordinator.root == root:
            coordinator.edit_message(edit)
    edit_orphans(root, edit)
    edit_failed(root, edit)


@contextmanager
def _log_failures_only() -> Iterator[None]:
    """Log a warning if a log cannot be written, because the disk is full or JSON has no form for a value."""
    try:
        yield
    except Exception as error:
        log.warning("pending turns are in memory only: %s", error)
