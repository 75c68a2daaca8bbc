"""A session distilled once more: strategy by strategy, from what its logs hold."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memfs.agent.distill.distiller import with_position
from memfs.agent.distill.strategies import (
    ModelStrategy,
    Strategy,
    lacks_model,
    make_store,
    with_companions,
    with_models,
)
from memfs.agent.extraction_queue.pending_log import failures
from memfs.agent.manager import MemoryManager
from memfs.agent.messages import Message
from memfs.agent.models.clients import as_model
from memfs.agent.run_sync import wait
from memfs.agent.sessions.session_log import SessionLog
from memfs.agent.sessions.transcript import messages_in
from memfs.agent.sessions.vault_sessions import Sessions
from memfs.data_types import Stamp
from memfs.errors import SettingsError
from memfs.namespace import fold
from memfs.stores.agent.vault_store import VaultStore
from memfs.vault.vault import Vault


@dataclass(frozen=True)
class Conversation:
    """What the log of one agent holds, as strategies are given it; `actor` is empty where the log does not say."""

    actor: str
    agent: str
    messages: Sequence[Message]


@dataclass(frozen=True)
class StrategyResult:
    """What became of a strategy: `state` is done, extractive, off (it has no model) or failed (the turns are kept)."""

    name: str
    namespace: str
    state: str
    changes: Sequence[tuple[str, str]] = ()  # "created" or "updated", and a path


def load_conversations(vault: Vault, session: str) -> list[Conversation]:
    """What was said in a session, agent by agent."""
    return [found for log in Sessions(vault).logs(session) if (found := _conversation(log)).messages]


def _conversation(log: SessionLog) -> Conversation:
    """The messages of a log, each with its number."""
    found, last = [], -1
    for event in log.events():
        own = event.record.get("index")
        for message in messages_in(event):
            last = own if isinstance(own, int) and own > last else last + 1
            found.append(with_position(message, log.session, last, log.agent))
    head = log.read().header
    return Conversation(head.actor if head else "", log.agent, found)


def group_by_actor(said: Sequence[Conversation], *, only: str = "", default: str = "") -> dict[str, list[Conversation]]:
    """Conversations by whom they were had with: all, or `only` one's; what is nobody's is that one's, or `default`'s.

    SettingsError if it is neither's.
    """
    found: dict[str, list[Conversation]] = {}
    for one in said:
        if not (actor := one.actor or only or default):
            error = SettingsError("actor", f"the log of {one.agent!r} does not say whose it is")
            error.hint = "Give --actor NAME, or set MEMFS_ACTOR, or `actor` in memfs.yaml."
            raise error
        if not only or fold(only) == fold(actor):
            found.setdefault(actor, []).append(one)
    if only and said and not found:
        error = SettingsError("actor", f"no log of the session is of {only!r}")
        error.hint = f"The session is of {', '.join(sorted({one.actor for one in said}))}."
        raise error
    return found


def rerun(
    strategies: Iterable[Strategy],
    said: Sequence[Conversation],
    *,
    vault: Vault,
    actor: str,
    session: str,
    model: Any = None,
) -> list[StrategyResult]:
    """Have strategies distil conversations of one actor, one after the other; what is there is not there twice."""
    lent = None if model is None else as_model(model)
    results = []
    for strategy in with_models(with_companions(list(strategies))):
        store = make_store(strategy, vault, actor=actor, session=session)
        if lacks_model(strategy, has_model=lent is not None):
            results.append(StrategyResult(strategy.name, store.namespace, "off"))
            continue
        before = _stamps(store)
        is_done = _distil(store, said, lent)
        is_plain = lent is None and isinstance(strategy, ModelStrategy) and strategy.model is None
        state = "failed" if not is_done else "extractive" if is_plain else "done"
        results.append(StrategyResult(strategy.name, store.namespace, state, _changes(before, _stamps(store))))
    return results


def _distil(store: VaultStore, said: Sequence[Conversation], model: Any) -> bool:
    """Have a store get conversations; tell whether it got all."""
    root, is_done = store.vault_root, True
    kept = len(failures(root))
    manager = MemoryManager([store], search_tool_config=False, injection=False, model=model)
    for conversation in said:
        attachment = manager.attach()
        for message in conversation.messages:
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
