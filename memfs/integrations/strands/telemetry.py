"""Spans by Strands' own tracer, with texts only where they are asked for."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from memfs.agent.telemetry import Telemetry, captures_content
from memfs.privacy.log_redaction import discreet, discreet_error
from memfs.stores.agent.protocol import Found


class StrandsTelemetry(Telemetry):
    """Spans memory.search, memory.add, memory.inject and memory.extract; `tracer` gives the tracer of the moment."""

    def __init__(self, tracer: Callable[[], Any]) -> None:
        self._tracer = tracer

    def start(self, kind: str, *, link: Any = None, content: str | None = None, **facts: Any) -> Any:
        tracer = self._tracer()
        match kind:
            case "search":
                return tracer.start_memory_search_span(
                    shown(content), list(facts["stores"]), max_search_results=facts["limit"]
                )
            case "add":
                return tracer.start_memory_add_span(shown(content), list(facts["stores"]), force_root=facts["is_root"])
            case "inject":
                return tracer.start_memory_inject_span(max_entries=facts["max_entries"])
        return tracer.start_memory_extract_span(facts.pop("store"), agent_span_context=link, **facts)

    def end(self, kind: str, span: Any, *, error: BaseException | None = None, **facts: Any) -> None:
        facts.pop("result_count", None)
        if "entries" in facts:
            facts["entries"] = list(_without_texts(facts["entries"]))
        if error is not None:
            facts["error"] = discreet_error(error)
        getattr(self._tracer(), f"end_memory_{kind}_span")(span, **facts)


def shown(text: str | None) -> str:
    """A text for a span: nothing of it, unless it is asked for."""
    return text or "" if captures_content() else ""


def _without_texts(entries: Sequence[Found]) -> Iterable[Found]:
    """Entries for a span, where texts are asked for without secrets; metadata may hold texts too."""
    if captures_content():
        return (replace(entry, content=discreet(entry.content), metadata=None) for entry in entries)
    return (replace(entry, content="", metadata=None) for entry in entries)
