"""Record operations of AgentCore: records are the memories of the vault."""

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
from memfs.integrations.agentcore.responses import PAGE_SIZE, Response, error_code, page, parse_filter, service_errors
from memfs.namespace import encode_segment, fold
from memfs.privacy.policy import Policy, log_redactions
from memfs.query.question import MAX_OFFSET
from memfs.stores.agent.header_metadata import header_changes, header_to_metadata, metadata_to_header
from memfs.vault.vault import Vault

DEFAULT_TOP_K = 10
MAX_RESULTS = 1000  # of one search
OPERATORS: Mapping[str, str] = {
    "EQUALS_TO": "EQUALS",
    "GREATER_THAN": ">",
    "GREATER_THAN_OR_EQUALS": ">=",
    "LESS_THAN": "<",
    "LESS_THAN_OR_EQUALS": "<=",
    **{name: name for name in ("EXISTS", "NOT_EXISTS", "BEFORE", "AFTER", "CONTAINS")},
}
_LIST_TOKEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6} \S.*")  # see _list_token
_VALUE_KEYS = ("stringValue", "numberValue", "dateTimeValue", "stringListValue")
_RECORD_FIELDS = frozenset({"type", "id", "created", "updated"})  # header keys that are fields of a record


class RecordsApi:
    """The record operations of a client; `types` returns the memory type of each strategy, by its name."""

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
        """Return a page of the memories for a query, best first: of one namespace, or of all below `namespacePath`."""
        question = str(searchCriteria.get("searchQuery", ""))
        hits = self._search(
            question,
            namespace,
            namespacePath,
            kind=searchCriteria.get("memoryStrategyId"),
            filters=searchCriteria.get("metadataFilters") or (),
            limit=searchCriteria.get("topK", DEFAULT_TOP_K),
        )
        found = [(hit.memory.id, _summary(hit.memory, hit)) for hit in hits]
        if question.strip() and nextToken is None:  # a further page is not another search
            self._vault.usage.searched([name for name, _ in found])
        return page("memoryRecordSummaries", found, maxResults, nextToken)

    @service_errors
    def list_memory_records(
        self,
        *,
        memoryId: str,  # noqa: N803
        namespace: str | None = None,
        namespacePath: str | None = None,  # noqa: N803
        memoryStrategyId: str | None = None,  # noqa: N803
        metadataFilters: Sequence[Mapping[str, Any]] = (),  # noqa: N803
        maxResults: int | None = PAGE_SIZE,  # noqa: N803
        nextToken: str | None = None,  # noqa: N803
    ) -> Response:
        """Return a page of the memories of one namespace, or of all below `namespacePath`, the newest first."""
        hits = self._search("", namespace, namespacePath, kind=memoryStrategyId, filters=metadataFilters)
        found: dict[str, Response | None] = {_list_token(hit.memory): _summary(hit.memory) for hit in hits}
        if isinstance(nextToken, str) and _LIST_TOKEN.fullmatch(nextToken):  # its memory may be deleted by now
            found.setdefault(nextToken, None)
        return page("memoryRecordSummaries", sorted(found.items(), key=itemgetter(0))[::-1], maxResults, nextToken)

    @service_errors
    def get_memory_record(self, *, memoryId: str, memoryRecordId: str, namespace: str | None = None) -> Response:  # noqa: N803
        """Return one memory."""
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

    def _scope(self, namespace: str | None, ref: str) -> Vault:
        """Return the scope in which a memory is looked up: the whole vault without a namespace.

        If a namespace of the service can mean several of the vault, it is the one that contains the memory.
        """
        if not namespace or not namespace.strip("/"):
            return self._vault
        first, *others = [self._vault.scope(candidate) for candidate in self._vault_namespaces(namespace)]
        for scope in others:
            with suppress(MemoryNotFoundError):
                scope.read(ref)
                return scope
        return first

    def _vault_namespaces(self, text: str) -> list[str]:
        """Return the namespaces of the vault that a namespace of the service can mean.

        There may be several, because actor names of the service may contain slashes.
        """
        plain = namespace_of(text)
        names = text.strip("/").split("/") if text.strip("/") else []
        existing = _existing(str(self._vault.root), names)
        return [plain, *(namespace for namespace in existing if namespace != plain)]

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
        """Search the namespace `exact`, or all below `below`; `kind` is a strategy or a memory type.

        InvalidSearchError if not exactly one of the two is given, or the limit is not valid.
        """
        if (exact is None) == (below is None):
            raise InvalidSearchError("namespace", "give one of namespace and namespacePath")
        if limit is not None and (
            not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_RESULTS
        ):
            raise InvalidSearchError("topK", f"{short_repr(limit)} is not a whole number from 1 to {MAX_RESULTS}")
        options: dict[str, Any] = {"type": self._types().get(kind, kind)} if kind else {}
        options["where"] = [_condition(given) for given in filters]
        hits: list[Hit] = []
        for namespace in self._vault_namespaces(exact if exact is not None else below or "/"):
            hits += self._hits(question, namespace, limit, options, is_exact=exact is not None)
        return sorted(hits, key=lambda hit: -hit.relevance)[:limit] if question else hits

    def _hits(
        self, question: str, namespace: str, limit: int | None, options: Mapping[str, Any], *, is_exact: bool
    ) -> list[Hit]:
        """Return the hits of one namespace: about `limit`, or all that a search can return."""
        found: list[Hit] = []
        size = MAX_RESULTS if is_exact or limit is None else limit
        for offset in range(0, MAX_OFFSET + 1, MAX_RESULTS):
            hits = self._vault.search(question, namespace, limit=size, offset=offset, **options)
            found += [hit for hit in hits if not is_exact or fold(str(hit.memory.namespace)) == fold(namespace)]
            if len(hits) < MAX_RESULTS or (limit is not None and len(found) >= limit):
                break
        return found

    def _create(self, record: Mapping[str, Any]) -> str:
        record = self._apply_policy(record)
        kind = record.get("memoryStrategyId")
        header = {
            "type": self._types().get(kind, kind) if kind else "fact",
            "created": record.get("timestamp"),
            **metadata_to_header(_metadata(record)),
        }
        (namespace,) = record["namespaces"]
        return self._vault.add(_content(record), namespace_of(namespace), header=header).id

    def _update(self, record: Mapping[str, Any]) -> str:
        memory = self._vault.read(record["memoryRecordId"])
        record = self._apply_policy(record, known=memory.body)
        body = _content(record) if "content" in record else None
        header = header_changes(memory.header.values, _metadata(record)) if "metadata" in record else {}
        if body is not None or header:
            self._vault.update(memory.id, body=body, seen=memory.stamp, header=header)
        for namespace in record.get("namespaces") or ():
            if namespace_of(namespace) != str(memory.namespace):
                self._vault.move(memory.id, namespace_of(namespace))
        return memory.id

    def _apply_policy(self, record: Mapping[str, Any], known: str = "") -> Mapping[str, Any]:
        """Return a record after the redaction policy; SecretRefusedError if it must not be written."""
        fields = {key: record[key] for key in ("content", "metadata") if key in record}
        kept, counts = self._redaction.admit(fields, "record", known=known)
        log_redactions("a record", counts)
        return {**record, **kept}


