"""Facts on their way into a store: added, or put in the place of a memory that they correct."""

import logging
from dataclasses import replace
from typing import Any, cast

from memfs.agent.extraction.config import Action, Fact
from memfs.errors import InvalidMemoryError, MemoryChangedError, MemoryNotFoundError
from memfs.privacy.policy import Policy
from memfs.stores.agent.protocol import CuratedStore, MemoryStore, has_method

log = logging.getLogger("memfs.agent")


def redacted(fact: Any, policy: Policy) -> Any:
    """A fact without what the policy leaves out; what the memory that it updates says already stays."""
    target, action = getattr(fact, "target", None), getattr(fact, "action", "add")
    metadata = getattr(fact, "metadata", None)
    content = policy.redact(fact.content, known=target.content if target and action == "update" else "")
    told = policy.redact(metadata)
    if not (content.counts or told.counts):
        return fact
    if isinstance(fact, Fact):
        return replace(fact, content=content.value, metadata=told.value)
    return Fact(content.value, told.value, action=cast("Action", action), target=target)


async def write_fact(store: MemoryStore, fact: Any) -> None:
    """Do what a fact asks for; one that the store refuses, and always will, is dropped."""
    try:
        await _write(store, fact)
    except InvalidMemoryError as error:
        log.warning("store %s: a fact is dropped: %s", store.name, error)


async def _write(store: MemoryStore, fact: Any) -> None:
    """Do what a fact asks for. One that was forgotten is left out; one whose target is gone is added."""
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
