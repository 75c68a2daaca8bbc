"""The long-term half of a session: what is told from memory, and what is distilled into it. Knows no framework."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from memfs.agent.conversation_state import Attachment
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
from memfs.agent.extraction_queue.coordinator import amend
from memfs.agent.extraction_queue.turns import Amendment
from memfs.agent.manager import MemoryManager
from memfs.agent.messages import Message
from memfs.agent.models.clients import as_model
from memfs.privacy.policy import Policy
from memfs.stores.agent.vault_store import VaultStore
from memfs.vault.vault import Vault

log = logging.getLogger("memfs.agent")


class LongTerm:
    """Strategies and retrieval of one session.

    A strategy asks its own model, else `model`, else, if an agent `lends` its own, that. One that needs a model and
    has none is off; that is said once. `manager` makes what turns go through, `adapt` makes a model of what a strategy
    was given as one.
    """

    def __init__(
        self,
        config: VaultMemoryConfig,
        *,
        model: Any = None,
        lends: bool = False,
        manager: Callable[..., MemoryManager] = MemoryManager,
        adapt: Callable[[Any], Any] = as_model,
    ) -> None:
        self.config = config
        self._is_owner = not isinstance(config.vault, Vault)
        self.vault = config.vault if isinstance(config.vault, Vault) else Vault(config.vault)
        self._model = None if model is None else adapt(model)
        self._adapt, self._lends = adapt, lends
        self.strategies = self._in_use() if config.persistence_mode is PersistenceMode.FULL else []
        self.stores = [self._store(strategy) for strategy in self.strategies]
        self.manager = manager(self.stores, search_tool_config=False, injection=False) if self.stores else None
        self._lookups = config.lookups()

    def _in_use(self) -> list[Strategy]:
        """The strategies that can do something, with models that can be asked."""
        chosen = with_models(with_companions(self.config.strategies), self._adapt)
        has_model = self._lends or self._model is not None
        off = [strategy.name for strategy in chosen if lacks_model(strategy, has_model=has_model)]
        kept = [strategy for strategy in chosen if strategy.name not in off]
        plain = [strategy.name for strategy in kept if isinstance(strategy, SummaryStrategy) and not strategy.model]
        said = [f"{', '.join(off)} off"] * bool(off) + [f"{', '.join(plain)} extractive"] * bool(plain)
        if said and not has_model:
            log.warning("no model: %s; model= gives a strategy one", ", ".join(said))
        return kept

    def _store(self, strategy: Strategy) -> VaultStore:
        config = self.config
        about = {"actor": config.actor_id, "session": config.session_id}
        return make_store(strategy, self.vault, **about, redaction=config.redaction)

    def model_for(self, lent: Any) -> Any:
        """The model for strategies without one of their own, where an agent lends this one; or None."""
        return self._adapt(lent) if self._model is None and lent is not None else self._model

    def attach(self) -> Attachment | None:
        """Begin to hear a conversation; None if nothing is distilled."""
        return None if self.manager is None else self.manager.attach(model=self._model)

    def amend(self, agent: str, number: int, message: Message | None = None) -> None:
        """Have a message of the session be another one, or none, wherever it waits to be distilled."""
        session = self.config.session_id
        policy = self.config.redaction or Policy.of(self.vault)
        instead = None if message is None else with_position(policy.redact(message).value, session, number, agent)
        amend(self.vault.root, Amendment(session, agent, number, instead))

    def retriever(self) -> Retriever | None:
        """What tells one agent of the session; None if nothing is looked up. What is told is not distilled again."""
        return Retriever(self.vault, self._lookups, self.config.context_tag, self._note) if self._lookups else None

    def _note(self, texts: Iterable[str]) -> None:
        if self.manager is not None:
            self.manager.ledger.note(texts)

    async def close(self) -> None:
        """Distil all turns, and let go; what could not be saved waits in the vault for the next run."""
        if self.manager is not None:
            await self.manager.close()
        if self._is_owner:
            self.vault.close()
