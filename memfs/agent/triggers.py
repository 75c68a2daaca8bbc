"""Triggers: when the turns of a conversation are extracted. A trigger of one's own has a `name` and `attach`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from memfs.agent.messages import Message, text_of, tokens
from memfs.errors import InvalidSetupError


@dataclass
class TriggerContext:
    """What a trigger is attached to: what it can listen to, and how it calls for an extraction."""

    agent: Any  # the framework's, or None
    fire: Callable[[], None]
    on_turn_end: Callable[[Callable[[], None]], None] = lambda _: None
    on_message: Callable[[Callable[[Message], None]], None] = lambda _: None


class Trigger(Protocol):
    """Says when."""

    name: str

    def attach(self, context: Any) -> None:
        """Listen, from now on, on behalf of one store of one agent."""
        ...


class InvocationTrigger:
    """After every turn."""

    name = "invocation"

    def attach(self, context: Any) -> None:
        context.on_turn_end(context.fire)


class IntervalTrigger:
    """After every so many turns."""

    name = "interval"

    def __init__(self, turns: int) -> None:
        self._turns = _positive(type(self).__name__, "turns", turns)

    def attach(self, context: Any) -> None:
        count = 0

        def turn_ended() -> None:
            nonlocal count
            count += 1
            if count % self._turns == 0:
                context.fire()

        context.on_turn_end(turn_ended)


class EvictionTrigger:
    """When the turns since the last time are about so many tokens: before they leave the model's window."""

    name = "eviction"

    def __init__(self, tokens: int) -> None:
        self._tokens = _positive(type(self).__name__, "tokens", tokens)

    def attach(self, context: Any) -> None:
        count = 0

        def came(message: Message) -> None:
            nonlocal count
            count += tokens(text_of(message))
            if count >= self._tokens:
                count = 0
                context.fire()

        context.on_message(came)


def _positive(kind: str, name: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidSetupError(kind, f"{name} must be a positive integer, got {value}")
    return value
