"""Rerun: distil a session again from its logs, one strategy after the other."""

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
from memfs.agent.extraction_queue.failed_batches import list_failed
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
    """The messages in the log of one agent, as strategies receive them; `actor` is empty if the log names none."""

    actor: str
    agent: str
    messages: Sequence[Message]


@dataclass(frozen=True)
class StrategyResult:
    """The result of one strategy: `state` is done, extractive, off (it has no model) or failed (its turns are kept)."""

    name: str
    namespace: str
    state: str
    changes: Sequence[tuple[str, str]] = ()  # "created" or "updated", and the path


def load_conversations(vault: Vault, session: str) -> list[Conversation]:
    """Return the conversations of a session, one per agent that has messages."""
    return [found for log in Sessions(vault).logs(session) if (found := _conversation(log)).messages]


def _conversation(log: SessionLog) -> Conversation:
    """Return the messages of a log, each with its number."""
    found, last = [], -1
    for event in log.events():
        own = event.record.get("index")
        for message in messages_in(event):
            last = own if isinstance(own, int) and own > last else last + 1
            found.append(with_position(message, log.session, last, log.agent))
    header = log.read().header
    return Conversation(header.actor if header else "", log.agent, found)


def group_by_actor(
    found: Sequence[Conversation], *, only: str = "", default: str = ""
) -> dict[str, list[Conversation]]:
    """Return conversations by actor: all, or those of `only`.

    A conversation without an actor belongs to `only`, else to `default`. SettingsError if both are empty, or if `only`
    has no conversation.
    """
    groups: dict[str, list[Conversation]] = {}
    for one in found:
        if not (actor := one.actor or only or default):
            error = SettingsError("actor", f"the log of {one.agent!r} names no actor")
            error.hint = "Give --actor NAME, or set MEMFS_ACTOR, or `actor` in memfs.yaml."
            raise error
        if not only or fold(only) == fold(actor):
            groups.setdefault(actor, []).append(one)
    if only and found and not groups:
        error = SettingsError("actor", f"no log of the session belongs to {only!r}")
        error.hint = f"The session belongs to {', '.join(sorted({one.actor for one in found}))}."
        raise error
    return groups


def rerun(
    strategies: Iterable[Strategy],
    found: Sequence[Conversation],
    *,
    vault: Vault,
    actor: str,
    session: str,
    model: Any = None,
) -> list[StrategyResult]:
    """Distil conversations of one actor with each strategy in turn; memories that exist already are not duplicated."""
    default_model = None if model is None else as_model(model)
    results = []
    for strategy in with_models(with_companions(list(strategies))):
        store = make_store(strategy, vault, actor=actor, session=session)
        if lacks_model(strategy, has_model=default_model is not None):
            results.append(StrategyResult(strategy.name, store.namespace, "off"))
            continue
        before = _stamps(store)
        is_done = _distil(store, found, default_model)
        is_extractive = default_model is None and isinstance(strategy, ModelStrategy) and strategy.model is None
        state = "failed" if not is_done else "extractive" if is_extractive else "done"
        results.append(StrategyResult(strategy.name, store.namespace, state, _changes(before, _stamps(store))))
    return results


def _distil(store: VaultStore, found: Sequence[Conversation], model: Any) -> bool:
    """Distil conversations into a store; return whether all turns were saved."""
    root, is_done = store.vault_root, True
    failures_before = len(list_failed(root))
    manager = MemoryManager([store], search_tool_config=False, injection=False, model=model)
    for conversation in found:
        attachment = manager.attach()
        for message in conversation.messages:
            attachment.record(message)
        wait(attachment.flush())
        is_done &= attachment.coordinator is not None and not attachment.coordinator.pending
        wait(attachment.close())
    wait(manager.close())
    return is_done and len(list_failed(root)) == failures_before


def _stamps(store: VaultStore) -> dict[str, Stamp]:
    return {memory.path: memory.stamp for memory in store.vault.list()}


def _changes(before: Mapping[str, Stamp], after: Mapping[str, Stamp]) -> list[tuple[str, str]]:
    """Return the paths that are new or have another stamp."""
    return [
        ("updated" if path in before else "created", path) for path, stamp in after.items() if before.get(path) != stamp
    ]
