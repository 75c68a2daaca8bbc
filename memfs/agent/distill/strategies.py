"""Strategies: which memories are distilled from a session, and into which namespace. The protocol and the built-ins."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from memfs.agent.distill.distiller import Distiller, StrategyContext, find_source
from memfs.agent.distill.prompts import EpisodeExtractor, PreferenceExtractor, ReflectionExtractor, SummaryExtractor
from memfs.agent.distill.summaries import (
    HIGHLIGHTS,
    SummaryStore,
    edited_titles,
    highlights,
    make_section,
    parse_sections,
    section_marks,
)
from memfs.agent.extraction.config import CONTEXT_MESSAGES, DEFAULT_INTERVAL_TURNS, Fact, MessageFilter
from memfs.agent.extraction.extractor import ModelExtractor
from memfs.agent.messages import Message, transcript
from memfs.agent.models.clients import as_model
from memfs.agent.triggers import IntervalTrigger, Trigger
from memfs.argument_checks import is_int
from memfs.errors import InvalidSetupError, MemfsError, short_repr
from memfs.namespace import Template, fold
from memfs.privacy.policy import Policy
from memfs.stores.agent.protocol import Found
from memfs.stores.agent.vault_store import VaultStore
from memfs.vault.vault import Vault

REFLECTION_EPISODES = 5  # earlier episodes that a reflection gets
MAX_CONTEXT_MESSAGES = 100
_Extractor = type[ModelExtractor]
_Store = type[VaultStore]
_EPISODE_PARTS = ("situation", "intent", "actions", "outcome")


@runtime_checkable
class Strategy(Protocol):
    """The interface of a strategy.

    Optional attributes: `type` of its memories ("fact"), `trigger` (every 5 turns), `context_messages` (10), and
    `reads`: "talk" for the texts of people and the agent, or "all" for tool calls and tool results too.
    """

    @property
    def name(self) -> str:
        """The name, which is unique among the strategies of a session."""
        ...

    @property
    def namespace(self) -> str:
        """The template of the namespace for its memories, such as `/facts/{actorId}`."""
        ...

    async def extract(self, messages: Sequence[Message], context: Any) -> Sequence[Fact]:
        """Return the memories in turns. A turn is a mapping: `{"role", "content": text, "session", "number"}`."""
        ...


@dataclass(frozen=True)
class ModelStrategy:
    """A strategy that calls a model: its own, or else the default model of the session or agent.

    `prompt` replaces the default prompt; `append_to_prompt` is added after the prompt.
    """

    name: str
    namespace: str
    trigger: Trigger | None = field(default=None, kw_only=True)
    model: Any = field(default=None, kw_only=True)
    prompt: str | None = field(default=None, kw_only=True)
    append_to_prompt: str | None = field(default=None, kw_only=True)
    context_messages: int = field(default=CONTEXT_MESSAGES, kw_only=True)

    type: ClassVar[str] = "fact"
    reads: ClassVar[Literal["talk", "all"]] = "talk"
    needs_model: ClassVar[bool] = True
    extractor: ClassVar[_Extractor] = ModelExtractor
    store: ClassVar[_Store] = VaultStore

    def __post_init__(self) -> None:
        check_strategy(type(self).__name__, self)
        for name in ("prompt", "append_to_prompt"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise InvalidSetupError(type(self).__name__, f"{name}: {short_repr(value)} is not a text")

    async def extract(self, messages: Sequence[Message], context: Any) -> Sequence[Fact]:
        """Return the memories that the model finds in the turns."""
        return await self._ask_model(messages, context)

    async def _ask_model(self, messages: Sequence[Message], context: Any, hint: str = "") -> list[Fact]:
        parts = [self.prompt or self.extractor.default_prompt, self.append_to_prompt, hint]
        is_custom = bool(self.prompt or self.append_to_prompt or hint)
        extractor = self.extractor(self.model, "\n\n".join(filter(None, parts)) if is_custom else None)
        extractor.context_messages = self.context_messages
        return await extractor.extract(messages, context)


@dataclass(frozen=True)
class FactStrategy(ModelStrategy):
    """Lasting facts about people and their work, one per memory."""

    name: str = "facts"
    namespace: str = "/facts/{actorId}"


@dataclass(frozen=True)
class PreferenceStrategy(ModelStrategy):
    """Preferences of people; the categories become tags, and the context the second paragraph."""

    name: str = "preferences"
    namespace: str = "/preferences/{actorId}"

    type: ClassVar[str] = "preference"
    extractor: ClassVar[_Extractor] = PreferenceExtractor

    async def extract(self, messages: Sequence[Message], context: Any) -> Sequence[Fact]:
        """Return the preferences that the model finds in the turns."""
        return [_preference(fact) for fact in await self._ask_model(messages, context)]


@dataclass(frozen=True)
class SummaryStrategy(ModelStrategy):
    """The summary of a session: one file with one `##` section per topic. Without a model, its main sentences."""

    name: str = "summary"
    namespace: str = "/summaries/{actorId}/{sessionId}"

    type: ClassVar[str] = "summary"
    reads: ClassVar[Literal["talk", "all"]] = "all"
    needs_model: ClassVar[bool] = False
    extractor: ClassVar[_Extractor] = SummaryExtractor
    store: ClassVar[_Store] = SummaryStore

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any(name in self.namespace for name in ("{sessionId}", "{session_id}")):
            reason = f"namespace: {self.namespace!r} has no {{sessionId}}, but a summary is one file per session"
            raise InvalidSetupError(type(self).__name__, reason)

    async def extract(self, messages: Sequence[Message], context: Any) -> Sequence[Fact]:
        """Return the topics that are new or have changed, as one text."""
        found: Sequence[Found] = context.similar
        current, marks = (found[0].content, section_marks(found[0].metadata or {})) if found else ("", {})
        if self.model is None and context.default_model is None:
            sections = parse_sections(current)[1]
            before = next((section.text for section in sections if fold(section.title) == fold(HIGHLIGHTS)), "")
            topics = [highlights(messages, before)]
        else:
            facts = await self._ask_model(messages, context, _edited_topics_hint(edited_titles(current, marks)))
            topics = [make_section(_text((fact.metadata or {}).get("topic")), fact.content) for fact in facts]
        topics = [topic for topic in topics if topic.text]
        source = find_source("", messages[-1:])
        content = "\n".join(topic.raw for topic in topics)
        return [Fact(content, {"source": source} if source else None)] if topics else []


class _SingleTypeStore(VaultStore):
    """A store that updates only memories of its own type, because its namespace has memories of other types."""

    def _similar(self, text: str, limit: int) -> Sequence[Found]:
        hits = self.vault.search(text.replace('"', " "), type=self.type, limit=limit)
        readable = [hit for hit in hits if not hit.memory.is_encrypted]
        return [self._as_found(hit.memory, hit, max_chars=len(hit.memory.body) + 1) for hit in readable]


@dataclass(frozen=True)
class ReflectionStrategy(ModelStrategy):
    """Lessons from several episodes, whose namespaces are below its own."""

    name: str = "reflections"
    namespace: str = "/episodes/{actorId}"

    type: ClassVar[str] = "reflection"
    reads: ClassVar[Literal["talk", "all"]] = "all"
    extractor: ClassVar[_Extractor] = ReflectionExtractor
    store: ClassVar[_Store] = _SingleTypeStore

    async def extract(self, messages: Sequence[Message], context: Any) -> Sequence[Fact]:
        """Return the lessons from the turns and from similar earlier episodes."""
        store = context.store if isinstance(context, StrategyContext) else None
        episodes = await asyncio.to_thread(_similar_episodes, store, transcript(messages)) if store else []
        return await self._ask_model([*episodes, *messages], context)


@dataclass(frozen=True)
class EpisodeStrategy(ModelStrategy):
    """Tasks of a session and their outcomes. Reflections on them, unless `reflects` is False, are one namespace up."""

    name: str = "episodes"
    namespace: str = "/episodes/{actorId}/{sessionId}"
    reflects: bool = field(default=True, kw_only=True)

    type: ClassVar[str] = "episode"
    reads: ClassVar[Literal["talk", "all"]] = "all"
    extractor: ClassVar[_Extractor] = EpisodeExtractor

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reflects and not self._parent_namespace:
            reason = f"namespace: {self.namespace!r} has no parent for reflections; add one, or set reflects=False"
            raise InvalidSetupError(type(self).__name__, reason)

    @property
    def _parent_namespace(self) -> str:
        return self.namespace.strip("/").rpartition("/")[0]

    @property
    def companions(self) -> Sequence[Strategy]:
        """The strategy for reflections on these episodes; none if `reflects` is False."""
        shared = {key: getattr(self, key) for key in ("trigger", "model", "context_messages")}
        return (
            [ReflectionStrategy(f"{self.name}-reflections", f"/{self._parent_namespace}", **shared)]
            if self.reflects
            else []
        )

    async def extract(self, messages: Sequence[Message], context: Any) -> Sequence[Fact]:
        """Return the episodes that ended in the turns."""
        return [_episode(fact) for fact in await self._ask_model(messages, context)]


# --- strategies in use --------------------------------------------------------------------------------


def check_strategy(subject: str, strategy: Any) -> None:
    """Raise InvalidSetupError for a strategy that would fail only when it is used."""
    if isinstance(strategy, type) or not callable(getattr(strategy, "extract", None)):
        raise InvalidSetupError(subject, f"{short_repr(strategy)} is not a strategy such as FactStrategy()")
    name, namespace = getattr(strategy, "name", None), getattr(strategy, "namespace", None)
    if not isinstance(name, str) or not name.strip() or name.startswith("/"):
        raise InvalidSetupError(subject, f"name: {short_repr(name)} is not a name; a namespace is given by namespace=")
    if not isinstance(namespace, str) or not namespace.strip("/ "):
        raise InvalidSetupError(
            subject, f"namespace: {short_repr(namespace)} is not a text such as '/facts/{{actorId}}'"
        )
    try:
        Template(namespace)
    except MemfsError as error:
        raise InvalidSetupError(subject, f"namespace: {error}") from error
    trigger = getattr(strategy, "trigger", None)
    if trigger is not None and (isinstance(trigger, type) or not callable(getattr(trigger, "attach", None))):
        raise InvalidSetupError(subject, f"trigger: {short_repr(trigger)} is not a trigger such as IntervalTrigger(5)")
    count = getattr(strategy, "context_messages", CONTEXT_MESSAGES)
    if not is_int(count, 0, MAX_CONTEXT_MESSAGES):
        reason = f"context_messages: {short_repr(count)} is not a whole number from 0 to {MAX_CONTEXT_MESSAGES}"
        raise InvalidSetupError(subject, reason)
    if getattr(strategy, "reads", "talk") not in ("talk", "all"):
        raise InvalidSetupError(subject, f"reads: {short_repr(strategy.reads)} is not 'talk' or 'all'")
    kind = getattr(strategy, "type", "fact")
    if not isinstance(kind, str) or not kind.strip():
        raise InvalidSetupError(subject, f"type: {short_repr(kind)} is not a text")


def with_companions(strategies: Sequence[Strategy]) -> list[Strategy]:
    """Return the strategies, each followed by its `companions`: strategies that go with it, if it has any."""
    groups = ((strategy, *getattr(strategy, "companions", ())) for strategy in strategies)
    return [strategy for group in groups for strategy in group]


def with_models(strategies: Sequence[Strategy], adapt: Callable[[Any], Any] = as_model) -> list[Strategy]:
    """Return the strategies with their own models converted by `adapt`; InvalidSetupError if one is not a model."""
    return [
        _with_model(strategy, adapt) if isinstance(strategy, ModelStrategy) and strategy.model is not None else strategy
        for strategy in strategies
    ]


def _with_model(strategy: ModelStrategy, adapt: Callable[[Any], Any]) -> ModelStrategy:
    try:
        return replace(strategy, model=adapt(strategy.model))
    except InvalidSetupError as error:
        raise InvalidSetupError(f"strategy {strategy.name}", f"model: {error}").with_hint(error.hint) from error


def lacks_model(strategy: Strategy, *, has_model: bool) -> bool:
    """Return whether a strategy needs a model, and has neither its own nor a default one."""
    return isinstance(strategy, ModelStrategy) and strategy.needs_model and strategy.model is None and not has_model


def make_store(
    strategy: Strategy, vault: Vault, *, actor: str, session: str, redaction: Policy | None = None
) -> VaultStore:
    """Return the store for the memories of a strategy, set up to extract them from the turns of a session."""
    store_class: Any = getattr(type(strategy), "store", VaultStore)
    namespace = Template(strategy.namespace).render(actor=actor, session=session, strategy=strategy.name)
    kind = getattr(strategy, "type", "fact")
    options = {"name": strategy.name, "session": session, "type": kind, "redaction": redaction}
    store: VaultStore = store_class(vault, str(namespace), **options)
    trigger = getattr(strategy, "trigger", None) or IntervalTrigger(DEFAULT_INTERVAL_TURNS)
    store.extraction = {
        "trigger": trigger,
        "extractor": Distiller(strategy, store),
        "filter": MessageFilter(exclude=[]),  # the distiller selects what the strategy reads
    }
    return store


# --- texts --------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _preference(fact: Fact) -> Fact:
    """Return a preference with its categories as tags, and its context as the second paragraph.

    An update keeps the tags that its target has.
    """
    metadata: dict[str, Any] = dict(fact.metadata or {})
    context, categories = _text(metadata.pop("context", None)), metadata.pop("categories", None)
    found = [categories] if isinstance(categories, str) else categories if isinstance(categories, list) else []
    tags = [" ".join(tag.split()).lower() for tag in found if isinstance(tag, str) and tag.strip()]
    before = (fact.target.metadata or {}).get("tags") if fact.target and fact.action == "update" else None
    kept = list(before) if isinstance(before, list | tuple) else []
    if tags := list(dict.fromkeys([*kept, *tags])):
        metadata["tags"] = tags
    content = f"{fact.content}\n\n{context}" if context and context not in fact.content else fact.content
    return replace(fact, content=content, metadata=metadata or None)


def _episode(fact: Fact) -> Fact:
    """Return an episode with one line for each part that the model gave."""
    metadata: dict[str, Any] = dict(fact.metadata or {})
    parts = {label: _text(metadata.pop(label, None)) for label in _EPISODE_PARTS}
    lines = [f"{label.capitalize()}: {text}" for label, text in parts.items() if text and text not in fact.content]
    return replace(fact, content="\n\n".join([fact.content, *lines]), metadata=metadata or None)


def _edited_topics_hint(titles: Sequence[str]) -> str:
    """Return the part of the prompt about topics that a person edited."""
    return f"A person edited the topics {', '.join(titles)}: for these, give only additions." if titles else ""


def _similar_episodes(store: VaultStore, text: str) -> list[Message]:
    """Return the episodes that are most similar to a text, as turns."""
    hits = store.vault.search(text.replace('"', " "), type="episode", limit=REFLECTION_EPISODES)
    return [{"role": "earlier episode", "content": hit.memory.legible.strip()} for hit in hits]
