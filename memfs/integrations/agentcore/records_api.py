"""Records: the memories of a vault, in the words of the service."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from operator import itemgetter
from typing import Any
from urllib.parse import unquote

from memfs.data_types import Hit, Memory
from memfs.errors import (
    InvalidMemoryError,
    InvalidNamespaceError,
    InvalidSearchError,
    MemfsError,
    MemoryNotFoundError,
    short_repr,
)
from memfs.integrations.agentcore.responses import PAGE, Response, code_of, page, parts_of, service_errors
from memfs.namespace import encode_segment, fold
from memfs.privacy.policy import Policy, report
from memfs.query.question import MAX_OFFSET
from memfs.stores.agent.header_metadata import header_changes, header_to_metadata, metadata_to_header
from memfs.vault.vault import Vault

TOP = 10
MOST = 1000  # memories that a search gives
OPERATORS: Mapping[str, str] = {
    "EQUALS_TO": "EQUALS",
    "GREATER_THAN": ">",
    "GREATER_THAN_OR_EQUALS": ">=",
    "LESS_THAN": "<",
    "LESS_THAN_OR_EQUALS": "<=",
    **{name: name for name in ("EXISTS", "NOT_EXISTS", "BEFORE", "AFTER", "CONTAINS")},
}
_TOKEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6} \S.*")  # of a list
_VALUES = ("stringValue", "numberValue", "dateTimeValue", "stringListValue")
_TOLD = frozenset({"type", "id", "created", "updated"})  # header keys that a record has words of its own for


class RecordsApi:
    """The memories of a vault; `types` are those of strategies, by their names."""

    def __init__(self, vault: Vault, types: Callable[[], Mapping[str, str]]) -> None:
        self._vault, self._types = vault, types
        self._redaction = Policy.of(vault)

    @service_errors
    def retrieve_memory_records(
        self,
        *,
        memoryId: str,  # noqa: N803
        searchCriteria: Mapping[str, Any],  # noqa: N803
        namespace: str | None = None,
        namespacePath: str | None = None,  # noqa: N803
        maxResults: int | None = None,  # noqa: N803
        nextToken: str | None = None,  # noqa: N803
    ) -> Response:
        """The memories that answer a question, best first: of a namespace alone, or of all below it."""
        question = str(searchCriteria.get("searchQuery", ""))
        hits = self._search(
            question,
            namespace,
            namespacePath,
            kind=searchCriteria.get("memoryStrategyId"),
            filters=searchCriteria.get("metadataFilters") or (),
            limit=searchCriteria.get("topK", TOP),
        )
        told = [(hit.memory.id, _summary(hit.memory, hit)) for hit in hits]
        if question.strip() and nextToken is None:  # another page is no other search
            self._vault.usage.searched([name for name, _ in told])
        return page("memoryRecordSummaries", told, maxResults, nextToken)

    @service_errors
    def list_memory_records(
        self,
        *,
        memoryId: str,  # noqa: N803
        namespace: str | None = None,
        namespacePath: str | None = None,  # noqa: N803
        memoryStrategyId: str | None = None,  # noqa: N803
        metadataFilters: Sequence[Mapping[str, Any]] = (),  # noqa: N803
        maxResults: int | None = PAGE,  # noqa: N803
        nextToken: str | None = None,  # noqa: N803
    ) -> Response:
        """The memories of a namespace, the newest first."""
        hits = self._search("", namespace, namespacePath, kind=memoryStrategyId, filters=metadataFilters)
        told: dict[str, Response | None] = {_age(hit.memory): _summary(hit.memory) for hit in hits}
        if isinstance(nextToken, str) and _TOKEN.fullmatch(nextToken):
            told.setdefault(nextToken, None)
        return page("memoryRecordSummaries", sorted(told.items(), key=itemgetter(0))[::-1], maxResults, nextToken)

    @service_errors
    def get_memory_record(self, *, memoryId: str, memoryRecordId: str, namespace: str | None = None) -> Response:  # noqa: N803
        """One memory."""
        return {"memoryRecord": _summary(self._scope(namespace, memoryRecordId).read(memoryRecordId))}

    @service_errors
    def delete_memory_record(self, *, memoryId: str, memoryRecordId: str, namespace: str | None = None) -> Response:  # noqa: N803
        """Delete a memory."""
        self._scope(namespace, memoryRecordId).remove(memoryRecordId)
        return {"memoryRecordId": memoryRecordId}

    @service_errors
    def batch_create_memory_records(self, *, memoryId: str, records: Sequence[Mapping[str, Any]], **_: Any) -> Response:  # noqa: N803
        """Add memories; each has its own result."""
        return _results(records, self._create)

    @service_errors
    def batch_update_memory_records(self, *, memoryId: str, records: Sequence[Mapping[str, Any]], **_: Any) -> Response:  # noqa: N803
        """Change memories; each has its own result."""
        return _results(records, self._update)

    @service_errors
    def batch_delete_memory_records(self, *, memoryId: str, records: Sequence[Mapping[str, Any]]) -> Response:  # noqa: N803
        """Delete memories; each has its own result."""

        def delete(record: Mapping[str, Any]) -> str:
            ref = record["memoryRecordId"]
            self._scope(record.get("namespace"), ref).remove(ref)
            return str(ref)

        return _results(records, delete)

    # ---

    def _scope(self, namespace: str | None, ref: str) -> Vault:
        """The part of the vault that a namespace is, in which a memory is looked for."""
        if not namespace or not namespace.strip("/"):
            return self._vault
        first, *others = [self._vault.scope(place) for place in self._places(namespace)]
        for scope in others:
            with suppress(MemoryNotFoundError):
                scope.read(ref)
                return scope
        return first

    def _places(self, text: str) -> list[str]:
        """The namespaces of the vault that one of the service may be: an actor's name there may hold a slash."""
        plain = namespace_of(text)
        names = text.strip("/").split("/") if text.strip("/") else []
        return [plain, *(place for place in _present(str(self._vault.root), names) if place != plain)]

    def _search(
        self,
        question: str,
        exact: str | None,
        below: str | None,
        *,
        kind: str | None,
        filters: Iterable[Mapping[str, Any]],
        limit: Any = None,
    ) -> list[Hit]:
        if (exact is None) == (below is None):
            raise InvalidSearchError("namespace", "give one of namespace and namespacePath")
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST):
            raise InvalidSearchError("topK", f"{short_repr(limit)} is not a whole number from 1 to {MOST}")
        asked: dict[str, Any] = {"type": self._types().get(kind, kind)} if kind else {}
        asked["where"] = [_condition(one) for one in filters]
        hits: list[Hit] = []
        for place in self._places(exact if exact is not None else below or "/"):
            hits += self._hits(question, place, limit, asked, is_exact=exact is not None)
        return sorted(hits, key=lambda hit: -hit.relevance)[:limit] if question else hits

    def _hits(
        self, question: str, place: str, limit: int | None, asked: Mapping[str, Any], *, is_exact: bool
    ) -> list[Hit]:
        """The hits of one namespace: as many as are wanted, or all that a search can give."""
        found: list[Hit] = []
        size = MOST if is_exact or limit is None else limit
        for offset in range(0, MAX_OFFSET + 1, MOST):
            hits = self._vault.search(question, place, limit=size, offset=offset, **asked)
            found += [hit for hit in hits if not is_exact or fold(str(hit.memory.namespace)) == fold(place)]
            if len(hits) < MOST or (limit is not None and len(found) >= limit):
                break
        return found

    def _create(self, record: Mapping[str, Any]) -> str:
        record = self._admitted(record)
        kind = record.get("memoryStrategyId")
        header = {
            "type": self._types().get(kind, kind) if kind else "fact",
            "created": record.get("timestamp"),
            **metadata_to_header(_metadata(record)),
        }
        (place,) = record["namespaces"]
        return self._vault.add(_content(record), namespace_of(place), header=header).id

    def _update(self, record: Mapping[str, Any]) -> str:
        memory = self._vault.read(record["memoryRecordId"])
        record = self._admitted(record, known=memory.body)
        body = _content(record) if "content" in record else None
        header = header_changes(memory.header.values, _metadata(record)) if "metadata" in record else {}
        if body is not None or header:
            self._vault.update(memory.id, body=body, seen=memory.stamp, header=header)
        for place in record.get("namespaces") or ():
            if namespace_of(place) != str(memory.namespace):
                self._vault.move(memory.id, namespace_of(place))
        return memory.id

    def _admitted(self, record: Mapping[str, Any], known: str = "") -> Mapping[str, Any]:
        """A record as it may be written; SecretRefusedError if it may not."""
        said = {key: record[key] for key in ("content", "metadata") if key in record}
        kept, counts = self._redaction.admit(said, "record", known=known)
        report("a record", counts)
        return {**record, **kept}


