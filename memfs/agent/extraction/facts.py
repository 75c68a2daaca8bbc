"""Find the memories that new facts may be about, and write facts: as new memories, or as updates of existing ones."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from memfs.agent.extraction.config import Action, Fact
from memfs.errors import InvalidMemoryError, MemoryChangedError, MemoryNotFoundError
from memfs.privacy.policy import Policy
from memfs.stores.agent.protocol import CuratedStore, Found, MemoryStore, has_method

log = logging.getLogger("memfs.agent")
SIMILAR_MEMORIES = 10  # that an extractor is shown as possible targets of a fact


async def find_similar(store: MemoryStore, text: str) -> Sequence[Found]:
    """Return the memories that an extractor may name as targets; empty if the store cannot find any."""
    if not has_method(store, "similar"):
        return ()
    try:
        return await cast("CuratedStore", store).similar(text, SIMILAR_MEMORIES)
    except Exception as error:
        log.warning("store %s: similar memories were not found: %s", store.name, error)
        return ()


def redact_fact(fact: Any, policy: Policy) -> Any:
    """Return a fact redacted by the policy; text that the memory it updates already contains stays."""
    target, action = getattr(fact, "target", None), getattr(fact, "action", "add")
    content = policy.redact(fact.content, known=target.content if target and action == "update" else "")
    metadata = policy.redact(getattr(fact, "metadata", None))
    if not (content.counts or metadata.counts):
        return fact
    if isinstance(fact, Fact):
        return replace(fact, content=content.value, metadata=metadata.value)
    return Fact(content.value, metadata.value, action=cast("Action", action), target=target)


async def write_fact(store: MemoryStore, fact: Any) -> None:
    """Write a fact to a store; a fact that the store refuses, and always will, is dropped."""
    try:
        await _write(store, fact)
    except InvalidMemoryError as error:
        log.warning("store %s: a fact is dropped: %s", store.name, error)


async def _write(store: MemoryStore, fact: Any) -> None:
    """Perform the action of a fact: nothing for `skip` and for a forgotten one.

    A fact whose target was changed or deleted meanwhile is added.
    """
    if getattr(fact, "action", "add") == "skip":
        return
    target: Any = getattr(fact, "target", None)
    action = getattr(fact, "action", "add") if target is not None and target.id else "add"
    curated = cast("CuratedStore", store)
    if has_method(store, "is_forgotten") and await curated.is_forgotten(fact.content):
        log.info("store %s: a fact that was forgotten is not added again", store.name)
        return
    try:
        if action == "update" and has_method(store, "update"):
            await curated.update(target.id, fact.content, fact.metadata, seen=target.seen)
            return
        if action == "supersede" and has_method(store, "supersede"):
            await curated.supersede(target.id, fact.content, fact.metadata)
            return
    except (MemoryChangedError, MemoryNotFoundError) as error:
        log.warning("store %s: a fact is added instead: %s", store.name, error)
    await store.add(fact.content, fact.metadata)
