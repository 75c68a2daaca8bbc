"""BaseStore: the base class of VaultStore, InMemoryStore and KeyedAgentStore: checked settings, redaction, episodes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

from memfs.argument_checks import is_positive_int
from memfs.data_types import Written
from memfs.errors import InvalidSearchError, InvalidSetupError, ReadOnlyError, short_repr
from memfs.privacy.policy import DEFAULT_POLICY, Policy, Redacted, log_redactions
from memfs.stores.agent.protocol import (
    MAX_SEARCH_RESULTS,
    AddMessagesContext,
    MemoryStore,
    Metadata,
    not_implemented,
)
from memfs.stores.agent.store_tools import TOOL_NAMES, Tool, curation_tools

DEFAULT_SEARCH_RESULTS = 3


class BaseStore:
    """Base class of the stores whose memories can be read and changed one by one.

    The constructor raises InvalidSetupError for a setting that is not valid, or a tool that the store does not support.
    """

    wants_facts: ClassVar[bool] = True  # by default conversations are distilled into facts, not stored as they are
    session: str | None = None  # the session that episodes name as their source

    def __init__(
        self,
        name: str,
        *,
        description: str | None,
        max_search_results: int | None,
        writable: bool,
        extraction: Any,
        min_relevance: float,
        tools: Sequence[str],
        max_chars: int,
        redaction: Policy | None,
    ) -> None:
        self.name, self.description, self.max_search_results = name, description, max_search_results
        self.writable, self.extraction, self.min_relevance = writable, extraction, min_relevance
        self.max_chars = max_chars
        self._check(isinstance(name, str) and bool(name), "name", name, "a text")
        self._check(description is None or isinstance(description, str), "description", description, "a text")
        self._check(isinstance(writable, bool), "writable", writable, "True or False")
        is_fraction = isinstance(min_relevance, int | float) and 0 <= min_relevance <= 1
        self._check(is_fraction, "min_relevance", min_relevance, "a number from 0 to 1")
        self._check(is_positive_int(max_chars), "max_chars", max_chars, "a whole number from 1")
        is_limit = max_search_results is None or is_positive_int(max_search_results, MAX_SEARCH_RESULTS)
        allowed = f"a whole number from 1 to {MAX_SEARCH_RESULTS}"
        self._check(is_limit, "max_search_results", max_search_results, allowed)
        is_list = isinstance(tools, Iterable) and not isinstance(tools, str)
        self._check(is_list, "tools", tools, f"some of {', '.join(TOOL_NAMES)}")
        self.tools = tuple(tools)
        is_policy = redaction is None or isinstance(redaction, Policy)
        self._check(is_policy, "redaction", redaction, "a policy such as Policy({'email': 'redact'})")
        self.redaction = redaction or DEFAULT_POLICY
        self.get_tools()  # raises if the store does not support one of them

    def _check(self, is_valid: bool, argument: str, value: object, allowed: str) -> None:
        if not is_valid:
            raise InvalidSetupError(
                f"store {short_repr(self.name)}", f"{argument}: {short_repr(value)} is not {allowed}"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def get_tools(self) -> list[Tool]:
        """Return the tools that the store was set up with."""
        return curation_tools([cast("MemoryStore", self)], self.tools)

    async def initialize(self) -> None:
        """Prepare the store; here there is nothing to prepare."""

    async def add(self, content: str, metadata: Metadata | None = None) -> Written:
        """Add a memory. Adding the same text twice stores it once. Raise SecretRefusedError for a rejected secret."""
        raise not_implemented(self, "add")

    async def add_messages(self, messages: Sequence[Any], context: AddMessagesContext | None = None) -> Written | None:
        """Store turns as they are, as one memory of type "episode". Return None if no message has text."""
        lines = [f"{message['role']}: {text}" for message in messages if (text := _message_text(message))]
        if not lines:
            self.check_writable()
            return None
        numbers = getattr(context, "sequence_numbers", None)
        text, counts = self.redaction.redact("\n".join(lines))  # redacted, never refused: the turns have happened
        written = await self.add(text, {"type": "episode", **self._source(numbers)})
        return self._with_redactions(written, counts)

    def _apply_policy(self, content: str, metadata: Metadata | None, *, known: str = "") -> Redacted[tuple[str, Any]]:
        """Return a text and its metadata, redacted by the store's policy. Raise SecretRefusedError for a secret.

        `known` is the text that the new one replaces; findings that are in both are left.
        """
        text = self.redaction.admit(content, known=known)
        clean = self.redaction.admit(metadata, "metadata") if metadata else Redacted(metadata)
        return Redacted((text.value, clean.value), Counter(text.counts) + Counter(clean.counts))

    def _with_redactions(self, written: Written, counts: Mapping[str, int]) -> Written:
        """Return the result of a write with the counts of redacted findings added, and log the counts."""
        if not counts:
            return written
        log_redactions(f"store {self.name}", counts)
        return replace(written, redacted=Counter(written.redacted) + Counter(counts))

    def _source(self, numbers: Sequence[int] | None) -> dict[str, str]:
        """Return the header key `source` of an episode: its session and message numbers; {} if neither is known."""
        parts = [f"session {self.session}"] if self.session else []
        parts += [f"messages {_format_ranges(numbers)}"] if numbers else []
        return {"source": ", ".join(parts)} if parts else {}

    def search_limit(self, options: Mapping[str, Any] | None) -> int:
        """Return how many memories a search may return: the caller's option, else the store's setting, else 3.

        Raise InvalidSearchError if it is not a whole number from 1 to MAX_SEARCH_RESULTS.
        """
        option = (options or {}).get("max_search_results")
        limit = option if option is not None else self.max_search_results or DEFAULT_SEARCH_RESULTS
        if not is_positive_int(limit, MAX_SEARCH_RESULTS):
            reason = f"{short_repr(limit)} is not a whole number from 1 to {MAX_SEARCH_RESULTS}"
            raise InvalidSearchError("max_search_results", reason)
        return int(limit)

    def check_writable(self) -> None:
        """Raise ReadOnlyError if the store was set up with writable=False."""
        if not self.writable:
            error = ReadOnlyError(f"store {self.name!r}", "it was set up with writable=False")
            error.hint = "Write to another store, or set this one up with writable=True."
            raise error

    limit_of, must_be_writable = search_limit, check_writable  # aliases: the names of version 0.9


def _message_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message without blank lines, the lines after the first indented; "" if it has no text."""
    content = message.get("content")
    blocks = [content] if isinstance(content, str) else [part.get("text") for part in content or () if part]
    text = "\n".join(block for block in blocks if isinstance(block, str))
    return "\n  ".join(line for line in text.strip().splitlines() if line.strip())


def _format_ranges(numbers: Sequence[int]) -> str:
    """Return numbers as ranges: `1-3, 7`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number <= ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)