def namespace_of(text: str) -> str:
    """Return a namespace of the service, which may contain any names, as a namespace of the vault."""
    if not isinstance(text, str):
        raise InvalidNamespaceError(repr(text), "not a text")
    return "/" + "/".join(encode_segment(name) for name in text.strip("/").split("/") if name)


def _existing(directory: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the existing namespaces that names can mean; a slash between two names may belong to a single name."""
    if not names:
        yield "/"
    for count in range(1, len(names) + 1):
        name = encode_segment("/".join(names[:count]))
        if name and os.path.isdir(os.path.join(directory, name)):
            for rest in _existing(os.path.join(directory, name), names[count:]):
                yield f"/{name}{rest}".rstrip("/")


def _list_token(memory: Memory) -> str:
    """Return the sort key and page token of a memory in a list; it stays valid after the memory is deleted."""
    return f"{memory.updated.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f} {memory.id}"


def _results(records: Sequence[Mapping[str, Any]], operation: Callable[[Mapping[str, Any]], str]) -> Response:
    """Call an operation, which returns a memory's id, with each record; return which records succeeded and failed."""
    response: Response = {"successfulRecords": [], "failedRecords": []}
    for record in records:
        result: Response = {"memoryRecordId": str(record.get("memoryRecordId", "")), "status": "SUCCEEDED"}
        if "requestIdentifier" in record:
            result["requestIdentifier"] = record["requestIdentifier"]
        try:
            result["memoryRecordId"] = operation(record)
            response["successfulRecords"].append(result)
        except (MemfsError, KeyError, TypeError, ValueError) as error:
            known = (
                error if isinstance(error, MemfsError) else InvalidMemoryError("record", f"of the wrong shape: {error}")
            )
            result |= {"status": "FAILED", "errorCode": error_code(known)[1], "errorMessage": str(known)}
            response["failedRecords"].append(result)
    return response


def _summary(memory: Memory, hit: Hit | None = None) -> Response:
    summary: Response = {
        "memoryRecordId": memory.id,
        "content": {"text": memory.legible.strip()},
        "memoryStrategyId": memory.header.type,
        "namespaces": ["/" + "/".join(map(unquote, memory.namespace.segments))],
        "createdAt": memory.created,
        "timestamp": memory.updated,
    }
    if hit is not None:
        summary["score"] = hit.relevance
    values = {
        key: value for key, value in header_to_metadata(memory.header.values).items() if key not in _RECORD_FIELDS
    }
    if values:
        summary["metadata"] = {key: _wrapped(value) for key, value in values.items()}
    return summary


def _wrapped(value: Any) -> dict[str, Any]:
    """Return a header value in the wrapper of the service."""
    if isinstance(value, list | tuple):
        return {"stringListValue": [str(item) for item in value]}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"numberValue": float(value)}
    if isinstance(value, datetime | date):
        return {"dateTimeValue": value}
    return {"stringValue": str(value)}


def _unwrapped(value: Any) -> Any:
    return next((value[key] for key in _VALUE_KEYS if key in value), None) if isinstance(value, Mapping) else value


def _metadata(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _unwrapped(value) for key, value in (record.get("metadata") or {}).items()}


def _content(record: Mapping[str, Any]) -> str:
    text = record["content"]["text"]
    if not isinstance(text, str) or not text.strip():
        raise InvalidMemoryError("content", "is empty")
    return text.strip()


def _condition(given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a filter of the service as a condition of a search."""
    key, operator, right = parse_filter("metadataFilters", given, OPERATORS)
    return (key, OPERATORS[operator]) if right is None else (key, OPERATORS[operator], _unwrapped(right))
