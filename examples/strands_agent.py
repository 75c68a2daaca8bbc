"""A Strands agent that remembers across two runs: run it twice on one directory.

Runs offline, with a scripted model in place of a real one.
"""

import sys
from typing import Any

from strands import Agent

from memfs import Vault
from memfs.integrations.strands import MemoryManager, ScriptedModel, VaultStore

ANSWERS = [
    {"tool": "search_memory", "input": {"query": "food allergy"}},
    "Let me see what I remember.",
    "I will keep in mind that you are allergic to peanuts.",
    '[{"content": "Alice is allergic to peanuts."}]',  # extracted when the agent shuts down
]


def injected(messages: Any) -> str:
    """Return the memories that were injected into a call of the model."""
    text = " ".join(block.get("text", "") for block in messages[-1]["content"])
    return text.partition("<memory>")[2].partition("</memory>")[0].strip() or "nothing"


def main(folder: str) -> None:
    store = VaultStore(Vault.init(folder), "/facts/{actorId}", actor="alice", extraction=True)
    model = ScriptedModel(ANSWERS)
    with Agent(model=model, memory_manager=MemoryManager([store]), callback_handler=None) as agent:
        print("agent:", agent("Do I have a food allergy to peanuts?"))
        print("injected:", injected(model.calls[0].messages))
        print("agent:", agent("I am allergic to peanuts."))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "notes")
