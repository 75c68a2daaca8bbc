"""The agent side: a manager that gives an agent tools, extraction and injection on its stores."""

import logging
from typing import TYPE_CHECKING

from memfs.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from memfs.agent.agent_memory.agent_memory import AgentMemory, EnhancedAgentMemory
    from memfs.agent.agent_memory.working_memory import WorkingMemory
    from memfs.agent.conversation_state import Attachment
    from memfs.agent.extraction.config import Extractor, ExtractorContext, Fact, MessageFilter
    from memfs.agent.extraction.extractor import ModelExtractor
    from memfs.agent.manager import MemoryManager
    from memfs.agent.models.clients import AnthropicModel, OpenAIModel, ScriptedModel, as_model
    from memfs.agent.models.protocol import Model
    from memfs.agent.run_sync import wait
    from memfs.agent.triggers import EvictionTrigger, IntervalTrigger, InvocationTrigger, Trigger, TriggerContext

__all__ = [
    "AgentMemory", "AnthropicModel", "Attachment", "EnhancedAgentMemory", "EvictionTrigger", "Extractor",
    "ExtractorContext", "Fact", "IntervalTrigger", "InvocationTrigger", "MemoryManager", "MessageFilter", "Model",
    "ModelExtractor", "OpenAIModel", "ScriptedModel", "Trigger", "TriggerContext", "WorkingMemory", "as_model",
    "wait",
]  # fmt: skip


def _discreet(record: logging.LogRecord) -> bool:
    from memfs.privacy.log_redaction import discreet_record

    return discreet_record(record)


logging.getLogger("memfs.agent").addFilter(_discreet)

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "Attachment": "conversation_state",
        "MemoryManager": "manager",
        "Model": "models.protocol",
        "ModelExtractor": "extraction.extractor",
        "wait": "run_sync",
        "WorkingMemory": "agent_memory.working_memory",
        **dict.fromkeys(("AgentMemory", "EnhancedAgentMemory"), "agent_memory.agent_memory"),
        **dict.fromkeys(("Extractor", "ExtractorContext", "Fact", "MessageFilter"), "extraction.config"),
        **dict.fromkeys(("AnthropicModel", "OpenAIModel", "ScriptedModel", "as_model"), "models.clients"),
        **dict.fromkeys(
            ("EvictionTrigger", "IntervalTrigger", "InvocationTrigger", "Trigger", "TriggerContext"), "triggers"
        ),
    },
)
