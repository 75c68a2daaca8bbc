"""Models for agents of Strands that need no model provider."""

from typing import Any

from memfs.integrations.strands import ScriptedModel


class Guarded(ScriptedModel):
    """A model that redacts its prompt."""

    async def stream(self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **options: Any) -> Any:
        yield {"redactContent": {"redactUserContentMessage": "[taken out]"}}
        async for event in super().stream(messages, tool_specs, system_prompt, **options):
            yield event
