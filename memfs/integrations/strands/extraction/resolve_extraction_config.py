"""Resolves the `extraction` setting of a store, with Strands' defaults."""

from typing import Any

from memfs.agent.extraction.config import DEFAULT_INTERVAL_TURNS, ResolvedExtraction, resolve
from memfs.integrations.strands.extraction.model_extractor import ModelExtractor
from memfs.integrations.strands.extraction.triggers import IntervalTrigger

_DEFAULT_EXTRACTION_TRIGGER_TURNS = DEFAULT_INTERVAL_TURNS
_ResolvedExtractionConfig = ResolvedExtraction


def _resolve_extraction_config(extraction: Any, store: Any) -> ResolvedExtraction | None:
    """Return the setting with defaults filled in; None if extraction is off. Unknown keys are ignored."""
    resolved = resolve(extraction, store, ModelExtractor, is_strict=False)
    if resolved is not None and (extraction is True or extraction.get("trigger") is None):
        resolved.triggers = [IntervalTrigger(DEFAULT_INTERVAL_TURNS)]
    return resolved
