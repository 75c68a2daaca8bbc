"""Turns: messages on their way into stores, each with its number. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from memfs.agent.extraction.config import MessageFilter
from memfs.agent.messages import Message, text_of, tokens, without

BATCH = 20_000  # tokens of turns that are saved at once, about; more would not fit a model's window


@dataclass
class Turn:
    """A message and its number."""

    number: int
    message: Message


@dataclass(frozen=True)
class Amendment:
    """What a message of a session is from now on, by its agent and its number there: another one, or none at all."""

    session: str
    agent: str
    number: int
    message: Message | None = None

    def of(self, message: Message) -> Message | None:
        """What becomes of a message; any other one stays as it is."""
        where = (message.get("session"), message.get("agent", self.agent), message.get("number"))
        return self.message if where == (self.session, self.agent, self.number) else message

    def concerns(self, messages: Iterable[Message]) -> bool:
        """Tell whether one of them is meant."""
        return any(self.of(message) is not message for message in messages)

    def among(self, messages: Iterable[Message]) -> list[Message]:
        """Messages as they are then."""
        return [kept for message in messages if (kept := self.of(message)) is not None]


def batch(turns: list[Turn]) -> list[Turn]:
    """As many of the first turns as a model can take in at once, and at least one."""
    room = BATCH
    for count, turn in enumerate(turns):
        room -= tokens(text_of(turn.message))
        if room < 0:
            return turns[: max(count, 1)]
    return turns


def filtered(turns: Iterable[Turn], message_filter: MessageFilter) -> list[Turn]:
    """The turns without the blocks that are left out; those with nothing left are gone."""
    cut = ((turn.number, without(turn.message, message_filter.exclude)) for turn in turns)
    return [Turn(number, message) for number, message in cut if message is not None]
