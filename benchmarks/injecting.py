"""Cost of injection per turn, and how long it blocks an event loop."""

import asyncio
import time
from collections.abc import Sequence

from benchmarks.bench_run import BenchRun
from benchmarks.measure import Row, Times
from memfs import Vault
from memfs.agent.conversation_state import ConversationState
from memfs.agent.manager import MemoryManager
from memfs.stores.agent.vault_store import VaultStore

TURN_LIMIT_SECONDS = 0.010
PAUSE_LIMIT_SECONDS = 0.005  # of the event loop
HEARTBEAT_SECONDS = 0.0005
ROUNDS = 5


def rows(run: BenchRun) -> list[Row]:
    """Return the rows of a turn with injection, and of the longest gap between heartbeats."""
    questions = [question.text for question in run.questions]
    with Vault(run.indexed) as vault:
        chat = MemoryManager([VaultStore(vault)]).attach()
        turns, gaps, idle = asyncio.run(_rounds(chat, questions))
    return [
        Row("injection of 5 memories per turn", Times(turns), limit=TURN_LIMIT_SECONDS),
        Row(
            "longest pause of the event loop meanwhile",
            Times(gaps),
            "an idle event loop",
            Times(idle),
            limit=PAUSE_LIMIT_SECONDS,
        ),
    ]


async def _rounds(chat: ConversationState, questions: Sequence[str]) -> tuple[list[float], list[float], list[float]]:
    await chat.inject(_user_message(questions[0]))  # opens the index
    turns, gaps, idle = [], [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        gap = await _longest_gap(chat, questions)
        turns.append((time.perf_counter() - start) / len(questions))
        gaps.append(gap)
        idle.append(await _longest_gap(None, questions))
    return turns, gaps, idle


async def _longest_gap(chat: ConversationState | None, questions: Sequence[str]) -> float:
    """Return the longest time between two heartbeats during injection, or of an idle loop if `chat` is None."""
    gaps: list[float] = []
    heartbeat = asyncio.create_task(_beat(gaps))
    for question in questions:
        if chat is None:
            await asyncio.sleep(HEARTBEAT_SECONDS)
        else:
            await chat.inject(_user_message(question))
    heartbeat.cancel()
    return max(gaps) - HEARTBEAT_SECONDS


async def _beat(gaps: list[float]) -> None:
    last = time.perf_counter()
    while True:
        await asyncio.sleep(HEARTBEAT_SECONDS)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now


def _user_message(question: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}]
