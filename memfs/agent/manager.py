"""MemoryManager: connects stores with an agent through tools, extraction and injection. Knows no framework."""

import asyncio
import inspect
import logging
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self, cast

from memfs.after_fork import Mutex
from memfs.agent.conversation_state import ConversationState
from memfs.agent.echo_filter import EchoFilter
from memfs.agent.extraction.config import Binding, Extractor, bind
from memfs.agent.extraction.extractor import ModelExtractor
from memfs.agent.extraction_queue.accepted_facts import AcceptedFacts
from memfs.agent.extraction_queue.coordinator import Coordinator
from memfs.agent.extraction_queue.pending_log import AcceptedFact, adopt_orphans
from memfs.agent.injection import Injector, check_config, interleave
from memfs.agent.memory_tools import (
    add_tool,
    check_unique_names,
    search_tool,
    single_tool,
    tool_name,
    tool_spec,
    with_echo_filter,
)
from memfs.agent.run_sync import is_in_loop, wait
from memfs.agent.store_search import entries_or_warn, result_limit, search_pinned, search_store
from memfs.agent.telemetry import Telemetry, call_safely
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
from memfs.privacy.log_redaction import admit_for_store, shared_policy
from memfs.stores.agent.protocol import (
    MAX_SEARCH_RESULTS,
    CuratedStore,
    MemoryStore,
    check_stores,
    has_method,
    store_place,
)
from memfs.stores.agent.store_tools import curation_tools

log = logging.getLogger("memfs.agent")
READ_TOOLS, WRITE_TOOLS = ("get", "list", "graph"), ("update", "forget")


