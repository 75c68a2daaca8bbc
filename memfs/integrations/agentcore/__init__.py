"""Amazon Bedrock AgentCore Memory over a vault, for AgentCore's own clients.

`AgentCoreMemorySessionManager(config, boto_session=AgentCoreVault("notes"))` works unchanged, and so do `MemoryClient`
and `AgentCoreMemoryStore`. Events are stored in session logs, records are memories; nothing leaves the machine.
"""

import os
from collections.abc import Mapping, Sequence
from types import SimpleNamespace, TracebackType
from typing import Any, Self

try:
    import botocore as _  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError("botocore is missing: pip install 'memfs-vault[agentcore]'", name="botocore") from None

from memfs.after_fork import Mutex
from memfs.agent.conversation_state import ConversationState
from memfs.agent.distill.config import VaultMemoryConfig
from memfs.agent.distill.distiller import with_position
from memfs.agent.distill.long_term import LongTerm
from memfs.agent.distill.strategies import Strategy, with_models
from memfs.agent.extraction_queue.coordinator import edit_pending
from memfs.agent.extraction_queue.turns import MessageEdit
from memfs.agent.models.clients import as_model
from memfs.agent.run_sync import wait
from memfs.errors import InvalidSetupError
from memfs.integrations.agentcore.control_plane import ControlPlane
from memfs.integrations.agentcore.events_api import EventsApi
from memfs.integrations.agentcore.records_api import RecordsApi
from memfs.vault.vault import Vault

__all__ = ["AgentCoreVault", "ControlPlane", "DataPlane"]
DATA_SERVICE, CONTROL_SERVICE = "bedrock-agentcore", "bedrock-agentcore-control"
REGION = "vault"


class DataPlane(EventsApi, RecordsApi):
    """The memory operations of the client `bedrock-agentcore`, with its parameter names, on a vault.

    A vault is one memory, whatever the `memoryId` is.
    """

    meta = SimpleNamespace(region_name=REGION)

    def __init__(self, vault: Vault, owner: "AgentCoreVault") -> None:
        EventsApi.__init__(self, vault, owner)
        RecordsApi.__init__(self, vault, owner.types)


class AgentCoreVault:
    """A vault in place of a boto3 session; `strategies` distil the recorded messages, at the latest on flush and close.

    A vault that is given as a path is opened here, and closed by `close`.
    """

    region_name = REGION

    def __init__(
        self,
        vault: Vault | str | os.PathLike[str],
        *,
        strategies: Sequence[Strategy] = (),
        model: Any = None,
    ) -> None:
        self._is_owner = not isinstance(vault, Vault)
        self.vault = vault if isinstance(vault, Vault) else Vault(vault)
        self._strategies, self._model = list(strategies), None if model is None else as_model(model)
        self._check_strategies()
        self._sessions: dict[tuple[str, str], tuple[LongTerm, ConversationState | None]] = {}  # by actor and session
        self._mutex = Mutex()
        self.data = DataPlane(self.vault, self)
        self.control = ControlPlane(self, DataPlane.meta)

    def client(self, service_name: str, **_: Any) -> Any:
        """Return the client of a service, `bedrock-agentcore` or `bedrock-agentcore-control`, on the vault."""
        if service_name == DATA_SERVICE:
            return self.data
        if service_name == CONTROL_SERVICE:
            return self.control
        raise InvalidSetupError(
            "AgentCoreVault", f"service {service_name!r} is none of {DATA_SERVICE}, {CONTROL_SERVICE}"
        )

    def add_strategies(self, strategies: Sequence[Strategy]) -> None:
        """Add strategies for sessions that start from now on; one of the same name is replaced.

        InvalidSetupError if one is not valid; then none is added.
        """
        names = {strategy.name for strategy in strategies}
        before = self._strategies
        self._strategies = [*(strategy for strategy in before if strategy.name not in names), *strategies]
        try:
            self._check_strategies()
        except InvalidSetupError:
            self._strategies = before
            raise

    def _check_strategies(self) -> None:
        """Raise InvalidSetupError if a strategy, or its model, is not valid."""
        VaultMemoryConfig(self.vault, "session", "actor", strategies=self._strategies)
        with_models(self._strategies)

    def types(self) -> Mapping[str, str]:
        """Return the memory type of each strategy, by its name."""
        return {strategy.name: getattr(strategy, "type", "fact") for strategy in self._strategies}

    def has_strategies(self) -> bool:
        """Return whether messages are distilled."""
        return bool(self._strategies)

    def retract_message(self, actor: str, session: str, number: int) -> None:
        """Drop a message that waits to be distilled; here, the agent of a log is its actor."""
        edit_pending(self.vault.root, MessageEdit(session, actor, number))

    def record_messages(self, actor: str, session: str, messages: Sequence[Mapping[str, Any]], first: int) -> None:
        """Record messages to be distilled by the next flush; `first` is the number of the first message."""
        if not self._strategies or not messages:
            return
        with self._mutex:
            if (actor, session) not in self._sessions:
                config = VaultMemoryConfig(self.vault, session, actor, strategies=self._strategies)
                memory = LongTerm(config, model=self._model)
                self._sessions[actor, session] = memory, memory.attach()
            attachment = self._sessions[actor, session][1]
            for number, message in enumerate(messages, first):
                if attachment is not None:
                    attachment.record(with_position(message, session, number, actor))

    def flush(self) -> None:
        """Distil the recorded messages and wait for it; turns that fail stay pending. Never raises."""
        for _, attachment in list(self._sessions.values()):
            if attachment is not None:
                wait(attachment.flush())

    def close(self) -> None:
        """Distil the recorded messages and close; turns that could not be saved wait in the vault for the next run."""
        with self._mutex:
            sessions, self._sessions = list(self._sessions.values()), {}
        for memory, _ in sessions:
            wait(memory.close())
        self.data.close()
        if self._is_owner:
            self.vault.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
