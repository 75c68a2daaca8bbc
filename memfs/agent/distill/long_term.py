"""LongTerm: the long-term memory of a session, retrieval and strategies together, for any framework."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from memfs.agent.conversation_state import ConversationState
from memfs.agent.distill.config import PersistenceMode, VaultMemoryConfig
from memfs.agent.distill.distiller import with_position
from memfs.agent.distill.retrieval import Retriever
from memfs.agent.distill.strategies import (
    Strategy,
    SummaryStrategy,
    lacks_model,
    make_store,
    with_companions,
    with_models,
)
from memfs.agent.extraction_queue.coordinator import edit_pending
from memfs.agent.extraction_queue.turns import MessageEdit
from memfs.agent.manager import MemoryManager
from memfs.agent.messages import Message
from memfs.agent.models.clients import as_model
from memfs.privacy.policy import Policy
from memfs.stores.agent.vault_store import VaultStore
from memfs.vault.vault import Vault

log = logging.getLogger("memfs.agent")


class LongTerm:
    """The strategies and the retrieval of one session.

    A strategy uses its own model, else `model`, else the agent's model if `agent_lends_model` is set. A strategy that
    needs a model and has none is off, and a warning names it. `manager` creates the manager that records the turns;
    `adapt` converts the object given as a model to a Model. A vault that is given as a path is opened here, and closed
    by `close`.
    """

    def __init__(
        self,
        config: VaultMemoryConfig,
        *,
        model: Any = None,
        agent_lends_model: bool = False,
        manager: Callable[..., MemoryManager] = MemoryManager,
        adapt: Callable[[Any], Any] = as_model,
    ) -> None:
        self.config = config
        self._is_owner = not isinstance(config.vault, Vault)
        self.vault = config.vault if isinstance(config.vault, Vault) else Vault(config.vault)
        self._model = None if model is None else adapt(model)
        self._adapt, self._agent_lends_model = adapt, agent_lends_model
        self.strategies = self._usable_strategies() if config.persistence_mode is PersistenceMode.FULL else []
        self.stores = [self._store(strategy) for strategy in self.strategies]
        self.manager = manager(self.stores, search_tool_config=False, injection=False) if self.stores else None
        self._lookups = config.lookups()

    def _usable_strategies(self) -> list[Strategy]:
        """Return the strategies that have a model or need none; a warning names the others, and the extractive ones."""
        strategies = with_models(with_companions(self.config.strategies), self._adapt)
        has_model = self._agent_lends_model or self._model is not None
        off = [strategy.name for strategy in strategies if lacks_model(strategy, has_model=has_model)]
        usable = [strategy for strategy in strategies if strategy.name not in off]
        extractive = [
            strategy.name for strategy in usable if isinstance(strategy, SummaryStrategy) and not strategy.model
        ]
        notes = [f"{', '.join(off)} off"] * bool(off) + [f"{', '.join(extractive)} extractive"] * bool(extractive)
        if notes and not has_model:
            log.warning("no model: %s; model= gives a strategy one", ", ".join(notes))
        return usable

    def _store(self, strategy: Strategy) -> VaultStore:
        config = self.config
        about = {"actor": config.actor_id, "session": config.session_id}
        return make_store(strategy, self.vault, **about, redaction=config.redaction)

    def model_for(self, lent: Any) -> Any:
        """Return the model for strategies that have none; `lent` is the agent's model, or None."""
        return self._adapt(lent) if self._model is None and lent is not None else self._model

    def attach(self) -> ConversationState | None:
        """Start to record a conversation; None if there are no strategies."""
        return None if self.manager is None else self.manager.attach(model=self._model)

    def amend(self, agent: str, number: int, message: Message | None = None) -> None:
        """Replace a message of the session in pending turns and failed batches, or drop it there if `message` is None.

        The pending turns of other live processes are not changed.
        """
        session = self.config.session_id
        policy = self.config.redaction or Policy.of(self.vault)
        replacement = None if message is None else with_position(policy.redact(message).value, session, number, agent)
        edit_pending(self.vault.root, MessageEdit(session, agent, number, replacement))

    def retriever(self) -> Retriever | None:
        """Return a retriever for one agent of the session; None if no namespaces are searched.

        Retrieved texts are not distilled again.
        """
        if not self._lookups:
            return None
        return Retriever(self.vault, self._lookups, self.config.context_tag, self._ignore_echo)

    def _ignore_echo(self, texts: Iterable[str]) -> None:
        if self.manager is not None:
            self.manager.echo_filter.record(texts)

    async def close(self) -> None:
        """Distil all turns and close; turns that could not be saved wait in `.memfs/pending` for the next run."""
        if self.manager is not None:
            await self.manager.close()
        if self._is_owner:
            self.vault.close()
