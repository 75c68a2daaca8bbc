"""MemoryManager: stores on one side, an agent on the other. Knows no framework."""

import asyncio
import inspect
import logging
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self, cast

from memfs.after_fork import Mutex
from memfs.agent.conversation_state import Attachment
from memfs.agent.echo_filter import EchoFilter
from memfs.agent.extraction.config import Binding, Extractor, bind
from memfs.agent.extraction.extractor import ModelExtractor
from memfs.agent.extraction_queue.accepted_facts import AcceptedFacts
from memfs.agent.extraction_queue.coordinator import Coordinator
from memfs.agent.extraction_queue.pending_log import Accepted, orphans
from memfs.agent.injection import Injector, check, interleave
from memfs.agent.memory_tools import add_tool, described, name_of, no_clashes, noted, search_tool, single_tool
from memfs.agent.run_sync import is_in_loop, wait
from memfs.agent.telemetry import Telemetry, quietly
from memfs.agent.triggers import TriggerContext
from memfs.argument_checks import (
    Toggle,
    check_list,
    check_options,
    check_tool_config,
    expand_toggle,
    is_positive_int,
    parse_tool_arguments,
)
from memfs.errors import AggregateMemoryError, InvalidArgumentsError, InvalidSetupError, short_repr
from memfs.privacy.log_redaction import admitted, policy_of
from memfs.stores.agent.protocol import (
    MAX_SEARCH_RESULTS,
    CuratedStore,
    Found,
    MemoryStore,
    check_stores,
    has_method,
    store_place,
)
from memfs.stores.agent.store_tools import curation_tools

log = logging.getLogger("memfs.agent")
RESULTS = 3  # of each store, where neither the caller nor the store says how many
READ_TOOLS, WRITE_TOOLS = ("get", "list", "graph"), ("update", "forget")