class MemoryManager:
    """Gives agents tools, extraction and injection on stores.

    `search_tool_config` and `add_tool_config` are True, False, or a mapping with `name` and `description`; the one for
    adding also takes `stores` and `wait_for_writes`. `read_tools` (get, list, graph) and `write_tools` (update, forget)
    are opt-in; `tools="single"` combines all tools in one. `injection` is True, False or a mapping. `model` extracts
    facts for stores with extraction. Pending turns are in the vault of the first writable store that has one.
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
        self.echo_filter = EchoFilter()
        self._telemetry = telemetry or Telemetry()
        self.injection = check_config(config) if (config := expand_toggle(injection)) is not None else None
        self.injector = Injector(self._search_for_injection, self._pinned, self.echo_filter, self._telemetry)
        roots = (getattr(store, "vault_root", None) for store in self._stores if store.writable)
        self._root: Path | None = next(filter(None, roots), None)
        self.redaction = shared_policy(store for store in self._stores if store.writable)
        places = self._places(self._add_stores)
        self._accepted_facts = AcceptedFacts(self._write_accepted, self._root, places, self.redaction)
        self._coordinators: dict[Coordinator, weakref.ref[ConversationState]] = {}
        self._mutex = Mutex()
        self._tools = self._build_tools(search_tool_config, add_tool_config, read_tools, write_tools, tools)

    def __repr__(self) -> str:
        return f"MemoryManager({[store.name for store in self._stores]})"

    # --- tools

    @property
    def tools(self) -> list[Any]:
        """The tools for the model; `tool.spec("openai")` describes one, `await tool(**arguments)` calls it."""
        return list(self._tools)

    def tool_specs(self, shape: str = "json") -> list[dict[str, Any]]:
        """Return the tools as JSON schema, or in the shape of `strands`, `openai` or `anthropic`."""
        return [tool_spec(tool, shape) for tool in self._tools]

    async def call_tool(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> Any:
        """Call a tool by name and return its result; the arguments may be JSON text, as OpenAI sends them."""
        for tool in self._tools:
            if tool_name(tool) == name:
                return await tool(**parse_tool_arguments(name, arguments))
        raise InvalidArgumentsError(name, f"no such tool; there are: {', '.join(map(tool_name, self._tools))}")

    def _build_tools(
        self, search: Toggle, add: Toggle, read: Sequence[str], write: Sequence[str], mode: str
    ) -> list[Any]:
        if mode not in ("each", "single"):
            raise InvalidSetupError("tools", f"{mode!r} is not 'each' or 'single'")
        built: list[Any] = []
        curated = [cast("CuratedStore", store) for store in self._stores if has_method(store, "get")]
        if (config := expand_toggle(search)) is not None:
            check_tool_config("search_tool_config", config, "name", "description")
            built.append(search_tool(self, config, self._stores))
        if (config := expand_toggle(add)) is not None:
            check_tool_config("add_tool_config", config, "name", "description", "stores", "wait_for_writes")
            built.append(add_tool(self, config, self._stores_for_adding(config)))
        for subject, names, known_names in (("read_tools", read, READ_TOOLS), ("write_tools", write, WRITE_TOOLS)):
            if unknown := set(check_list(subject, names)) - set(known_names):
                raise InvalidSetupError(subject, f"{min(unknown)!r} is not one of {', '.join(known_names)}")
            built += (
                [with_echo_filter(tool, self.echo_filter) for tool in curation_tools(curated, names)] if names else []
            )
        built = [single_tool(built)] if mode == "single" and built else built
        own = [tool for store in self._stores if has_method(store, "get_tools") for tool in store.get_tools()]
        check_unique_names([tool_name(tool) for tool in (*built, *own)])
        return [*map(self._adapt_tool, built), *map(self._adapt_tool, own)]

    def _adapt_tool(self, tool: Any) -> Any:
        """Return a tool in the form that the framework expects."""
        return tool

    def _stores_for_adding(self, config: Mapping[str, Any]) -> list[MemoryStore]:
        if not self._add_stores:
            raise InvalidSetupError("add_tool_config", "is enabled but no writable stores implement add")
        given = config.get("stores")
        if given is None:
            return self._add_stores
        if not given:
            raise InvalidSetupError("add_tool_config", "stores is empty; name one, or leave it out for all")
        chosen: dict[str, MemoryStore] = {}
        for name in (one if isinstance(one, str) else one.name for one in check_list("add_tool_config stores", given)):
            store = self._find_stores([name], subject="add_tool_config")[0]
            if not store.writable:
                raise InvalidSetupError("add_tool_config", f"store {name!r} is not writable")
            if not has_method(store, "add"):
                raise InvalidSetupError("add_tool_config", f"store {name!r} has no add method, only add_messages")
            chosen[name] = store
        return list(chosen.values())

    # --- searching and adding

    async def search(self, query: str, options: Mapping[str, Any] | None = None) -> list[Any]:
        """Search the stores and return the best entry of each, then the second best of each, and so on.

        Options: `max_search_results` per store, and `stores`, the names of the stores to search.

        A store that fails is left out with a warning.
        """
        if not isinstance(query, str):
            raise InvalidArgumentsError("search", f"{short_repr(query)} is not a text")
        given = check_options("search", options, "max_search_results", "stores")
        names = given.get("stores")
        limit = given.get("max_search_results")
        if limit is not None and not is_positive_int(limit, MAX_SEARCH_RESULTS):
            reason = f"max_search_results must be a whole number from 1 to {MAX_SEARCH_RESULTS}, got {limit!r}"
            raise InvalidArgumentsError("search", reason)
        searched = names if names is not None else [store.name for store in self._stores]
        text = self.redaction.redact(query).value
        span = call_safely(self._telemetry.start, "search", content=text, stores=searched, limit=limit)
        try:
            with self._telemetry.current(span):
                stores = self._stores if names is None else self._find_stores(names)
                searches = (search_store(store, query, result_limit(limit, store)) for store in stores)
                results = await asyncio.gather(*searches, return_exceptions=True)
        except BaseException as error:
            call_safely(self._telemetry.end, "search", span, error=error)
            raise
        found = interleave([entries_or_warn(store, result) for store, result in zip(stores, results, strict=True)])
        failed = sum(isinstance(result, BaseException) for result in results)
        call_safely(
            self._telemetry.end,
            "search",
            span,
            entries=found,
            result_count=len(found),
            store_failure_count=failed,
        )
        return found

    async def add(self, content: str, options: Mapping[str, Any] | None = None, *, _detached: bool = False) -> None:
        """Add a memory to all writable stores, or to those in the option `stores`; the option `metadata` goes with it.

        Raises AggregateMemoryError if a store fails; the other stores have the memory then. `_detached` is for writes
        in the background: their span has no parent.
        """
        given = check_options("add", options, "metadata", "stores")
        names = given.get("stores")
        targets = names if names is not None else [store.name for store in self._add_stores]
        text = self.redaction.redact(content).value
        span = call_safely(self._telemetry.start, "add", content=text, stores=targets, is_root=_detached)
        try:
            with self._telemetry.current(span):
                stores = self._add_stores if names is None else self._find_stores(names, writable=True)
                if not stores:
                    raise InvalidSetupError("add", "no writable store matched")
                writes = (self._write(store, content, given.get("metadata")) for store in stores)
                results = await asyncio.gather(*writes, return_exceptions=True)
                failed = {
                    store.name: result
                    for store, result in zip(stores, results, strict=True)
                    if isinstance(result, BaseException)
                }
                if failed:
                    message = f"MemoryManager: store writes failed: {', '.join(failed)}"
                    raise self.aggregate(message, list(failed.values()))
        except BaseException as error:
            count = len(error.errors) if isinstance(error, AggregateMemoryError) else 0
            call_safely(self._telemetry.end, "add", span, store_failure_count=count, error=error)
            raise
        call_safely(self._telemetry.end, "add", span, store_failure_count=0)

    async def accept(self, entries: Sequence[str], stores: Sequence[str]) -> None:
        """Record facts, on disk if there is a vault, and write them in the background; `flush` waits for the writes."""
        await self._accepted_facts.accept(entries, [store.name for store in self._find_stores(stores, writable=True)])

    async def _write(self, store: MemoryStore, content: str, metadata: Mapping[str, Any] | None) -> None:
        await store.add(*admit_for_store(self.redaction, store, content, metadata))

    async def _write_accepted(self, fact: AcceptedFact) -> None:
        await self.add(fact.content, {"stores": fact.stores, "metadata": fact.metadata}, _detached=True)

    async def _search_for_injection(self, query: str, limit: int) -> list[Any]:
        return await self.search(query, {"max_search_results": limit})

    async def _pinned(self, limit: int) -> list[Any]:
        stores: list[Any] = [store for store in self._stores if has_method(store, "pinned")]
        results = await asyncio.gather(*(search_pinned(store, limit) for store in stores), return_exceptions=True)
        return interleave([entries_or_warn(store, result) for store, result in zip(stores, results, strict=True)])

    def _find_stores(
        self, names: Sequence[str], *, writable: bool = False, subject: str = "stores"
    ) -> list[MemoryStore]:
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

    def attach(self, agent: Any = None, *, model: Any = None) -> ConversationState:
        """Return the state of a new conversation, or of one agent.

        It also takes over the turns that ended processes left unsaved. `model` replaces the manager's model. Without an
        agent, raises InvalidSetupError if a store's extraction has no model.
        """
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
                echo_filter=self.echo_filter,
                telemetry=self._telemetry,
                redaction=self.redaction,
            )
        conversation = ConversationState(self, coordinator, agent)
        for binding in self._bindings:
            for trigger in binding.config.triggers:
                conversation.listen(binding.store, trigger, self.trigger_context)
        self._register(conversation)
        self._adopt_orphans(coordinator)
        return conversation

    def _register(self, conversation: ConversationState) -> None:
        """Register a conversation to be flushed, and clean up after conversations that were garbage-collected.

        Those without pending turns are closed; the others get a last save, because no trigger can fire for them.
        """
        with self._mutex:
            ended = [one for one, state in self._coordinators.items() if state() is None and not one.pending]
            self._coordinators = {one: state for one, state in self._coordinators.items() if one not in ended}
            if conversation.coordinator is not None:
                self._coordinators[conversation.coordinator] = weakref.ref(conversation)
            unsaved = [
                one for one, state in self._coordinators.items() if state() is None and not one.is_final_save_scheduled
            ]
        for coordinator in ended:
            coordinator.close()
        for coordinator in unsaved if is_in_loop() else ():
            coordinator.is_final_save_scheduled = True
            coordinator.schedule_all()

    def _places(self, stores: Sequence[MemoryStore]) -> dict[str, str]:
        """Return the places (see `store_place`) of the stores that have one, by store name; empty without a vault."""
        found = {store.name: store_place(store, self._root) for store in stores} if self._root else {}
        return {name: place for name, place in found.items() if place}

    def _adopt_orphans(self, coordinator: Coordinator | None) -> None:
        """Take over the pending turns and facts that ended processes left for these stores."""
        if self._root is None:
            return
        for orphan in adopt_orphans(self._root, set(self._places(self._stores).values())):
            self._accepted_facts.adopt(orphan)
            if coordinator is not None and orphan.turns:
                coordinator.adopt([orphan])
            else:
                orphan.log.close()

    def resume(self, coordinator: Coordinator | None) -> None:
        """Start to save the turns and facts of earlier runs, if an event loop runs."""
        self._accepted_facts.resume()
        if coordinator is not None:
            coordinator.schedule_orphans()

    async def initialize(self) -> None:
        """Initialize the stores; an error here prevents the agent from being created."""
        for store in self._stores:
            if has_method(store, "initialize"):
                await store.initialize()

    async def flush(self) -> None:
        """Save every recorded turn and every accepted fact, and wait for it. Never raises."""
        await asyncio.gather(*(coordinator.flush() for coordinator in list(self._coordinators)))
        await self._accepted_facts.flush()

    async def settle(self) -> None:
        """Wait for running saves; turns that wait for their trigger stay pending, on disk if that is possible."""
        await asyncio.gather(*(coordinator.settle() for coordinator in list(self._coordinators)))
        await self._accepted_facts.flush()

    @property
    def pending(self) -> int:
        """The number of turns and facts that are not in their stores yet."""
        return sum(coordinator.pending for coordinator in list(self._coordinators)) + self._accepted_facts.pending

    async def close(self) -> None:
        """Save everything, and close the stores; unsaved turns and facts wait in the vault for the next run."""
        await self.flush()
        for coordinator in list(self._coordinators):
            coordinator.close()
        self._accepted_facts.close()
        for store in self._stores:
            if has_method(store, "close"):
                result = await asyncio.to_thread(cast("Any", store).close)
                if inspect.isawaitable(result):
                    await result

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
