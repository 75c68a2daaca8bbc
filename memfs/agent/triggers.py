"""Triggers: they decide when the turns of a conversation are extracted. A custom trigger needs `name` and `attach`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from memfs.agent.messages import Message, estimate_tokens, text_of
from memfs.argument_checks import is_positive_int
from memfs.errors import InvalidSetupError


@dataclass
class TriggerContext:
    """The events that a trigger can subscribe to, and `fire`, which starts an extraction.

    `on_turn_end` and `on_message` take the function to call at each such event.
    """

    agent: Any  # the framework's agent, or None
    fire: Callable[[], None]
    on_turn_end: Callable[[Callable[[], None]], None] = lambda _: None
    on_message: Callable[[Callable[[Message], None]], None] = lambda _: None


class Trigger(Protocol):
    """Decides when turns are extracted."""

    name: str

    def attach(self, context: Any) -> None:
        """Subscribe to the events of one agent on behalf of one store."""
        ...


class InvocationTrigger:
    """Fires after every turn."""

    name = "invocation"

    def attach(self, context: Any) -> None:
        context.on_turn_end(context.fire)


class IntervalTrigger:
    """Fires after every `turns` turns."""

    name = "interval"

    def __init__(self, turns: int) -> None:
        self._turns = _check_positive(type(self).__name__, "turns", turns)

    def attach(self, context: Any) -> None:
        count = 0

        def turn_ended() -> None:
            nonlocal count
            count += 1
            if count % self._turns == 0:
                context.fire()

        context.on_turn_end(turn_ended)


class EvictionTrigger:
    """Fires when the turns since it last fired have about `tokens` tokens.

    With fewer tokens than the model's window has, turns are extracted before they leave the window.
    """

    name = "eviction"

    def __init__(self, tokens: int) -> None:
        self._tokens = _check_positive(type(self).__name__, "tokens", tokens)

    def attach(self, context: Any) -> None:
        count = 0

        def add_message(message: Message) -> None:
            nonlocal count
            count += estimate_tokens(text_of(message))
            if count >= self._tokens:
                count = 0
                context.fire()

        context.on_message(add_message)


def _check_positive(kind: str, name: str, value: int) -> int:
    if not is_positive_int(value):
        raise InvalidSetupError(kind, f"{name} must be a positive integer, got {value}")
    return value
