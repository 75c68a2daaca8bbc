"""A store's `extraction`, settled."""

from typing import Any

from memfs.agent.extraction.config import TURNS, Extraction, resolve
from memfs.integrations.strands.extraction.model_extractor import ModelExtractor
from memfs.integrations.strands.extraction.triggers import IntervalTrigger

_DEFAULT_EXTRACTION_TRIGGER_TURNS = TURNS
_ResolvedExtractionConfig = Extraction


def _resolve_extraction_config(extraction: Any, store: Any) -> Extraction | None:
    """Settle what is left open; None if extraction is off. Keys that nobody reads are passed over."""
    resolved = resolve(extraction, store, ModelExtractor, is_strict=False)
    if resolved is not None and (extraction is True or extraction.get("trigger") is None):
        resolved.triggers = [IntervalTrigger(TURNS)]
    return resolved
