"""The JSON of a model's reply: its schema, and a tolerant parser that turns a reply into facts. No I/O."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, get_args

from memfs.agent.extraction.config import Action, Fact
from memfs.stores.agent.protocol import Found

MAX_FACTS = 500  # per reply; a model that writes more has run away
MAX_MEMORY_CHARS = 4_000  # of a similar memory that the model is shown
MAX_BRACKETS = 1_000  # opening brackets in a text that are tried as the start of JSON
MAX_WRAPPINGS = 4  # objects, lists and strings around a list of facts

_SHAPES: Mapping[str, Mapping[str, Any]] = {  # JSON schema per key of an entry
    "content": {"type": "string", "description": "The fact, in words of its own."},
    "action": {"type": "string", "enum": list(get_args(Action))},
    "target": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "metadata": {"type": "object", "description": "What the instructions ask for besides the content."},
}
_ACTION = re.compile(rf"\s*({'|'.join(get_args(Action))})\b(.*)", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(r"[^\d-]*(\d{1,9})\D*")
_OPENING = re.compile(r"[\[{]")
_LIKE_JSON = re.compile(r'\[\s*[\[{]|\{\s*"')
_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.IGNORECASE | re.DOTALL)
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)  # line breaks in strings; NaN is null


@dataclass(frozen=True)
class ParsedReply:
    """The facts of a reply or, if it cannot be parsed, the `problem`. `warnings` quote nothing of the reply."""

    facts: list[Fact]
    problem: str = ""
    warnings: tuple[str, ...] = ()


def facts_schema(
    extra: Mapping[str, Any] = MappingProxyType({}), *, has_similar: bool, has_metadata: bool = False
) -> dict[str, Any]:
    """Return the JSON schema of a reply; `extra` has the schemas of further keys of each entry.

    With `has_similar` an entry also has an action and a target, and with `has_metadata` it may have metadata.
    """
    required = ["content", "action", "target"] if has_similar else ["content"]
    shapes = {key: _SHAPES[key] for key in ([*required, "metadata"] if has_metadata else required)}
    items = _object_schema({**shapes, **extra}, [*required, *extra])
    return _object_schema({"facts": {"type": "array", "items": items}}, ["facts"])


def parse_reply(reply: object, similar: Sequence[Found] = (), extra: Iterable[str] = ()) -> ParsedReply:
    """Parse a reply: an object, or a text with JSON anywhere in it. Every list of facts counts, each fact once.

    The values that an entry has under the `extra` keys become metadata of its fact.
    """
    entries, problem = _entries_in_text(reply) if isinstance(reply, str) else _entries_in_object(as_json(reply))
    if entries is None:
        return ParsedReply([], problem)
    warnings: Counter[str] = Counter()
    facts: list[Fact] = []
    seen = set()
    for entry in entries[:MAX_FACTS]:
        fact, warning = _parse_entry(entry, similar, extra)
        warnings[warning] += 1
        if fact is not None and (key := (fact.content, fact.action, id(fact.target))) not in seen:
            seen.add(key)
            facts.append(fact)
    warnings[f"past the {MAX_FACTS}th: dropped"] = len(entries[MAX_FACTS:])
    counted = (f"{count} of {len(entries)} facts {warning}" for warning, count in warnings.items() if warning and count)
    return ParsedReply(facts, "", tuple(filter(None, [problem, *counted])))


def as_json(reply: object) -> object:
    """Return a reply as JSON values: a pydantic object is dumped, anything else is returned unchanged."""
    dump = getattr(reply, "model_dump", None)
    return dump() if callable(dump) else reply


def _object_schema(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


# --- one entry


def _parse_entry(value: object, similar: Sequence[Found], extra: Iterable[str]) -> tuple[Fact | None, str]:
    """Return the fact of an entry, None if it has none, and a warning or an empty text."""
    if _is_skip(value):
        return None, ""
    entry: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    content = entry.get("content")
    text = content.encode("utf-8", "replace").decode().strip() if isinstance(content, str) else ""  # no lone surrogates
    if not text:
        return None, "without a content: dropped"
    action, target, warning = _resolve_action(entry.get("action", "add"), entry.get("target"), similar)
    metadata = dict(given) if isinstance(given := entry.get("metadata"), Mapping) else {}
    metadata |= {key: entry[key] for key in extra if key in entry}
    return Fact(text, metadata or None, action=action, target=target), warning


def _is_skip(entry: object) -> bool:
    action = entry.get("action") if isinstance(entry, Mapping) else None
    match = _ACTION.fullmatch(action) if isinstance(action, str) else None
    return match is not None and match[1].lower() == "skip"


def _resolve_action(value: object, target_number: object, similar: Sequence[Found]) -> tuple[Action, Found | None, str]:
    """Return the action for a fact, its target memory, and a warning if this is not the action of the reply."""
    match = _ACTION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return "add", None, "" if value is None else "with an unknown action: added"
    action: Any = match[1].lower()
    if action == "add":
        return action, None, ""
    number = _parse_number(match[2] if target_number is None else target_number)
    if number is None:
        return "add", None, f"to {action}, but no memory named: added"
    if not 1 <= number <= len(similar):
        return "add", None, f"to {action} a memory that was not shown: added"
    target = similar[number - 1]
    if action == "update" and len(target.content) > MAX_MEMORY_CHARS:
        return "add", None, "to update a memory that was shown in part: added"
    return action, target, ""


def _parse_number(value: object) -> int | None:
    """Return the number that is written as 2, 2.0, "2" or "(2)"; None for anything else."""
    if isinstance(value, str):
        found = _NUMBER.fullmatch(value)
        return int(found[1]) if found else None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value)


# --- the list of entries


def _entries_in_object(value: object) -> tuple[list[Any] | None, str]:
    """Return the entries of a reply that is an object; None and the reason if it has no list of them."""
    entries = _unwrap_list(value)
    problem = "the answer is empty" if value is None else "the answer holds no list of facts"
    return entries, problem if entries is None else ""


def _entries_in_text(text: str) -> tuple[list[Any] | None, str]:
    """Return the entries of all lists in a text, None if there is no list, and the problem with its JSON, if any."""
    entries: list[Any] = []
    has_list, problem = False, ""
    for value in _json_values(text):
        if isinstance(value, _BrokenJson):
            problem = problem or value.reason
            continue
        listed = _unwrap_list(value)
        if listed is not None and not (problem and _is_entry(value)):  # else a piece of the broken list
            entries += listed
            has_list = True
    if entries or (has_list and not problem):
        return entries, problem
    return None, problem or ("the answer holds no list of facts" if text.strip() else "the answer is empty")


def _unwrap_list(value: object, depth: int = 0) -> list[Any] | None:
    """Return the list of entries inside a JSON value and its wrappings; None if there is none."""
    if depth > MAX_WRAPPINGS:
        return None
    if isinstance(value, str) and depth:
        return _unwrap_list(_decode(value), depth + 1)
    if isinstance(value, Mapping):
        if _is_entry(value):
            return [value]
        inner = value["facts"] if "facts" in value else next(iter(value.values())) if len(value) == 1 else None
        return _unwrap_list(inner, depth + 1)
    if not isinstance(value, list):
        return None
    if len(value) == 1 and isinstance(value[0], list):
        return _unwrap_list(value[0], depth + 1)
    return value if not value or any(map(_is_entry, value)) else None


def _is_entry(value: object) -> bool:
    return isinstance(value, Mapping) and (isinstance(value.get("content"), str) or _is_skip(value))


# --- JSON in text


@dataclass(frozen=True)
class _BrokenJson:
    """A piece of text that starts like JSON but cannot be parsed."""

    reason: str


def _json_values(text: str) -> Iterator[object]:
    """Yield the JSON values in a text in order, and a _BrokenJson for each piece that only starts like JSON."""
    whole = _decode(text)
    if isinstance(whole, str):  # JSON in a JSON string
        whole = _decode(whole)
    if whole is not None:
        yield whole
        return
    text, position = _THINKING.sub("", text), 0
    for _ in range(MAX_BRACKETS):
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        start = opening.start()
        try:
            value, position = _DECODER.raw_decode(text, start)
            yield value
        except RecursionError:
            yield _BrokenJson("the JSON is nested too deeply")
            return
        except json.JSONDecodeError as error:
            position = max(error.pos, start + 1)
            if _LIKE_JSON.match(text, start):
                yield _BrokenJson(f"the JSON is broken at character {error.pos}: {error.msg.lower()}")
        except ValueError:  # a number of thousands of digits
            yield _BrokenJson("the JSON holds a number that is too long")
            return


def _decode(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
