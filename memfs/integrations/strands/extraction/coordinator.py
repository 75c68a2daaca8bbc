"""ExtractionCoordinator: the coordinator of memfs with Strands' spans and errors."""

from collections.abc import Sequence
from typing import Any

from opentelemetry import trace as trace_api
from strands.telemetry.tracer import get_tracer

from memfs.agent.extraction.config import Binding
from memfs.agent.extraction_queue.backoff import FAILURES_BEFORE_BACKOFF, PROBE_INTERVAL
from memfs.agent.extraction_queue.coordinator import Coordinator
from memfs.integrations.strands.errors import AggregateMemoryError
from memfs.integrations.strands.telemetry import StrandsTelemetry

# The names of Strands' own module.
SAVE_FAILURES_BEFORE_BACKOFF = FAILURES_BEFORE_BACKOFF
BACKOFF_PROBE_INTERVAL = PROBE_INTERVAL
_ExtractionBinding = Binding


class ExtractionCoordinator(Coordinator):
    """Passes the turns of one agent to its stores, traced by Strands' tracer."""

    aggregate = AggregateMemoryError

    def __init__(self, bindings: Sequence[Binding], default_model: Any = None, **options: Any) -> None:
        telemetry = options.pop("telemetry", None) or StrandsTelemetry(_tracer)
        super().__init__(bindings, default_model, telemetry=telemetry, **options)

    @staticmethod
    def _current_span_context() -> Any:
        """Return the context of the current span, so that a later span can link to it; None if there is none."""
        span = trace_api.get_current_span()
        context = span.get_span_context()
        return context if span.is_recording() and context.is_valid else None


def _tracer() -> Any:
    """Return Strands' current tracer."""
    return get_tracer()