class MemoryManager:
    """Gives agents tools, extraction and injection on stores.

    `search_tool_config` and `add_tool_config` are True, False, or a mapping with `name` and `description`, for adding
    also `stores` and `wait_for_writes`. `read_tools` (get, list, graph) and `write_tools` (update, forget) are opt-in;
    `tools="single"` makes one tool of all. `injection` is True, False or a mapping. `model` distils facts for stores
    with extraction. Pending turns are kept in the vault of the first writable store that has one.
    """

    name = "memfs:memory-manager"
    aggregate: ClassVar[type[AggregateMemoryError]] = AggregateMemoryError
    extractor: ClassVar[type[Extractor]] = ModelExtractor
    coordinator: ClassVar[type[Coordinator]] = Coordinator
    trigger_context: ClassVar[type[TriggerContext]] = TriggerContext

    def __init__(
        self,
        stores: Sequence[Any],
        search_tool_config: Toggle = True,
        add_tool_config: Toggle = False,
        injection: Toggle = True,
        *,
        read_tools: Sequence[str] = (),
        write_tools: Sequence[str] = (),
        tools: str = "each",
        model: Any = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._stores = check_stores(stores)
        self._add_stores = [store for store in self._stores if store.writable and has_method(store, "add")]
        self._bindings: list[Binding] = [found for store in self._stores if (found := bind(store, self.extractor))]
        self._model = model
        self.ledger = EchoFilter()
        self._telemetry = telemetry or Telemetry()
        self.injection = check(config) if (config := expand_toggle(injection)) is not None else None
        self.injector = Injector(self._search_each, self._pinned, self.ledger, self._telemetry)
        roots = (getattr(store, "vault_root", None) for store in self._stores if store.writable)
        self._root: Path | None = next(filter(None, roots), None)
        self.redaction = policy_of(store for store in self._stores if store.writable)
        places = self._places(self._add_stores)
        self._acceptance = AcceptedFacts(self._write_accepted, self._root, places, self.redaction)
        self._coordinators: dict[Coordinator, weakref.ref[Attachment]] = {}
        self._mutex = Mutex()
        self._tools = self._made_tools(search_tool_config, add_tool_config, read_tools, write_tools, tools)

    def __repr__(self) -> str:
        return f"MemoryManager({[store.name for store in self._stores]})"

    # --- tools

    @property
    def tools(self) -> list[Any]:
        """What the agent's model may call; `tool.spec("openai")` describes one, `await tool(**arguments)` calls it."""
        return list(self._tools)

    def tool_specs(self, shape: str = "json") -> list[dict[str, Any]]:
        """The tools as JSON schema, or in the shape of `strands`, `openai` or `anthropic`."""
        return [described(tool, shape) for tool in self._tools]

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> Any:
        """Call a tool as the model asked to; its arguments may be JSON, as OpenAI has them."""
        for tool in self._tools:
            if name_of(tool) == name:
                return await tool(**parse_tool_arguments(name, arguments))
        raise InvalidArgumentsError(name, f"no such tool; there are: {', '.join(map(name_of, self._tools))}")

    def _made_tools(
        self, search: Toggle, add: Toggle, read: Sequence[str], write: Sequence[str], form: str
    ) -> list[Any]:
        if form not in ("each", "single"):
            raise InvalidSetupError("tools", f"{form!r} is not 'each' or 'single'")
        made: list[Any] = []
        curated = [cast("CuratedStore", store) for store in self._stores if has_method(store, "get")]
        if (config := expand_toggle(search)) is not None:
            check_tool_config("search_tool_config", config, "name", "description")
            made.append(search_tool(self, config, self._stores))
        if (config := expand_toggle(add)) is not None:
            check_tool_config("add_tool_config", config, "name", "description", "stores", "wait_for_writes")
            made.append(add_tool(self, config, self._for_adding(config)))
        for subject, names, there in (("read_tools", read, READ_TOOLS), ("write_tools", write, WRITE_TOOLS)):
            if unknown := set(check_list(subject, names)) - set(there):
                raise InvalidSetupError(subject, f"{min(unknown)!r} is not one of {', '.join(there)}")
            made += [noted(tool, self.ledger) for tool in curation_tools(curated, names)] if names else []
        made = [single_tool(made)] if form == "single" and made else made
        own = [tool for store in self._stores if has_method(store, "get_tools") for tool in store.get_tools()]
        no_clashes([name_of(tool) for tool in (*made, *own)])
        return [*map(self._presented, made), *map(self._presented, own)]

    def _presented(self, tool: Any) -> Any:
        """A tool as the framework wants it."""
        return tool

    def _for_adding(self, config: Mapping[str, Any]) -> list[MemoryStore]:
        if not self._add_stores:
            raise InvalidSetupError("add_tool_config", "is enabled but no writable stores implement add")
        given = config.get("stores")
        if given is None:
            return self._add_stores
        if not given:
            raise InvalidSetupError("add_tool_config", "stores is empty; name one, or leave it out for all")
        chosen: dict[str, MemoryStore] = {}
        for name in (one if isinstance(one, str) else one.name for one in check_list("add_tool_config stores", given)):
            store = self._named([name], subject="add_tool_config")[0]
            if not store.writable:
                raise InvalidSetupError("add_tool_config", f"store {name!r} is not writable")
            if not has_method(store, "add"):
                raise InvalidSetupError("add_tool_config", f"store {name!r} has no add method, only add_messages")
            chosen[name] = store
        return list(chosen.values())

    # --- searching and adding

    async def search(self, query: str, options: Mapping[str, Any] | None = None) -> list[Any]:
        """What the stores know, the best of each first. Options: `max_search_results` of each store, `stores` by name.

        A store that fails is left out with a warning.
        """
        if not isinstance(query, str):
            raise InvalidArgumentsError("search", f"{short_repr(query)} is not a text")
        asked = check_options("search", options, "max_search_results", "stores")
        names = asked.get("stores")
        limit = asked.get("max_search_results")
        if limit is not None and not is_positive_int(limit, MAX_SEARCH_RESULTS):
            reason = f"max_search_results must be a whole number from 1 to {MAX_SEARCH_RESULTS}, got {limit!r}"
            raise InvalidArgumentsError("search", reason)
        told = names if names is not None else [store.name for store in self._stores]
        asks = self.redaction.redact(query).value
        span = quietly(self._telemetry.start, "search", content=asks, stores=told, limit=limit)
        try:
            with self._telemetry.current(span):
                stores = self._stores if names is None else self._named(names)
                asking = (_ask(store, query, _limit(limit, store)) for store in stores)
                answers = await asyncio.gather(*asking, return_exceptions=True)
        except BaseException as error:
            quietly(self._telemetry.end, "search", span, error=error)
            raise
        found = interleave([_found(store, answer) for store, answer in zip(stores, answers, strict=True)])
        failed = sum(isinstance(answer, BaseException) for answer in answers)
        quietly(
            self._telemetry.end,
            "search",
            span,
            entries=found,
            result_count=len(found),
            store_failure_count=failed,
        )
        return found

    async def add(self, content: str, options: Mapping[str, Any] | None = None, *, _detached: bool = False) -> None:
        """Add a memory to all writable stores, or to those that `stores` names, with `metadata`.

        Raises AggregateMemoryError if a store fails; the others have it then.
        """
        asked = check_options("add", options, "metadata", "stores")
        names = asked.get("stores")
        shown = names if names is not None else [store.name for store in self._add_stores]
        said = self.redaction.redact(content).value
        span = quietly(self._telemetry.start, "add", content=said, stores=shown, is_root=_detached)
        try:
            with self._telemetry.current(span):
                stores = self._add_stores if names is None else self._named(names, writable=True)
                if not stores:
                    raise InvalidSetupError("add", "no writable store matched")
                writes = (self._write(store, content, asked.get("metadata")) for store in stores)
                answers = await asyncio.gather(*writes, return_exceptions=True)
                failed = {
                    store.name: answer
                    for store, answer in zip(stores, answers, strict=True)
                    if isinstance(answer, BaseException)
                }
                if failed:
                    message = f"MemoryManager: store writes failed: {', '.join(failed)}"
                    raise self.aggregate(message, list(failed.values()))
        except BaseException as error:
            count = len(error.errors) if isinstance(error, AggregateMemoryError) else 0
            quietly(self._telemetry.end, "add", span, store_failure_count=count, error=error)
            raise
        quietly(self._telemetry.end, "add", span, store_failure_count=0)

    async def accept(self, entries: Sequence[str], stores: Sequence[str]) -> None:
        """Take facts down for stores, to be written in the background; `flush` waits for them."""
        await self._acceptance.accept(entries, [store.name for store in self._named(stores, writable=True)])

    async def _write(self, store: MemoryStore, content: str, metadata: Mapping[str, Any] | None) -> None:
        await store.add(*admitted(self.redaction, store, content, metadata))

    async def _write_accepted(self, fact: Accepted) -> None:
        await self.add(fact.content, {"stores": fact.stores, "metadata": fact.metadata}, _detached=True)

    async def _search_each(self, query: str, limit: int) -> list[Any]:
        return await self.search(query, {"max_search_results": limit})

    async def _pinned(self, limit: int) -> list[Any]:
        stores: list[Any] = [store for store in self._stores if has_method(store, "pinned")]
        answers = await asyncio.gather(*(_ask_pinned(store, limit) for store in stores), return_exceptions=True)
        return interleave([_found(store, answer) for store, answer in zip(stores, answers, strict=True)])

    def _named(self, names: Sequence[str], *, writable: bool = False, subject: str = "stores") -> list[MemoryStore]:
        if not names:
            raise InvalidArgumentsError(subject, "no writable store matched" if writable else "is empty: no store")
        if isinstance(names, str):
            raise InvalidArgumentsError(subject, f"{names!r} is not a list of names")
        known = {store.name: store for store in self._stores}
        chosen = []
        for name in dict.fromkeys(names):
            if name not in known:
                raise InvalidSetupError(subject, f"store {name!r} not found; there are: {', '.join(known)}")
            if writable and not known[name].writable:
                raise InvalidSetupError(subject, f"store {name!r} is read-only")
            if writable and not has_method(known[name], "add"):
                raise InvalidSetupError(subject, f"store {name!r} has no add method, only add_messages")
            chosen.append(known[name])
        return chosen

    # --- agents

    def attach(self, agent: Any = None, *, model: Any = None) -> Attachment:
        """Begin to hear one agent, or one conversation; what an earlier run left pending is taken up with it."""
        coordinator = None
        model = model if model is not None else self._model
        for binding in self._bindings if agent is None else ():
            if isinstance(binding.config.extractor, ModelExtractor):
                binding.config.extractor.check_model(model)
        if self._bindings:
            coordinator = self.coordinator(
                self._bindings,
                model,
                root=self._root,
                ledger=self.ledger,
                telemetry=self._telemetry,
                redaction=self.redaction,
            )
        attachment = Attachment(self, coordinator, agent)
        for binding in self._bindings:
            for trigger in binding.config.triggers:
                attachment.listen(binding.store, trigger, self.trigger_context)
        self._keep(attachment)
        self._take_up(coordinator)
        return attachment

    def _keep(self, attachment: Attachment) -> None:
        """Know what is to be flushed; of agents that are gone, only what they have not saved."""
        with self._mutex:
            gone = [one for one, agent in self._coordinators.items() if agent() is None and not one.pending]
            self._coordinators = {one: agent for one, agent in self._coordinators.items() if one not in gone}
            if attachment.coordinator is not None:
                self._coordinators[attachment.coordinator] = weakref.ref(attachment)
            over = [one for one, agent in self._coordinators.items() if agent() is None and not one.is_over]
        for coordinator in gone:
            coordinator.close()
        for coordinator in over if is_in_loop() else ():
            coordinator.is_over = True
            coordinator.schedule_all()

    def _places(self, stores: Sequence[MemoryStore]) -> dict[str, str]:
        """Where the memories of those stores are that say so, by name."""
        found = {store.name: store_place(store, self._root) for store in stores} if self._root else {}
        return {name: place for name, place in found.items() if place}

    def _take_up(self, coordinator: Coordinator | None) -> None:
        """Take over what processes that are gone left for these stores."""
        if self._root is None:
            return
        for left in orphans(self._root, set(self._places(self._stores).values())):
            self._acceptance.inherit(left)
            if coordinator is not None and left.turns:
                coordinator.inherit([left])
            else:
                left.log.close()

    def resume(self, coordinator: Coordinator | None) -> None:
        """Begin to save what was left by others, where there is an event loop."""
        self._acceptance.resume()
        if coordinator is not None:
            coordinator.schedule_left()

    async def initialize(self) -> None:
        """Get the stores ready; what raises here stops the agent from being made."""
        for store in self._stores:
            if has_method(store, "initialize"):
                await store.initialize()

    async def flush(self) -> None:
        """Save every turn that was recorded and every fact that was accepted, and wait for it. Never raises."""
        await asyncio.gather(*(coordinator.flush() for coordinator in list(self._coordinators)))
        await self._acceptance.flush()

    async def settle(self) -> None:
        """Wait for what runs; turns that wait for their trigger stay pending, on disk if that is possible."""
        await asyncio.gather(*(coordinator.settle() for coordinator in list(self._coordinators)))
        await self._acceptance.flush()

    @property
    def pending(self) -> int:
        """How many turns and facts are not in their stores yet."""
        return sum(coordinator.pending for coordinator in list(self._coordinators)) + self._acceptance.pending

    async def close(self) -> None:
        """Save everything, and let go; what could not be saved waits in the vault for the next run."""
        await self.flush()
        for coordinator in list(self._coordinators):
            coordinator.close()
        self._acceptance.close()
        for store in self._stores:
            if has_method(store, "close"):
                answer = await asyncio.to_thread(cast("Any", store).close)
                if inspect.isawaitable(answer):
                    await answer

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        wait(self.initialize())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wait(self.close())


def _limit(asked: int | None, store: MemoryStore) -> int:
    return asked if asked is not None else store.max_search_results if store.max_search_results is not None else RESULTS


async def _ask(store: MemoryStore, query: str, limit: int) -> list[Found]:
    return _entries(store, await store.search(query, {"max_search_results": limit}))


async def _ask_pinned(store: Any, limit: int) -> list[Found]:
    return _entries(store, await store.pinned(limit))


def _found(store: MemoryStore, answer: list[Found] | BaseException) -> list[Found]:
    """What a store found; a store that failed found nothing."""
    if isinstance(answer, BaseException):
        log.warning("store %s: search failed: %s", store.name, answer)
        return []
    return answer


def _entries(store: MemoryStore, answer: Iterable[Any]) -> list[Found]:
    """What a store found, as its own."""
    return [
        Found(
            content=entry.content,
            store_name=store.name,
            metadata=entry.metadata,
            relevance=getattr(entry, "relevance", None),
            id=getattr(entry, "id", None),
            seen=getattr(entry, "seen", None),
            pinned=getattr(entry, "pinned", False),
        )
        for entry in answer
    ]