def namespace_of(text: str) -> str:
    """A namespace as the service has them, of any names, as one of the vault."""
    if not isinstance(text, str):
        raise InvalidNamespaceError(repr(text), "not a text")
    return "/" + "/".join(encode_segment(name) for name in text.strip("/").split("/") if name)


def _present(folder: str, names: Sequence[str]) -> Iterator[str]:
    """The directories that some names lead to, in which a slash between two may be part of one name."""
    if not names:
        yield "/"
    for count in range(1, len(names) + 1):
        name = encode_segment("/".join(names[:count]))
        if name and os.path.isdir(os.path.join(folder, name)):
            for rest in _present(os.path.join(folder, name), names[count:]):
                yield f"/{name}{rest}".rstrip("/")


def _age(memory: Memory) -> str:
    """What memories are listed by: a token that is good also when the memory is gone."""
    return f"{memory.updated.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f} {memory.id}"


def _results(records: Sequence[Mapping[str, Any]], do: Callable[[Mapping[str, Any]], str]) -> Response:
    answer: Response = {"successfulRecords": [], "failedRecords": []}
    for record in records:
        result: Response = {"memoryRecordId": str(record.get("memoryRecordId", "")), "status": "SUCCEEDED"}
        if "requestIdentifier" in record:
            result["requestIdentifier"] = record["requestIdentifier"]
        try:
            result["memoryRecordId"] = do(record)
            answer["successfulRecords"].append(result)
        except (MemfsError, KeyError, TypeError, ValueError) as error:
            known = (
                error if isinstance(error, MemfsError) else InvalidMemoryError("record", f"of the wrong shape: {error}")
            )
            result |= {"status": "FAILED", "errorCode": code_of(known)[1], "errorMessage": str(known)}
            answer["failedRecords"].append(result)
    return answer


