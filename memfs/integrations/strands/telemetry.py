"""StrandsTelemetry: spans by Strands' own tracer, with texts only if content capture is on."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from memfs.agent.telemetry import Telemetry, captures_content
from memfs.privacy.log_redaction import redact_error, redact_for_log
from memfs.stores.agent.protocol import Found


class StrandsTelemetry(Telemetry):
    """Spans memory.search, memory.add, memory.inject and memory.extract; `tracer` returns the current tracer."""

    def __init__(self, tracer: Callable[[], Any]) -> None:
        self._tracer = tracer

    def start(self, kind: str, *, link: Any = None, content: str | None = None, **details: Any) -> Any:
        """Start a span of Strands' tracer and return it."""
        tracer = self._tracer()
        match kind:
            case "search":
                return tracer.start_memory_search_span(
                    span_text(content), list(details["stores"]), max_search_results=details["limit"]
                )
            case "add":
                return tracer.start_memory_add_span(
                    span_text(content), list(details["stores"]), force_root=details["is_root"]
                )
            case "inject":
                return tracer.start_memory_inject_span(max_entries=details["max_entries"])
        return tracer.start_memory_extract_span(details.pop("store"), agent_span_context=link, **details)

    def end(self, kind: str, span: Any, *, error: BaseException | None = None, **details: Any) -> None:
        """End a span of Strands' tracer with its outcome."""
        details.pop("result_count", None)  # Strands' tracer counts the entries
        if "entries" in details:
            details["entries"] = list(_span_entries(details["entries"]))
        if error is not None:
            details["error"] = redact_error(error)
        getattr(self._tracer(), f"end_memory_{kind}_span")(span, **details)


def span_text(text: str | None) -> str:
    """Return a text for a span; empty unless content capture is on."""
    return text or "" if captures_content() else ""


def _span_entries(entries: Sequence[Found]) -> Iterable[Found]:
    """Return entries for a span: without secrets, and without texts unless content capture is on.

    Metadata is left out, because it may contain texts too.
    """
    if captures_content():
        return (replace(entry, content=redact_for_log(entry.content), metadata=None) for entry in entries)
    return (replace(entry, content="", metadata=None) for entry in entries)
