"""A Strands agent that remembers across two runs: run it twice on one folder.

Runs offline: a scripted model stands where a real one would.
"""

import sys
from typing import Any

from strands import Agent

from memfs import Vault
from memfs.integrations.strands import MemoryManager, ScriptedModel, VaultStore

ANSWERS = [
    {"tool": "search_memory", "input": {"query": "food allergy"}},
    "Let us see what I remember.",
    "I will keep in mind that you are allergic to peanuts.",
    '[{"content": "Alice is allergic to peanuts."}]',  # what is extracted when the agent shuts down
]


def shown(messages: Any) -> str:
    """What the model is told of its memory in this call."""
    text = " ".join(block.get("text", "") for block in messages[-1]["content"])
    return text.partition("<memory>")[2].partition("</memory>")[0].strip() or "nothing"


def main(folder: str) -> None:
    store = VaultStore(Vault.init(folder), "/facts/{actorId}", actor="alice", extraction=True)
    model = ScriptedModel(ANSWERS)
    with Agent(model=model, memory_manager=MemoryManager([store]), callback_handler=None) as agent:
        print("agent:", agent("Do I have a food allergy to peanuts?"))
        print("the model is told:", shown(model.calls[0].messages))
        print("agent:", agent("I am allergic to peanuts."))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "notes")
