"""OpenTelemetry spans of the manager: counts and store names; texts only if message content is captured."""

import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger("memfs.agent")
CAPTURE_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"  # OpenTelemetry's setting for GenAI content


def captures_content() -> bool:
    """Return whether spans may hold texts."""
    return os.environ.get(CAPTURE_VARIABLE, "").strip().lower() in {"true", "1", "span_only", "span_and_event"}


class Telemetry:
    """Spans memory.search, memory.add, memory.inject and memory.extract; none if opentelemetry is not installed."""

    def start(self, kind: str, *, link: Any = None, content: str | None = None, **details: Any) -> Any:
        """Start a span and return it, or None without opentelemetry; `link` is the context of a span to link it to.

        `content` is added only if message content is captured.
        """
        if not importlib.util.find_spec("opentelemetry"):
            return None
        from opentelemetry import trace

        links = [trace.Link(link)] if link is not None else None
        attributes = {"gen_ai.operation.name": f"memory.{kind}", **_attributes(details)}
        span = trace.get_tracer("memfs").start_span(f"memory.{kind}", links=links, attributes=attributes)
        if content is not None and captures_content():
            span.set_attribute("memory.content", content)
        return span

    def end(self, kind: str, span: Any, *, error: BaseException | None = None, **details: Any) -> None:
        """End a span with its outcome; do nothing if it is None."""
        if span is None:
            return
        from opentelemetry.trace import StatusCode

        details.pop("entries", None)
        span.set_attributes(_attributes(details))
        if error is not None:
            span.set_status(StatusCode.ERROR, type(error).__name__)
        span.end()

    @contextmanager
    def current(self, span: Any) -> Iterator[None]:
        """Make a span, unless it is None, the current one inside the block."""
        if span is None:
            yield
            return
        from opentelemetry import trace

        with trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
            yield

    def link(self) -> Any:
        """Return the context of the current span, to link a later span to it; None if no span is recording."""
        if not importlib.util.find_spec("opentelemetry"):
            return None
        from opentelemetry import trace

        span = trace.get_current_span()
        context = span.get_span_context()
        return context if span.is_recording() and context.is_valid else None


def call_safely(function: Any, *arguments: Any, **details: Any) -> Any:
    """Call a telemetry function; if it raises, log that and return None: telemetry must not stop an agent."""
    try:
        return function(*arguments, **details)
    except Exception:
        log.debug("telemetry failed", exc_info=True)
        return None


def _attributes(details: dict[str, Any]) -> dict[str, Any]:
    """Return details under their attribute names; unknown ones and None are left out."""
    names = {
        "store": "memory.store.name",
        "limit": "memory.max_search_results",
        "max_entries": "memory.max_entries",
        "result_count": "memory.result.count",
        "store_failure_count": "memory.store.failure_count",
        "entry_count": "memory.entry.count",
        "injected": "memory.injected",
        "format_error": "memory.inject.format_error",
        "message_count": "memory.message.count",
        "filtered_count": "memory.message.filtered_count",
        "extractor": "memory.extractor",
    }
    found = {names[name]: value for name, value in details.items() if name in names and value is not None}
    if "stores" in details:
        found |= {"memory.store.names": tuple(details["stores"]), "memory.store.count": len(details["stores"])}
    return found
