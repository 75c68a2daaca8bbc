"""What injection costs a turn, and how long it keeps an event loop from anything else."""

import asyncio
import time
from collections.abc import Sequence

from benchmarks.measure import Row, Times
from benchmarks.place import Place
from memfs import Vault
from memfs.agent.conversation_state import ConversationState
from memfs.agent.manager import MemoryManager
from memfs.stores.agent.vault_store import VaultStore

TURN = 0.010  # seconds that a turn may take longer
STILL = 0.005  # seconds that an event loop may stand still
BEAT = 0.0005  # seconds between two heartbeats
ROUNDS = 5


def rows(place: Place) -> list[Row]:
    """A turn with injection, and the longest gap between two heartbeats meanwhile, beside that of an idle loop."""
    questions = [question.text for question in place.questions]
    with Vault(place.indexed) as vault:
        chat = MemoryManager([VaultStore(vault)]).attach()
        turns, gaps, idle = asyncio.run(_rounds(chat, questions))
    return [
        Row("a turn's injection of 5 memories", Times(turns), limit=TURN),
        Row("longest standstill of the loop meanwhile", Times(gaps), "of an idle loop", Times(idle), limit=STILL),
    ]


async def _rounds(chat: ConversationState, questions: Sequence[str]) -> tuple[list[float], list[float], list[float]]:
    await chat.inject(_asked(questions[0]))  # opens the index
    turns, gaps, idle = [], [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        gap = await _longest_gap(chat, questions)
        turns.append((time.perf_counter() - start) / len(questions))
        gaps.append(gap)
        idle.append(await _longest_gap(None, questions))
    return turns, gaps, idle


async def _longest_gap(chat: ConversationState | None, questions: Sequence[str]) -> float:
    """The longest time between two heartbeats, while the questions are injected or while nothing happens."""
    gaps: list[float] = []
    heart = asyncio.create_task(_beat(gaps))
    for question in questions:
        if chat is None:
            await asyncio.sleep(BEAT)
        else:
            await chat.inject(_asked(question))
    heart.cancel()
    return max(gaps) - BEAT


async def _beat(gaps: list[float]) -> None:
    last = time.perf_counter()
    while True:
        await asyncio.sleep(BEAT)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now


def _asked(question: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}]
