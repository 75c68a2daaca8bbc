"""ModelExtractor: extracts facts from a conversation with a Strands model."""

from typing import Any

from strands.models.model import Model as StrandsBaseModel
from strands.telemetry.tracer import get_tracer

from memfs.agent.extraction import extractor
from memfs.agent.models.clients import as_model
from memfs.agent.models.protocol import Model
from memfs.integrations.strands.model import StrandsModel


class ModelExtractor(extractor.ModelExtractor):
    """Extracts facts with a Strands model or any other: its own, or else the agent's."""

    default_prompt = (
        "You extract durable facts from a conversation, to be remembered in later ones: what people prefer, decide and "
        "plan, and what stays true about them and their work.\n\n"
        "Each fact is one thing, and is understood on its own: with names in place of 'he' or 'it'. Leave out small "
        "talk, questions, what holds for the moment only, what everybody knows, and passwords, keys and other secrets."
    )
    add_format = (
        'Return ONLY a JSON array of objects, each: {"content": string}. '
        "If there is nothing worth remembering, return []."
    )

    def _model(self, thing: Any) -> Model:
        if isinstance(thing, StrandsBaseModel):
            return StrandsModel(thing, tracer=_tracer)
        return as_model(thing)


def _tracer() -> Any:
    """Return Strands' current tracer."""
    return get_tracer()
