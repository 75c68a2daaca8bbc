"""Agents of Strands with scripted models."""

from typing import Any

from strands import Agent

from memfs.integrations.strands import ScriptedModel


class Guarded(ScriptedModel):
    """A model that redacts its prompt."""

    async def stream(self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **options: Any) -> Any:
        yield {"redactContent": {"redactUserContentMessage": "[taken out]"}}
        async for event in super().stream(messages, tool_specs, system_prompt, **options):
            yield event


def agent(session_manager: Any, *replies: Any, **options: Any) -> Agent:
    """Return an agent of Strands whose model gives these replies."""
    options.setdefault("model", ScriptedModel(replies))
    return Agent(session_manager=session_manager, callback_handler=None, **options)
