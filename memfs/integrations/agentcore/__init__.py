"""Amazon Bedrock AgentCore Memory over a vault: what stands where a boto3 session stood, for AgentCore's own clients.

`AgentCoreMemorySessionManager(config, boto_session=AgentCoreVault("notes"))` runs as it is, and so do `MemoryClient`
and `AgentCoreMemoryStore`. Events are in the logs of sessions, records are memories; nothing leaves the machine.
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
from memfs.agent.conversation_state import Attachment
from memfs.agent.distill.config import VaultMemoryConfig
from memfs.agent.distill.distiller import with_position
from memfs.agent.distill.long_term import LongTerm
from memfs.agent.distill.strategies import Strategy, with_models
from memfs.agent.extraction_queue.coordinator import amend
from memfs.agent.extraction_queue.turns import Amendment
from memfs.agent.models.clients import as_model
from memfs.agent.run_sync import wait
from memfs.errors import InvalidSetupError
from memfs.integrations.agentcore.control_plane import ControlPlane
from memfs.integrations.agentcore.events_api import EventsApi
from memfs.integrations.agentcore.records_api import RecordsApi
from memfs.vault.vault import Vault

__all__ = ["AgentCoreVault", "ControlPlane", "DataPlane"]
DATA, CONTROL = "bedrock-agentcore", "bedrock-agentcore-control"
REGION = "vault"


class DataPlane(EventsApi, RecordsApi):
    """The client `bedrock-agentcore`, as far as memory goes: its calls, with its words, on a vault.

    A vault is one memory, whatever its `memoryId` is called.
    """

    meta = SimpleNamespace(region_name=REGION)

    def __init__(self, vault: Vault, owner: "AgentCoreVault") -> None:
        EventsApi.__init__(self, vault, owner)
        RecordsApi.__init__(self, vault, owner.types)


class AgentCoreVault:
    """A vault in the place of a boto3 session; `strategies` distil what is said when it is flushed or closed."""

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
        self._check()
        self._heard: dict[tuple[str, str], tuple[LongTerm, Attachment | None]] = {}
        self._mutex = Mutex()
        self.data = DataPlane(self.vault, self)
        self.control = ControlPlane(self, DataPlane.meta)

    def client(self, service_name: str, **_: Any) -> Any:
        """The client of a service, `bedrock-agentcore` or `bedrock-agentcore-control`, on the vault."""
        if service_name == DATA:
            return self.data
        if service_name == CONTROL:
            return self.control
        raise InvalidSetupError("AgentCoreVault", f"service {service_name!r} is none of {DATA}, {CONTROL}")

    def adopt(self, strategies: Sequence[Strategy]) -> None:
        """Have further strategies, for sessions that are heard from now on; one of the same name is replaced."""
        names = {strategy.name for strategy in strategies}
        before = self._strategies
        self._strategies = [*(one for one in before if one.name not in names), *strategies]
        try:
            self._check()
        except InvalidSetupError:
            self._strategies = before
            raise

    def _check(self) -> None:
        """Refuse strategies that cannot be, and what is no model of theirs."""
        VaultMemoryConfig(self.vault, "session", "actor", strategies=self._strategies)
        with_models(self._strategies)

    def types(self) -> Mapping[str, str]:
        """The types of the strategies' memories, by name."""
        return {strategy.name: getattr(strategy, "type", "fact") for strategy in self._strategies}

    def listens(self) -> bool:
        """Tell whether anything is distilled."""
        return bool(self._strategies)

    def take_back(self, actor: str, session: str, number: int) -> None:
        """Have a message distilled no more, if it is not yet."""
        amend(self.vault.root, Amendment(session, actor, number))

    def hear(self, actor: str, session: str, messages: Sequence[Mapping[str, Any]], first: int) -> None:
        """Have messages distilled with the next flush."""
        if not self._strategies or not messages:
            return
        with self._mutex:
            if (actor, session) not in self._heard:
                config = VaultMemoryConfig(self.vault, session, actor, strategies=self._strategies)
                memory = LongTerm(config, model=self._model)
                self._heard[actor, session] = memory, memory.attach()
            attachment = self._heard[actor, session][1]
            for number, message in enumerate(messages, first):
                if attachment is not None:
                    attachment.record(with_position(message, session, number, actor))

    def flush(self) -> None:
        """Distil what was said, and wait for it; what fails stays pending. Never raises."""
        for _, attachment in list(self._heard.values()):
            if attachment is not None:
                wait(attachment.flush())

    def close(self) -> None:
        """Distil what was said, and let go; what could not be saved waits in the vault for the next run."""
        with self._mutex:
            heard, self._heard = list(self._heard.values()), {}
        for memory, _ in heard:
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
