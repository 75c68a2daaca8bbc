"""Triggers that both memfs's and Strands' own manager can attach."""

from typing import Any

from memfs.agent import triggers
from memfs.integrations.strands.extraction.types import ExtractionTrigger, ExtractionTriggerContext


class InvocationTrigger(triggers.InvocationTrigger, ExtractionTrigger):
    """Fires after every turn."""

    def attach(self, context: Any) -> None:
        super().attach(_with_callbacks(context))


class IntervalTrigger(triggers.IntervalTrigger, ExtractionTrigger):
    """Fires after a number of turns."""

    def attach(self, context: Any) -> None:
        super().attach(_with_callbacks(context))


class EvictionTrigger(triggers.EvictionTrigger, ExtractionTrigger):
    """Fires when the turns since it last fired reach a number of tokens."""

    def attach(self, context: Any) -> None:
        super().attach(_with_callbacks(context))


def _with_callbacks(context: Any) -> Any:
    """Return a context with `on_turn_end` and `on_message`, which memfs's triggers need and Strands' context lacks."""
    return context if hasattr(context, "on_turn_end") else ExtractionTriggerContext(context.agent, context.fire)
