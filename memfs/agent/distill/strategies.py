"""Strategies: what is distilled from a session, and to which template. Those built in, and the seam for one's own."""

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
    parse,
    section,
    section_marks,
)
from memfs.agent.extraction.config import CONTEXT, TURNS, Fact, MessageFilter
from memfs.agent.extraction.extractor import ModelExtractor
from memfs.agent.messages import Message, transcript
from memfs.agent.models.clients import as_model
from memfs.agent.triggers import IntervalTrigger, Trigger
from memfs.errors import InvalidSetupError, MemfsError, short_repr
from memfs.namespace import Template, fold
from memfs.privacy.policy import Policy
from memfs.stores.agent.protocol import Found
from memfs.stores.agent.vault_store import VaultStore
from memfs.vault.vault import Vault

REFLECTION_EPISODES = 5  # that a reflection is short_repr
MAX_CONTEXT_MESSAGES = 100
_Extractor = type[ModelExtractor]
_Store = type[VaultStore]
_LABELS = ("situation", "intent", "actions", "outcome")


@runtime_checkable
class Strategy(Protocol):
    """What every strategy has.

    Besides, one may have: `type` of its memories ("fact"), `trigger` (every 5 turns), `context_messages` (10), and
    `reads`: "talk", what people and the agent said, or "all", what tools were told and answered too.
    """

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    async def extract(self, messages: Sequence[Message], context: Any) -> Sequence[Fact]:
        """The memories in some turns: `{"role", "content": text, "session", "number"}` each."""
        ...


@dataclass(frozen=True)
class ModelStrategy:
    """A strategy that asks a model: its own, or else the agent's.

    `prompt` takes the place of its own words, `append_to_prompt` goes behind them.
    """

    name: str
    namespace: str
    trigger: Trigger | None = field(default=None, kw_only=True)
    model: Any = field(default=None, kw_only=True)
    prompt: str | None = field(default=None, kw_only=True)
    append_to_prompt: str | None = field(default=None, kw_only=True)
    context_messages: int = field(default=CONTEXT, kw_only=True)

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
        """The memories that the model finds in the turns."""
        return await self._asked(messages, context)

    async def _asked(self, messages: Sequence[Message], context: Any, hint: str = "") -> list[Fact]:
        words = [self.prompt or self.extractor.default_prompt, self.append_to_prompt, hint]
        is_own = bool(self.prompt or self.append_to_prompt or hint)
        extractor = self.extractor(self.model, "\n\n".join(filter(None, words)) if is_own else None)
        extractor.context_messages = self.context_messages
        return await extractor.extract(messages, context)


@dataclass(frozen=True)
class FactStrategy(ModelStrategy):
    """What stays true about people and their work, a fact a memory."""

    name: str = "facts"
    namespace: str = "/facts/{actorId}"


@dataclass(frozen=True)
class PreferenceStrategy(ModelStrategy):
    """What people like and how they want things; categories are tags, and the context is the second paragraph."""

    name: str = "preferences"
    namespace: str = "/preferences/{actorId}"

    type: ClassVar[str] = "preference"
    extractor: ClassVar[_Extractor] = PreferenceExtractor

    async def extract(self, messages: Sequence[Message], context: Any) -> Sequence[Fact]:
        """The preferences that the model finds in the turns."""
        return [_preference(fact) for fact in await self._asked(messages, context)]


@dataclass(frozen=True)
class SummaryStrategy(ModelStrategy):
    """What a session was about: one file, a `##` a topic. Without a model, the sentences that say most."""

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
            reason = f"namespace: {self.namespace!r} holds no {{sessionId}}, and a summary is one file a session"
            raise InvalidSetupError(type(self).__name__, reason)

    async def extract(self, messages: Sequence[Message], context: Any) -> Sequence[Fact]:
        """The topics that are new or have changed, as one text."""
        found: Sequence[Found] = context.similar
        present, marks = (found[0].content, section_marks(found[0].metadata or {})) if found else ("", {})
        if self.model is None and context.default_model is None:
            before = next((one.text for one in parse(present)[1] if fold(one.title) == fold(HIGHLIGHTS)), "")
            topics = [highlights(messages, before)]
        else:
            facts = await self._asked(messages, context, _hands_off(edited_titles(present, marks)))
            topics = [section(_text((fact.metadata or {}).get("topic")), fact.content) for fact in facts]
        topics = [topic for topic in topics if topic.text]
        source = find_source("", messages[-1:])
        content = "\n".join(topic.raw for topic in topics)
        return [Fact(content, {"source": source} if source else None)] if topics else []


class _SingleTypeStore(VaultStore):
    """A store in which only memories of its own type may be rewritten: below it lie others."""

    def _similar(self, text: str, limit: int) -> Sequence[Found]:
        hits = self.vault.search(text.replace('"', " "), type=self.type, limit=limit)
        clear = [hit for hit in hits if not hit.memory.is_encrypted]
        return [self._as_found(hit.memory, hit, max_chars=len(hit.memory.body) + 1) for hit in clear]


@dataclass(frozen=True)
class ReflectionStrategy(ModelStrategy):
    """What is to be learned from several episodes; their namespaces lie below."""

    name: str = "reflections"
    namespace: str = "/episodes/{actorId}"

    type: ClassVar[str] = "reflection"
    reads: ClassVar[Literal["talk", "all"]] = "all"
    extractor: ClassVar[_Extractor] = ReflectionExtractor
    store: ClassVar[_Store] = _SingleTypeStore

    async def extract(self, messages: Sequence[Message], context: Any) -> Sequence[Fact]:
        """The lessons of the turns, and of the episodes that are near."""
        store = context.store if isinstance(context, StrategyContext) else None
        episodes = await asyncio.to_thread(_episodes, store, transcript(messages)) if store else []
        return await self._asked([*episodes, *messages], context)


