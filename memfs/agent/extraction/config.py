"""The types and settings of extraction: facts, extractors, filters, and the checked config per store. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from memfs.agent.messages import Message
from memfs.agent.triggers import IntervalTrigger, Trigger
from memfs.errors import InvalidSetupError, short_repr
from memfs.stores.agent.protocol import Found, MemoryStore, has_method

if TYPE_CHECKING:
    from memfs.agent.models.protocol import Model

CONTEXT_MESSAGES = 10  # earlier messages that an extractor is shown by default
DEFAULT_INTERVAL_TURNS = 5  # between two extractions by default
CONFIG_KEYS = ("trigger", "extractor", "filter")
Action = Literal["add", "update", "supersede", "skip"]


@dataclass
class Fact:
    """One thing worth remembering. `target` is the memory that an update or a supersede is about."""

    content: str
    metadata: dict[str, Any] | None = None
    action: Action = field(default="add", kw_only=True)
    target: Found | None = field(default=None, kw_only=True)


@dataclass
class ExtractorContext:
    """The input of an extractor besides the messages.

    `previous` are earlier messages that were extracted already: they are context only. `similar` are the nearest
    memories of the store; an extractor may name one of them as the target of a fact. With `is_strict`, a reply that
    cannot be parsed raises ExtractionError, so that the caller can keep the messages for another attempt.
    """

    default_model: "Model | Any | None" = None
    previous: Sequence[Message] = ()
    similar: Sequence[Found] = ()
    is_strict: bool = False


class Extractor(Protocol):
    """Extracts facts from messages."""

    async def extract(self, messages: Any, context: Any = None) -> Sequence[Any]:
        """Return the facts in messages; `context` is an ExtractorContext."""
        ...


@dataclass
class MessageFilter:
    """The kinds of blocks that are left out before extraction."""

    exclude: Sequence[str]


NO_TOOLS = MessageFilter(exclude=["toolUse", "toolResult"])


@dataclass
class ResolvedExtraction:
    """The extraction config of one store with all defaults; without an extractor the store gets messages, not facts."""

    triggers: list[Trigger]
    extractor: Extractor | None
    filter: MessageFilter


@dataclass
class Binding:
    """A store and its extraction config."""

    store: MemoryStore
    config: ResolvedExtraction

    @property
    def context(self) -> int:
        """The number of earlier messages that the extractor is shown."""
        return int(getattr(self.config.extractor, "context_messages", CONTEXT_MESSAGES))


def resolve(
    given: object, store: MemoryStore, default: type[Extractor] | None = None, *, is_strict: bool = True
) -> ResolvedExtraction | None:
    """Return a store's `extraction` with all defaults; None if it is off.

    `default` is the extractor of stores that take facts rather than messages. Raises InvalidSetupError if `given` is
    neither a flag nor a mapping and, if `is_strict`, for unknown keys.
    """
    if given is None or given is False:
        return None
    if given is not True and not isinstance(given, Mapping):
        raise InvalidSetupError(f"store {store.name!r}", f"extraction is {given!r}, not True, False or a mapping")
    config: Mapping[str, Any] = {} if given is True else given
    if is_strict and (unknown := config.keys() - set(CONFIG_KEYS)):
        raise InvalidSetupError(
            f"store {store.name!r}", f"unknown extraction key {min(unknown)!r}; known: {', '.join(CONFIG_KEYS)}"
        )
    trigger = config.get("trigger")
    extractor = config.get("extractor")
    wants_facts = getattr(store, "wants_facts", False) or not has_method(store, "add_messages")
    if extractor is None and default is not None and wants_facts and has_method(store, "add"):
        extractor = default()
    given_triggers = trigger if isinstance(trigger, list | tuple) else [trigger]
    triggers = [IntervalTrigger(DEFAULT_INTERVAL_TURNS)] if trigger is None else list(given_triggers)
    return ResolvedExtraction(triggers, extractor, config.get("filter") or NO_TOOLS)


def bind(store: MemoryStore, default: type[Extractor] | None, *, is_strict: bool = True) -> Binding | None:
    """Return a store with its extraction config; None if extraction is off, InvalidSetupError if it cannot work."""
    config = resolve(store.extraction, store, default, is_strict=is_strict)
    if config is None:
        return None
    subject = f"store {store.name!r}"
    if not store.writable:
        raise InvalidSetupError(subject, "has extraction config but is not writable")
    if not config.triggers:
        raise InvalidSetupError(subject, "has extraction config but no triggers")
    if config.extractor is not None and not has_method(store, "add"):
        raise InvalidSetupError(subject, "has an extractor but no add method, which facts are written with")
    if config.extractor is None and not has_method(store, "add_messages"):
        raise InvalidSetupError(subject, "has extraction config without an extractor but no add_messages method")
    _check_parts(subject, config)
    return Binding(store, config)


def _check_parts(subject: str, config: ResolvedExtraction) -> None:
    """Raise InvalidSetupError for parts that would fail only when they are used."""
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
