"""A session distilled once more: strategy by strategy, from what its logs hold."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memfs.agent.blocking import wait
from memfs.agent.manager import MemoryManager
from memfs.agent.messages import Message
from memfs.agent.models import as_model
from memfs.agent.pending import failures
from memfs.agent.session.distilling import recorded
from memfs.agent.session.log import SessionLog
from memfs.agent.session.sessions import Sessions
from memfs.agent.session.strategies import ModelStrategy, Strategy, is_off, store_of, with_companions, with_models
from memfs.model import Stamp
from memfs.stores.vault import VaultStore
from memfs.vault import Vault

Conversation = Sequence[Message]


@dataclass(frozen=True)
class Distilled:
    """What became of a strategy: `state` is done, extractive, off (it has no model) or failed (the turns are kept)."""

    name: str
    namespace: str
    state: str
    changes: Sequence[tuple[str, str]] = ()  # "created" or "updated", and a path


def conversations(vault: Vault, session: str) -> list[Conversation]:
    """The messages of a session as strategies are given them, agent by agent."""
    return [found for log in Sessions(vault).logs(session) if (found := _messages(log))]


def _messages(log: SessionLog) -> list[Message]:
    """The messages of a log, each with its number."""
    found, last = [], -1
    for event in log.events(kinds=("message",)):
        own = event.record.get("index")
        last = own if isinstance(own, int) and own > last else last + 1
        found.append(recorded(event.message, log.session, last))
    return found


def rerun(
    strategies: Iterable[Strategy],
    said: Sequence[Conversation],
    *,
    vault: Vault,
    actor: str,
    session: str,
    model: Any = None,
) -> list[Distilled]:
    """Have strategies distil conversations, one after the other; what is there already is not there twice."""
    lent = None if model is None else as_model(model)
    results = []
    for strategy in with_models(with_companions(list(strategies))):
        store = store_of(strategy, vault, actor=actor, session=session)
        if is_off(strategy, has_model=lent is not None):
            results.append(Distilled(strategy.name, store.namespace, "off"))
            continue
        before = _stamps(store)
        is_done = _distil(store, said, lent)
        is_plain = lent is None and isinstance(strategy, ModelStrategy) and strategy.model is None
        state = "failed" if not is_done else "extractive" if is_plain else "done"
        results.append(Distilled(strategy.name, store.namespace, state, _changes(before, _stamps(store))))
    return results


def _distil(store: VaultStore, said: Sequence[Conversation], model: Any) -> bool:
    """Have a store get conversations; tell whether it got all."""
    root, is_done = store.vault_root, True
    kept = len(failures(root))
    manager = MemoryManager([store], search_tool_config=False, injection=False, model=model)
    for conversation in said:
        attachment = manager.attach()
        for message in conversation:
            attachment.record(message)
        wait(attachment.flush())
        is_done &= attachment.coordinator is not None and not attachment.coordinator.pending
        wait(attachment.close())
    wait(manager.close())
    return is_done and len(failures(root)) == kept


def _stamps(store: VaultStore) -> dict[str, Stamp]:
    return {memory.path: memory.stamp for memory in store.vault.list()}


def _changes(before: Mapping[str, Stamp], after: Mapping[str, Stamp]) -> list[tuple[str, str]]:
    """What is there that was not, or was another."""
    return [
        ("updated" if path in before else "created", path) for path, stamp in after.items() if before.get(path) != stamp
    ]
