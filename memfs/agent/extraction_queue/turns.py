"""Numbered messages in the queue, and edits of messages that are still in it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from memfs.agent.extraction.config import MessageFilter
from memfs.agent.messages import Message, estimate_tokens, text_of, without_kinds

BATCH_TOKENS = 20_000  # estimated size of the turns that are saved at once; more may not fit a model's window


@dataclass
class Turn:
    """A message and its number in the queue."""

    number: int
    message: Message


@dataclass(frozen=True)
class MessageEdit:
    """The replacement of one message of a session, found by its agent and number; without `message` it is removed."""

    session: str
    agent: str
    number: int
    message: Message | None = None

    def apply(self, message: Message) -> Message | None:
        """Return the replacement if this is the edited message, None if it is removed; any other message unchanged."""
        position = (message.get("session"), message.get("agent", self.agent), message.get("number"))
        return self.message if position == (self.session, self.agent, self.number) else message

    def affects(self, messages: Iterable[Message]) -> bool:
        """Return whether one of the messages is the edited one."""
        return any(self.apply(message) is not message for message in messages)

    def apply_to_all(self, messages: Iterable[Message]) -> list[Message]:
        """Return the messages after the edit."""
        return [kept for message in messages if (kept := self.apply(message)) is not None]


def first_batch(turns: list[Turn]) -> list[Turn]:
    """Return as many of the first turns as a model can read at once, and at least one."""
    remaining = BATCH_TOKENS
    for count, turn in enumerate(turns):
        remaining -= estimate_tokens(text_of(turn.message))
        if remaining < 0:
            return turns[: max(count, 1)]
    return turns


def filter_turns(turns: Iterable[Turn], message_filter: MessageFilter) -> list[Turn]:
    """Return the turns without the excluded blocks; a turn with no other blocks is left out."""
    filtered = ((turn.number, without_kinds(turn.message, message_filter.exclude)) for turn in turns)
    return [Turn(number, message) for number, message in filtered if message is not None]
