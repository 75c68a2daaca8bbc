"""An agent with memory and no framework: your own loop, with tools, injection and extraction.

Runs offline, with a scripted model. Replace it by `OpenAIModel(client, "...")` or `AnthropicModel(client, "...")` for
the extraction, and by your own call for the answers.
"""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from memfs import Vault
from memfs.agent import InvocationTrigger, MemoryManager, ScriptedModel
from memfs.stores import VaultStore


async def talk(manager: MemoryManager, user_messages: Sequence[str], answers: Sequence[Any]) -> None:
    """Run one conversation with the user's messages and the model's answers or tool calls."""
    chat, messages, script = manager.attach(), [], iter(answers)
    for text in user_messages:
        messages.append({"role": "user", "content": text})
        chat.record(messages[-1])
        shown = await chat.inject(messages)  # the messages for the model; `messages` is unchanged
        print(f"  user:  {text}")
        if shown != messages:
            print(f"         injected: {str(shown[-1]['content']).partition('<memory>')[2].strip()[:76]}...")
        answer = next(script)
        while isinstance(answer, dict):  # a tool call
            print(f"         {answer['tool']}({answer['input']}) ->", await manager.call_tool(**_call(answer)))
            answer = next(script)
        messages.append({"role": "assistant", "content": answer})
        chat.record(messages[-1])
        print(f"  agent: {answer}")
        await chat.end_turn()


def _call(answer: dict[str, Any]) -> dict[str, Any]:
    return {"name": answer["tool"], "arguments": answer["input"]}


async def main(folder: str) -> None:
    vault = Vault.init(folder)
    model = ScriptedModel([[{"content": "Alice is allergic to peanuts."}], [], []])
    store = VaultStore(vault, "/facts/{actorId}", actor="alice", extraction={"trigger": InvocationTrigger()})
    manager = MemoryManager([store], add_tool_config=True, model=model)
    print("tools:", ", ".join(spec["function"]["name"] for spec in manager.tool_specs("openai")))

    print("\nthe first conversation")
    async with manager:
        await talk(manager, ["I am allergic to peanuts."], ["I will keep that in mind."])
    print("\nthe second conversation")
    async with manager:
        await talk(
            manager,
            ["Which snack is safe with my peanut allergy?", "Remember that I like crackers."],
            [
                "Crackers, since you are allergic to peanuts.",
                {"tool": "add_memory", "input": {"entries": ["Alice likes crackers."]}},
                "Noted.",
            ],
        )
    print("\nthe vault, for people to read")
    for memory in vault.list():
        print(f"  {memory.path}: {memory.body.strip()}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "notes"))
