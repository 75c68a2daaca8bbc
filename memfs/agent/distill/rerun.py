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
    """The messages in the log of one agent, each with its session, number and agent, from which sources are derived.

    `actor` is empty if the log names none.
    """

    actor: str
    agent: str
    messages: Sequence[Message]


@dataclass(frozen=True)
class StrategyResult:
    """The result of one strategy. `state` is one of:

    - done: all turns were distilled.
    - extractive: the same, but without a model; the summary consists of sentences of the turns.
    - off: the strategy needs a model, and there is none.
    - failed: some turns were not distilled; they are in `.memfs/pending` or `.memfs/failed` for another attempt.
    """

    name: str
    namespace: str
    state: str
    changes: Sequence[tuple[str, str]] = ()  # "created" or "updated", and the path


def load_conversations(vault: Vault, session: str) -> list[Conversation]:
    """Return the conversations of a session, one per agent that has messages; SessionNotFoundError if there is none."""
    conversations = map(_conversation, Sessions(vault).logs(session))
    return [conversation for conversation in conversations if conversation.messages]


def _conversation(log: SessionLog) -> Conversation:
    """Return the messages of a log, each with its number.

    The number is the `index` of its event. If the event has no index, or one that is not above the number before, the
    message gets the next number, so that numbers always increase.
    """
    messages, last = [], -1
    for event in log.events():
        index = event.record.get("index")
        for message in messages_in(event):
            last = index if isinstance(index, int) and index > last else last + 1
            messages.append(with_position(message, log.session, last, log.agent))
    header = log.read().header
    return Conversation(header.actor if header else "", log.agent, messages)


def group_by_actor(
    conversations: Sequence[Conversation], *, only: str = "", default: str = ""
) -> dict[str, list[Conversation]]:
    """Return conversations by actor, as the logs spell it: all, or those of the actor `only`, whose case is ignored.

    A conversation whose log names no actor belongs to `only`, else to `default`; SettingsError if both are empty.
    SettingsError also if there are conversations, but none of `only`.
    """
    groups: dict[str, list[Conversation]] = {}
    for conversation in conversations:
        if not (actor := conversation.actor or only or default):
            error = SettingsError("actor", f"the log of {conversation.agent!r} names no actor")
            error.hint = "Give --actor NAME, or set MEMFS_ACTOR, or `actor` in memfs.yaml."
            raise error
        if not only or fold(only) == fold(actor):
            groups.setdefault(actor, []).append(conversation)
    if only and conversations and not groups:
        error = SettingsError("actor", f"no log of the session belongs to {only!r}")
        actors = sorted({conversation.actor for conversation in conversations})
        error.hint = f"The session belongs to {', '.join(actors)}."
        raise error
    return groups


def rerun(
    strategies: Iterable[Strategy],
    conversations: Sequence[Conversation],
    *,
    vault: Vault,
    actor: str,
    session: str,
    model: Any = None,
) -> list[StrategyResult]:
    """Distil conversations of one actor with each strategy in turn; memories that exist already are not duplicated.

    The companions of a strategy, such as the reflections of episodes, follow it. `model` is for strategies that have
    no model of their own.
    """
    default_model = None if model is None else as_model(model)
    results = []
    for strategy in with_models(with_companions(list(strategies))):
        store = make_store(strategy, vault, actor=actor, session=session)
        if lacks_model(strategy, has_model=default_model is not None):
            results.append(StrategyResult(strategy.name, store.namespace, "off"))
            continue
        before = _stamps(store)
        is_done = _distil(store, conversations, default_model)
        is_extractive = default_model is None and isinstance(strategy, ModelStrategy) and strategy.model is None
        state = "failed" if not is_done else "extractive" if is_extractive else "done"
        results.append(StrategyResult(strategy.name, store.namespace, state, _changes(before, _stamps(store))))
    return results


def _distil(store: VaultStore, conversations: Sequence[Conversation], model: Any) -> bool:
    """Distil conversations into a store; return whether all turns were saved.

    Failed batches are counted in the whole vault: one that another process adds meanwhile counts as a failure here.
    """
    root, is_done = store.vault_root, True
    failures_before = len(list_failed(root))
    manager = MemoryManager([store], search_tool_config=False, injection=False, model=model)
    for conversation in conversations:
        attachment = manager.attach()
        for message in conversation.messages:
            attachment.record(message)
        wait(attachment.flush())
        # Without a coordinator nothing was recorded, so nothing was distilled.
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