@dataclass(frozen=True)
class EpisodeStrategy(ModelStrategy):
    """What was tried in a session and what came of it; reflections on episodes go one namespace up."""

    name: str = "episodes"
    namespace: str = "/episodes/{actorId}/{sessionId}"
    reflects: bool = field(default=True, kw_only=True)

    type: ClassVar[str] = "episode"
    reads: ClassVar[Literal["talk", "all"]] = "all"
    extractor: ClassVar[_Extractor] = EpisodeExtractor

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reflects and not self._above:
            reason = f"namespace: {self.namespace!r} has none above it for reflections; give one, or reflects=False"
            raise InvalidSetupError(type(self).__name__, reason)

    @property
    def _above(self) -> str:
        return self.namespace.strip("/").rpartition("/")[0]

    @property
    def companions(self) -> Sequence[Strategy]:
        """The strategy of reflections."""
        shared = {key: getattr(self, key) for key in ("trigger", "model", "context_messages")}
        return [ReflectionStrategy(f"{self.name}-reflections", f"/{self._above}", **shared)] if self.reflects else []

    async def extract(self, messages: Sequence[Message], context: Any) -> Sequence[Fact]:
        """The episodes that came to an end in the turns."""
        return [_episode(fact) for fact in await self._asked(messages, context)]


# --- strategies in use --------------------------------------------------------------------------------


def check_strategy(subject: str, strategy: Any) -> None:
    """Refuse what would raise only when it is used."""
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
    count = getattr(strategy, "context_messages", CONTEXT)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_CONTEXT_MESSAGES:
        reason = f"context_messages: {short_repr(count)} is not a whole number from 0 to {MAX_CONTEXT_MESSAGES}"
        raise InvalidSetupError(subject, reason)
    if getattr(strategy, "reads", "talk") not in ("talk", "all"):
        raise InvalidSetupError(subject, f"reads: {short_repr(strategy.reads)} is not 'talk' or 'all'")
    kind = getattr(strategy, "type", "fact")
    if not isinstance(kind, str) or not kind.strip():
        raise InvalidSetupError(subject, f"type: {short_repr(kind)} is not a text")


def with_companions(strategies: Sequence[Strategy]) -> list[Strategy]:
    """Strategies, and those that come with them."""
    return [one for strategy in strategies for one in (strategy, *getattr(strategy, "companions", ()))]


def with_models(strategies: Sequence[Strategy], adapt: Callable[[Any], Any] = as_model) -> list[Strategy]:
    """Strategies whose own models can be asked; `adapt` makes a model of what was given as one."""
    return [
        _with_model(one, adapt) if isinstance(one, ModelStrategy) and one.model is not None else one
        for one in strategies
    ]


def _with_model(strategy: ModelStrategy, adapt: Callable[[Any], Any]) -> ModelStrategy:
    try:
        return replace(strategy, model=adapt(strategy.model))
    except InvalidSetupError as error:
        raise InvalidSetupError(f"strategy {strategy.name}", f"model: {error}").with_hint(error.hint) from error


def lacks_model(strategy: Strategy, *, has_model: bool) -> bool:
    """Tell whether a strategy can do nothing: it needs a model, and there is neither its own nor another."""
    return isinstance(strategy, ModelStrategy) and strategy.needs_model and strategy.model is None and not has_model


def make_store(
    strategy: Strategy, vault: Vault, *, actor: str, session: str, redaction: Policy | None = None
) -> VaultStore:
    """The store where the memories of a strategy go, which gets the turns of a session."""
    make: Any = getattr(type(strategy), "store", VaultStore)
    namespace = Template(strategy.namespace).render(actor=actor, session=session, strategy=strategy.name)
    kind = getattr(strategy, "type", "fact")
    about = {"name": strategy.name, "session": session, "type": kind, "redaction": redaction}
    store: VaultStore = make(vault, str(namespace), **about)
    trigger = getattr(strategy, "trigger", None) or IntervalTrigger(TURNS)
    store.extraction = {
        "trigger": trigger,
        "extractor": Distiller(strategy, store),
        "filter": MessageFilter(exclude=[]),
    }
    return store


# --- texts --------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _preference(fact: Fact) -> Fact:
    """A preference with its categories as tags, and its context as second paragraph."""
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
    """An episode with a line for each part of it that was told."""
    metadata: dict[str, Any] = dict(fact.metadata or {})
    parts = {label: _text(metadata.pop(label, None)) for label in _LABELS}
    lines = [f"{label.capitalize()}: {text}" for label, text in parts.items() if text and text not in fact.content]
    return replace(fact, content="\n\n".join([fact.content, *lines]), metadata=metadata or None)


def _hands_off(titles: Sequence[str]) -> str:
    """What a model is told of topics that a person has in hand."""
    return f"A person edited the topics {', '.join(titles)}: of these, give only what is to be added." if titles else ""


def _episodes(store: VaultStore, text: str) -> list[Message]:
    """Episodes near a text, as turns."""
    hits = store.vault.search(text.replace('"', " "), type="episode", limit=REFLECTION_EPISODES)
    return [{"role": "earlier episode", "content": hit.memory.legible.strip()} for hit in hits]
