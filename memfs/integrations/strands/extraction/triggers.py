"""Triggers that any manager of Strands agents can attach, ours or Strands' own."""

from typing import Any

from memfs.agent import triggers
from memfs.integrations.strands.extraction.types import ExtractionTrigger, ExtractionTriggerContext


class InvocationTrigger(triggers.InvocationTrigger, ExtractionTrigger):
    """After every turn."""

    def attach(self, context: Any) -> None:
        super().attach(_able(context))


class IntervalTrigger(triggers.IntervalTrigger, ExtractionTrigger):
    """After every so many turns."""

    def attach(self, context: Any) -> None:
        super().attach(_able(context))


class EvictionTrigger(triggers.EvictionTrigger, ExtractionTrigger):
    """When the turns since the last time are about so many tokens."""

    def attach(self, context: Any) -> None:
        super().attach(_able(context))


def _able(context: Any) -> Any:
    """A context with all that our triggers listen to."""
    return context if hasattr(context, "on_turn_end") else ExtractionTriggerContext(context.agent, context.fire)
