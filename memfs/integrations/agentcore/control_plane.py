"""The control plane: a memory resource is the vault itself; its strategies are kept as long as the process lives."""

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
from memfs.integrations.agentcore.responses import PAGE, Response, page, service_errors

if TYPE_CHECKING:
    from memfs.integrations.agentcore import AgentCoreVault

KINDS: Mapping[str, type[ModelStrategy]] = {
    "semantic": FactStrategy,
    "userPreference": PreferenceStrategy,
    "summary": SummaryStrategy,
    "episodic": EpisodeStrategy,
}
_CUSTOM = "customMemoryStrategy"


class ControlPlane:
    """The client `bedrock-agentcore-control`, as far as memory goes; what it makes is told to the vault."""

    def __init__(self, owner: "AgentCoreVault", meta: Any) -> None:
        self._owner, self.meta = owner, meta
        self._memories: dict[str, Response] = {}
        self._mutex = Mutex()

    @service_errors
    def create_memory(
        self,
        *,
        name: str,
        memoryStrategies: Iterable[Mapping[str, Any]] = (),  # noqa: N803  the words of the service
        description: str = "",
        **_: Any,
    ) -> Response:
        """Have a name for the vault, and strategies; it is active at once."""
        strategies = [strategy_of(given) for given in memoryStrategies]
        self._owner.adopt(strategies)
        now = datetime.now(UTC)
        memory = {"id": name, "name": name, "description": description, "status": "ACTIVE", "createdAt": now}
        with self._mutex:
            self._memories[name] = {**memory, "updatedAt": now, "strategies": [_told(one) for one in strategies]}
            return {"memory": dict(self._memories[name])}

    @service_errors
    def get_memory(self, *, memoryId: str, **_: Any) -> Response:  # noqa: N803
        """What was made by this name."""
        return {"memory": dict(self._named(memoryId))}

    @service_errors
    def list_memories(self, *, maxResults: int | None = PAGE, nextToken: str | None = None) -> Response:  # noqa: N803
        """What was made."""
        return page("memories", list(self._memories.items()), maxResults, nextToken)

    @service_errors
    def update_memory(
        self,
        *,
        memoryId: str,  # noqa: N803
        memoryStrategies: Mapping[str, Any] | None = None,  # noqa: N803
        **_: Any,
    ) -> Response:
        """Have further strategies; nothing else of a vault is changed here."""
        memory = self._named(memoryId)
        given = memoryStrategies or {}
        if other := given.keys() - {"addMemoryStrategies"}:
            raise InvalidSetupError("update_memory", f"{min(other)}: strategies can be added here, and nothing else")
        strategies = [strategy_of(one) for one in given.get("addMemoryStrategies", ())]
        self._owner.adopt(strategies)
        memory["strategies"] = [*memory["strategies"], *map(_told, strategies)]
        return {"memory": dict(memory)}

    @service_errors
    def delete_memory(self, *, memoryId: str, **_: Any) -> Response:  # noqa: N803
        """Have the name no more; the vault stays as it is."""
        self._named(memoryId)
        with self._mutex:
            del self._memories[memoryId]
        return {"memoryId": memoryId, "status": "DELETING"}

    def _named(self, memory_id: str) -> Response:
        if memory_id not in self._memories:
            raise MemoryNotFoundError(memory_id)
        return self._memories[memory_id]


def strategy_of(given: Mapping[str, Any]) -> Strategy:
    """A strategy of the service, such as `{"summaryMemoryStrategy": {"name": ..., "namespaces": [...]}}`, as ours."""
    if not isinstance(given, Mapping) or len(given) != 1:
        raise InvalidSetupError("memoryStrategies", f"{given!r} is not one strategy by its kind")
    ((kind, told),) = given.items()
    override: Mapping[str, Any] = {}
    if kind == _CUSTOM:
        ((kind, override),) = (told.get("configuration") or {"": {}}).items()
    make: Any = KINDS.get(kind.removesuffix("MemoryStrategy").removesuffix("Override"))
    if make is None:
        known = ", ".join(f"{name}MemoryStrategy" for name in KINDS)
        raise InvalidSetupError("memoryStrategies", f"{kind!r} is none of {known}, {_CUSTOM}")
    places = told.get("namespaceTemplates") or told.get("namespaces") or ()
    added = (override.get("extraction") or override.get("consolidation") or {}).get("appendToPrompt")
    where = {"namespace": places[0].rstrip("/")} if places else {}
    strategy: Strategy = make(told["name"], **where, append_to_prompt=added)
    return strategy


def _told(strategy: Strategy) -> Response:
    kind = next(name for name, ours in KINDS.items() if isinstance(strategy, ours))
    known = {"strategyId": strategy.name, "name": strategy.name, "status": "ACTIVE", "namespaces": [strategy.namespace]}
    return {**known, "type": {"userPreference": "USER_PREFERENCE"}.get(kind, kind.upper())}
