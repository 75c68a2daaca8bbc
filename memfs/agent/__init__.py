"""Connect an agent with its stores: tools, injection, extraction and sessions. Knows no framework."""

import logging
from typing import TYPE_CHECKING

from memfs.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from memfs.agent.agent_memory.agent_memory import AgentMemory, EnhancedAgentMemory
    from memfs.agent.agent_memory.working_memory import WorkingMemory
    from memfs.agent.conversation_state import ConversationState
    from memfs.agent.conversation_state import ConversationState as Attachment
    from memfs.agent.extraction.config import Extractor, ExtractorContext, Fact, MessageFilter
    from memfs.agent.extraction.extractor import ModelExtractor
    from memfs.agent.manager import MemoryManager
    from memfs.agent.models.clients import AnthropicModel, OpenAIModel, as_model
    from memfs.agent.models.protocol import Model
    from memfs.agent.models.scripted import ScriptedModel
    from memfs.agent.run_sync import wait
    from memfs.agent.triggers import EvictionTrigger, IntervalTrigger, InvocationTrigger, Trigger, TriggerContext

__all__ = [
    "AgentMemory", "AnthropicModel", "Attachment", "ConversationState", "EnhancedAgentMemory", "EvictionTrigger",
    "Extractor", "ExtractorContext", "Fact", "IntervalTrigger", "InvocationTrigger", "MemoryManager", "MessageFilter",
    "Model", "ModelExtractor", "OpenAIModel", "ScriptedModel", "Trigger", "TriggerContext", "WorkingMemory", "as_model",
    "wait",
]  # fmt: skip


def _redact_record(record: logging.LogRecord) -> bool:
    from memfs.privacy.log_redaction import redact_log_record

    return redact_log_record(record)


logging.getLogger("memfs.agent").addFilter(_redact_record)

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "Attachment": "conversation_state:ConversationState",  # an alias
        "ConversationState": "conversation_state",
        "MemoryManager": "manager",
        "Model": "models.protocol",
        "ModelExtractor": "extraction.extractor",
        "ScriptedModel": "models.scripted",
        "wait": "run_sync",
        "WorkingMemory": "agent_memory.working_memory",
        **dict.fromkeys(("AgentMemory", "EnhancedAgentMemory"), "agent_memory.agent_memory"),
        **dict.fromkeys(("Extractor", "ExtractorContext", "Fact", "MessageFilter"), "extraction.config"),
        **dict.fromkeys(("AnthropicModel", "OpenAIModel", "as_model"), "models.clients"),
        **dict.fromkeys(
            ("EvictionTrigger", "IntervalTrigger", "InvocationTrigger", "Trigger", "TriggerContext"), "triggers"
        ),
    },
)
