"""Extraction: what becomes of the turns of a conversation, and the settings of it. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from memfs.agent.messages import Message
from memfs.agent.triggers import IntervalTrigger, Trigger
from memfs.errors import InvalidSetupError, short_repr
from memfs.stores.agent.protocol import Found, MemoryStore, has_method

if TYPE_CHECKING:
    from memfs.agent.models.protocol import Model

CONTEXT = 10  # messages before the new ones that an extractor may look at, unless it says otherwise
TURNS = 5  # between two extractions, unless a store says otherwise
KEYS = ("trigger", "extractor", "filter")
Action = Literal["add", "update", "supersede", "skip"]


@dataclass
class Fact:
    """One thing worth remembering. `target` names the memory that an update or a supersede is about."""

    content: str
    metadata: dict[str, Any] | None = None
    action: Action = field(default="add", kw_only=True)
    target: Found | None = field(default=None, kw_only=True)


@dataclass
class ExtractorContext:
    """What an extractor may look at besides the messages.

    `previous` are the messages before, which have been extracted already: for understanding only. `similar` are
    memories of the store that are near; an extractor may name one as the target of a fact. With `is_strict`, an
    answer that cannot be read raises ExtractionError, for there is somebody who keeps the messages.
    """

    default_model: "Model | Any | None" = None
    previous: Sequence[Message] = ()
    similar: Sequence[Found] = ()
    is_strict: bool = False


class Extractor(Protocol):
    """Distils messages into facts."""

    async def extract(self, messages: Any, context: Any = None) -> Sequence[Any]: ...


@dataclass
class MessageFilter:
    """Kinds of blocks that are left out before extraction."""

    exclude: Sequence[str]


NO_TOOLS = MessageFilter(exclude=["toolUse", "toolResult"])


@dataclass
class Extraction:
    """The extraction of one store, settled: without an extractor, messages go to the store as they are."""

    triggers: list[Trigger]
    extractor: Extractor | None
    filter: MessageFilter


@dataclass
class Binding:
    """A store and its extraction."""

    store: MemoryStore
    config: Extraction

    @property
    def context(self) -> int:
        """How many messages before the new ones the extractor is given."""
        return int(getattr(self.config.extractor, "context_messages", CONTEXT))


def resolve(
    given: object, store: MemoryStore, default: type[Extractor] | None = None, *, is_strict: bool = True
) -> Extraction | None:
    """Settle what a store's `extraction` leaves open; None if it is off. `default` makes an extractor of facts."""
    if given is None or given is False:
        return None
    if given is not True and not isinstance(given, Mapping):
        raise InvalidSetupError(f"store {store.name!r}", f"extraction is {given!r}, not True, False or a mapping")
    config: Mapping[str, Any] = {} if given is True else given
    if is_strict and (unknown := config.keys() - set(KEYS)):
        raise InvalidSetupError(
            f"store {store.name!r}", f"unknown extraction key {min(unknown)!r}; known: {', '.join(KEYS)}"
        )
    trigger = config.get("trigger")
    extractor = config.get("extractor")
    wants_facts = getattr(store, "wants_facts", False) or not has_method(store, "add_messages")
    if extractor is None and default is not None and wants_facts and has_method(store, "add"):
        extractor = default()
    given_triggers = trigger if isinstance(trigger, list | tuple) else [trigger]
    triggers = [IntervalTrigger(TURNS)] if trigger is None else list(given_triggers)
    return Extraction(triggers, extractor, config.get("filter") or NO_TOOLS)


def bind(store: MemoryStore, default: type[Extractor] | None, *, is_strict: bool = True) -> Binding | None:
    """A store with its extraction, checked; None if it has none."""
    config = resolve(store.extraction, store, default, is_strict=is_strict)
    if config is None:
        return None
    subject = f"store {store.name!r}"
    if not store.writable:
        raise InvalidSetupError(subject, "has extraction config but is not writable")
    if not config.triggers:
        raise InvalidSetupError(subject, "has extraction config but no triggers")
    if config.extractor is not None and not has_method(store, "add"):
        raise InvalidSetupError(subject, "has an extractor but no add method, which facts are written by")
    if config.extractor is None and not has_method(store, "add_messages"):
        raise InvalidSetupError(subject, "has extraction config without an extractor but no add_messages method")
    _check_parts(subject, config)
    return Binding(store, config)


def _check_parts(subject: str, config: Extraction) -> None:
    """Refuse what would raise only when it is used."""
    for trigger in config.triggers:
        if isinstance(trigger, type) or not callable(getattr(trigger, "attach", None)):
            raise InvalidSetupError(
                subject, f"extraction trigger: {short_repr(trigger)} is not a trigger such as IntervalTrigger(5)"
            )
    extractor = config.extractor
    if extractor is not None and (isinstance(extractor, type) or not callable(getattr(extractor, "extract", None))):
        raise InvalidSetupError(
            subject, f"extraction extractor: {short_repr(extractor)} is not one such as ModelExtractor()"
        )
    if not hasattr(config.filter, "exclude"):
        reason = f"extraction filter: {short_repr(config.filter)} is not a MessageFilter(exclude=[...])"
        raise InvalidSetupError(subject, reason)
