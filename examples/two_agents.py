"""Two agents use one vault at once, each in its own process, while a person edits a file. Nothing is lost."""

import asyncio
import subprocess
import sys
from pathlib import Path

from memfs import Vault
from memfs.agent import InvocationTrigger, MemoryManager, ScriptedModel
from memfs.stores import VaultStore

TURNS = 25


async def agent(folder: str, name: str) -> None:
    """Run an agent that learns one fact per turn."""
    facts = [f"{name} saw ship {number} in the harbour." for number in range(TURNS)]
    model = ScriptedModel([[{"content": fact}] for fact in facts])
    store = VaultStore(folder, "/facts/harbour", extraction={"trigger": InvocationTrigger()})
    async with MemoryManager([store], model=model) as manager:
        chat = manager.attach()
        for fact in facts:
            chat.record({"role": "user", "content": fact})
            await chat.end_turn()
            await manager.flush()


def main(folder: str) -> None:
    vault = Vault.init(folder)
    agents = [subprocess.Popen([sys.executable, __file__, folder, name]) for name in ("Ada", "Bob")]
    file = Path(folder) / "facts" / "harbour" / "pilot.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("The pilot boat leaves at six.\n", encoding="utf-8")
    if any(process.wait() for process in agents):
        sys.exit("an agent failed")
    for name in ("Ada", "Bob"):
        kept = [memory for memory in vault.list("/facts/harbour") if memory.body.startswith(name)]
        print(f"{name}: {len(kept)} of {TURNS} facts kept")
    print("a person's edit is found at once:", vault.search("pilot boat")[0].memory.path)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(agent(sys.argv[1], sys.argv[2]))
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "notes")
