"""The control plane of AgentCore: a memory resource is the vault itself; its strategies last as long as the process."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from memfs.after_fork import Mutex
from memfs.agent.distill.strategies import (
    EpisodeStrategy,
    FactStrategy,
    ModelStrategy,
    PreferenceStrategy,
    Strategy,
    SummaryStrategy,
)
from memfs.errors import InvalidSetupError, MemoryNotFoundError
from memfs.integrations.agentcore.responses import PAGE_SIZE, Response, page, service_errors

if TYPE_CHECKING:
    from memfs.integrations.agentcore import AgentCoreVault

STRATEGY_KINDS: Mapping[str, type[ModelStrategy]] = {
    "semantic": FactStrategy,
    "userPreference": PreferenceStrategy,
    "summary": SummaryStrategy,
    "episodic": EpisodeStrategy,
}
_CUSTOM = "customMemoryStrategy"


class ControlPlane:
    """The memory operations of the client `bedrock-agentcore-control`; created strategies are added to the vault."""

    def __init__(self, owner: "AgentCoreVault", meta: Any) -> None:
        self._owner, self.meta = owner, meta
        self._memories: dict[str, Response] = {}
        self._mutex = Mutex()

    @service_errors
    def create_memory(
        self,
        *,
        name: str,
        memoryStrategies: Iterable[Mapping[str, Any]] = (),  # noqa: N803  the parameter names of the service
        description: str = "",
        **_: Any,
    ) -> Response:
        """Register a name for the vault, and add strategies; the memory is active at once."""
        strategies = [make_strategy(given) for given in memoryStrategies]
        self._owner.add_strategies(strategies)
        now = datetime.now(UTC)
        memory = {"id": name, "name": name, "description": description, "status": "ACTIVE", "createdAt": now}
        with self._mutex:
            self._memories[name] = {
                **memory,
                "updatedAt": now,
                "strategies": [_strategy_response(strategy) for strategy in strategies],
            }
            return {"memory": dict(self._memories[name])}

    @service_errors
    def get_memory(self, *, memoryId: str, **_: Any) -> Response:  # noqa: N803
        """Return the memory resource of this name."""
        return {"memory": dict(self._named(memoryId))}

    @service_errors
    def list_memories(self, *, maxResults: int | None = PAGE_SIZE, nextToken: str | None = None) -> Response:  # noqa: N803
        """Return a page of the memory resources."""
        return page("memories", list(self._memories.items()), maxResults, nextToken)

    @service_errors
    def update_memory(
        self,
        *,
        memoryId: str,  # noqa: N803
        memoryStrategies: Mapping[str, Any] | None = None,  # noqa: N803
        **_: Any,
    ) -> Response:
        """Add strategies; other changes of strategies are refused, and other parameters are ignored."""
        memory = self._named(memoryId)
        given = memoryStrategies or {}
        if other := given.keys() - {"addMemoryStrategies"}:
            raise InvalidSetupError("update_memory", f"{min(other)}: only addMemoryStrategies is supported")
        strategies = [make_strategy(definition) for definition in given.get("addMemoryStrategies", ())]
        self._owner.add_strategies(strategies)
        memory["strategies"] = [*memory["strategies"], *map(_strategy_response, strategies)]
        return {"memory": dict(memory)}

    @service_errors
    def delete_memory(self, *, memoryId: str, **_: Any) -> Response:  # noqa: N803
        """Remove the name; the vault stays unchanged."""
        self._named(memoryId)
        with self._mutex:
            del self._memories[memoryId]
        return {"memoryId": memoryId, "status": "DELETING"}

    def _named(self, memory_id: str) -> Response:
        """Return a memory resource by its name; MemoryNotFoundError if there is none."""
        if memory_id not in self._memories:
            raise MemoryNotFoundError(memory_id)
        return self._memories[memory_id]


def make_strategy(given: Mapping[str, Any]) -> Strategy:
    """Return the strategy for a definition like `{"summaryMemoryStrategy": {"name": ..., "namespaces": [...]}}`.

    Only the first namespace is used. InvalidSetupError if the definition is not valid.
    """
    if not isinstance(given, Mapping) or len(given) != 1:
        raise InvalidSetupError("memoryStrategies", f"{given!r} is not a mapping of one kind to its strategy")
    ((kind, definition),) = given.items()
    override: Mapping[str, Any] = {}
    if kind == _CUSTOM:
        ((kind, override),) = (definition.get("configuration") or {"": {}}).items()
    strategy_class: Any = STRATEGY_KINDS.get(kind.removesuffix("MemoryStrategy").removesuffix("Override"))
    if strategy_class is None:
        supported = ", ".join(f"{name}MemoryStrategy" for name in STRATEGY_KINDS)
        raise InvalidSetupError("memoryStrategies", f"{kind!r} is none of {supported}, {_CUSTOM}")
    namespaces = definition.get("namespaceTemplates") or definition.get("namespaces") or ()
    added = (override.get("extraction") or override.get("consolidation") or {}).get("appendToPrompt")
    options = {"namespace": namespaces[0].rstrip("/")} if namespaces else {}
    strategy: Strategy = strategy_class(definition["name"], **options, append_to_prompt=added)
    return strategy


def _strategy_response(strategy: Strategy) -> Response:
    """Return a strategy in the format of the service."""
    kind = next(name for name, class_ in STRATEGY_KINDS.items() if isinstance(strategy, class_))
    fields = {
        "strategyId": strategy.name,
        "name": strategy.name,
        "status": "ACTIVE",
        "namespaces": [strategy.namespace],
    }
    return {**fields, "type": {"userPreference": "USER_PREFERENCE"}.get(kind, kind.upper())}
