"""Spans of what the manager does: counts and names of stores; texts only where they are asked for."""

import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

log = logging.getLogger("memfs.agent")
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"  # the setting that agents' telemetry has for texts


def captures_content() -> bool:
    """Tell whether texts are asked for."""
    return os.environ.get(CAPTURE, "").strip().lower() in {"true", "1", "span_only", "span_and_event"}


class Telemetry:
    """Spans memory.search, memory.add, memory.inject and memory.extract; none where opentelemetry is missing."""

    def start(self, kind: str, *, link: Any = None, content: str | None = None, **facts: Any) -> Any:
        """Begin a span; `link` is one that it belongs to and that has ended."""
        if not importlib.util.find_spec("opentelemetry"):
            return None
        from opentelemetry import trace

        links = [trace.Link(link)] if link is not None else None
        attributes = {"gen_ai.operation.name": f"memory.{kind}", **_attributes(facts)}
        span = trace.get_tracer("memfs").start_span(f"memory.{kind}", links=links, attributes=attributes)
        if content is not None and captures_content():
            span.set_attribute("memory.content", content)
        return span

    def end(self, kind: str, span: Any, *, error: BaseException | None = None, **facts: Any) -> None:
        """End a span with what came of it."""
        if span is None:
            return
        from opentelemetry.trace import StatusCode

        facts.pop("entries", None)
        span.set_attributes(_attributes(facts))
        if error is not None:
            span.set_status(StatusCode.ERROR, type(error).__name__)
        span.end()

    @contextmanager
    def current(self, span: Any) -> Iterator[None]:
        """Have what is done meanwhile be part of a span."""
        if span is None:
            yield
            return
        from opentelemetry import trace

        with trace.use_span(span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
            yield

    def link(self) -> Any:
        """The span that is open now, for one that begins when it has ended; None if there is none."""
        if not importlib.util.find_spec("opentelemetry"):
            return None
        from opentelemetry import trace

        span = trace.get_current_span()
        context = span.get_span_context()
        return context if span.is_recording() and context.is_valid else None


def quietly(do: Any, *arguments: Any, **facts: Any) -> Any:
    """Do what must never be in the way of an agent."""
    try:
        return do(*arguments, **facts)
    except Exception:
        log.debug("telemetry failed", exc_info=True)
        return None


def _attributes(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts under the names that agents' telemetry has for them."""
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
    found = {names[name]: value for name, value in facts.items() if name in names and value is not None}
    if "stores" in facts:
        found |= {"memory.store.names": tuple(facts["stores"]), "memory.store.count": len(facts["stores"])}
    return found
