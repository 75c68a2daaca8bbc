"""The agent side: a manager that gives an agent tools, extraction and injection on its stores."""

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memfs.agent.attachment import Attachment
    from memfs.agent.blocking import wait
    from memfs.agent.extraction import Extractor, ExtractorContext, Fact, MessageFilter
    from memfs.agent.extractor import ModelExtractor
    from memfs.agent.manager import MemoryManager
    from memfs.agent.memory import AgentMemory, EnhancedAgentMemory
    from memfs.agent.model import Model
    from memfs.agent.models import AnthropicModel, OpenAIModel, ScriptedModel, as_model
    from memfs.agent.triggers import EvictionTrigger, IntervalTrigger, InvocationTrigger, Trigger, TriggerContext
    from memfs.agent.working import WorkingMemory

__all__ = [
    "AgentMemory", "AnthropicModel", "Attachment", "EnhancedAgentMemory", "EvictionTrigger", "Extractor",
    "ExtractorContext", "Fact", "IntervalTrigger", "InvocationTrigger", "MemoryManager", "MessageFilter", "Model",
    "ModelExtractor", "OpenAIModel", "ScriptedModel", "Trigger", "TriggerContext", "WorkingMemory", "as_model",
    "wait",
]  # fmt: skip

_HOMES = {
    "Attachment": "attachment",
    "MemoryManager": "manager",
    "Model": "model",
    "ModelExtractor": "extractor",
    "wait": "blocking",
    "WorkingMemory": "working",
    **dict.fromkeys(("AgentMemory", "EnhancedAgentMemory"), "memory"),
    **dict.fromkeys(("Extractor", "ExtractorContext", "Fact", "MessageFilter"), "extraction"),
    **dict.fromkeys(("AnthropicModel", "OpenAIModel", "ScriptedModel", "as_model"), "models"),
    **dict.fromkeys(
        ("EvictionTrigger", "IntervalTrigger", "InvocationTrigger", "Trigger", "TriggerContext"), "triggers"
    ),
}


def _discreet(record: logging.LogRecord) -> bool:
    from memfs.privacy.log_redaction import discreet_record

    return discreet_record(record)


logging.getLogger("memfs.agent").addFilter(_discreet)


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'memfs.agent' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"memfs.agent.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