def _summary(memory: Memory, hit: Hit | None = None) -> Response:
    told: Response = {
        "memoryRecordId": memory.id,
        "content": {"text": memory.legible.strip()},
        "memoryStrategyId": memory.header.type,
        "namespaces": ["/" + "/".join(map(unquote, memory.namespace.segments))],
        "createdAt": memory.created,
        "timestamp": memory.updated,
    }
    if hit is not None:
        told["score"] = hit.relevance
    values = {key: value for key, value in header_to_metadata(memory.header.values).items() if key not in _TOLD}
    if values:
        told["metadata"] = {key: _wrapped(value) for key, value in values.items()}
    return told


def _wrapped(value: Any) -> dict[str, Any]:
    """A header value in the wrapping of the service."""
    if isinstance(value, list | tuple):
        return {"stringListValue": [str(item) for item in value]}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"numberValue": float(value)}
    if isinstance(value, datetime | date):
        return {"dateTimeValue": value}
    return {"stringValue": str(value)}


def _unwrapped(value: Any) -> Any:
    return next((value[key] for key in _VALUES if key in value), None) if isinstance(value, Mapping) else value


def _metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _unwrapped(value) for key, value in (record.get("metadata") or {}).items()}


def _content(record: Mapping[str, Any]) -> str:
    text = record["content"]["text"]
    if not isinstance(text, str) or not text.strip():
        raise InvalidMemoryError("content", "is empty")
    return text.strip()


def _condition(given: Mapping[str, Any]) -> tuple[Any, ...]:
    """A filter of the service as a condition of a search."""
    key, sign, right = parts_of("metadataFilters", given, OPERATORS)
    return (key, OPERATORS[sign]) if right is None else (key, OPERATORS[sign], _unwrapped(right))
