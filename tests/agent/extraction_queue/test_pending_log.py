"""Pending turns and facts are never lost: closed loops, killed processes, damaged logs, full disks."""

import asyncio
import gc
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from support.agents import LIMIT, Facts, SearchableStore, StepwiseStore, Turns, managed, say
from support.commands import REPOSITORY
from support.messages import user
from support.pending import NEVER, crash, facts_in, log_of, state_dir, turn
from support.vaults import bodies

from memfs import Vault
from memfs.agent import IntervalTrigger, InvocationTrigger, MemoryManager, ScriptedModel, wait
from memfs.agent.extraction_queue import accepted_facts
from memfs.agent.extraction_queue.coordinator import Coordinator, edit_pending
from memfs.agent.extraction_queue.failed_batches import drop, keep_failed, list_failed, retry
from memfs.agent.extraction_queue.pending_log import PendingLog, adopt_orphans
from memfs.agent.extraction_queue.turns import BATCH_TOKENS, MessageEdit
from memfs.agent.messages import text_of
from memfs.errors import ExtractionError
from memfs.stores import AddMessagesContext, VaultStore

StoreType = TypeVar("StoreType", bound=SearchableStore)


def with_place(store: StoreType) -> StoreType:
    """Give a store a `place`, so that another process can adopt its pending turns."""
    cast("Any", store).place = store.name
    return store


def open_logs() -> list[str]:
    """Return the files and directories in `pending` that this process has open."""
    gc.collect()
    links = (Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd"))
    return [target for link in links if link.is_symlink() and "/pending/" in (target := os.readlink(link))]


# --- flush, settle, close


def test_thousands_of_turns_are_saved(vault: Vault) -> None:
    store = Turns(extraction=NEVER)
    manager = managed([store, VaultStore(vault)])
    chat = manager.attach()
    begin = time.monotonic()

    say(chat, *(str(number) for number in range(20_000)))
    asyncio.run(manager.flush())
    assert len(store.texts) == 20_000
    assert time.monotonic() - begin < LIMIT


def test_a_long_backlog_is_saved_in_batches_that_fit_a_model() -> None:
    store = Turns()
    manager = managed([store])
    chat = manager.attach()
    say(chat, *("x" * (BATCH_TOKENS * tenths * 4 // 10) for tenths in (20, 4, 4, 4)))

    asyncio.run(manager.flush())
    assert ([len(batch) for batch in store.batches], manager.pending) == ([1, 2, 1], 0)


def test_without_a_loop_turns_wait_for_the_flush(vault: Vault) -> None:
    store = facts_in(vault, extraction={"trigger": InvocationTrigger()})
    first = MemoryManager([store])
    say(first.attach(), "from before")
    crash()
    manager = MemoryManager([store])
    chat = manager.attach()

    say(chat, "a")
    chat.turn_ended()
    assert manager.pending == 2
    wait(manager.flush())
    assert bodies(vault) == ["a", "from before"]


def test_a_crash_while_a_loop_is_blocked_loses_nothing(vault: Vault) -> None:
    store, loop = with_place(StepwiseStore()), asyncio.new_event_loop()
    manager = managed([store, VaultStore(vault)])
    chat = manager.attach()
    say(chat, "a")
    loop.run_until_complete(chat.end_turn())
    loop.run_until_complete(asyncio.sleep(0))
    say(chat, "b")
    asyncio.run(manager.flush())
    crash()

    again = with_place(StepwiseStore())
    with managed([again, VaultStore(vault)]) as successor:
        successor.attach()
    assert again.batches == [["a", "b"]]
    loop.run_until_complete(manager.flush())
    loop.close()


def test_settling_keeps_the_turns_on_disk_for_their_trigger(vault: Vault) -> None:
    manager = MemoryManager([facts_in(vault)])
    say(manager.attach(), "a")

    wait(manager.settle())
    assert (bodies(vault), manager.pending) == ([], 1)
    wait(manager.close())
    assert (bodies(vault), manager.pending) == (["a"], 0)
    assert list(state_dir(vault).iterdir()) == []


def test_a_block_saves_everything_also_when_it_raises(vault: Vault) -> None:
    async def talk() -> None:
        async with MemoryManager([facts_in(vault)]) as manager:
            say(manager.attach(), "b")

    def fail() -> None:
        with MemoryManager([facts_in(vault)]) as manager:
            say(manager.attach(), "a")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    asyncio.run(talk())
    assert bodies(vault) == ["a", "b"]


def test_deleted_agents_leave_no_file_open(vault: Vault) -> None:
    manager = MemoryManager([facts_in(vault)])
    say(manager.attach(), "kept open")

    for number in range(20):
        say(manager.attach(), str(number))
        wait(manager.flush())
    manager.attach()
    assert len(open_logs()) <= 1
    assert list(state_dir(vault).glob("*/*")) == []
    assert len(bodies(vault)) == 21


def test_many_conversations_share_one_open_file_and_have_one_log_each(vault: Vault) -> None:
    managers = [MemoryManager([facts_in(vault, actor)]) for actor in ("alice", "bob")]
    chats = [manager.attach() for manager in managers for _ in range(300)]
    for number, chat in enumerate(chats):
        say(chat, f"turn {number}")

    assert len(open_logs()) == 1
    assert len(list(state_dir(vault).glob("*/*.jsonl"))) == 600
    for manager in managers:
        wait(manager.close())
    assert (len(bodies(vault)), list(state_dir(vault).iterdir()), open_logs()) == (600, [], [])


def test_the_turns_of_an_unclosed_manager_are_adopted_by_the_next(vault: Vault) -> None:
    manager, other = MemoryManager([facts_in(vault)]), MemoryManager([facts_in(vault)])
    say(manager.attach(), "a")
    say(other.attach(), "of one that lives")
    gone = weakref.ref(manager)

    del manager
    gc.collect()
    assert gone() is None
    with MemoryManager([facts_in(vault)]) as successor:
        successor.attach()
    assert bodies(vault) == ["a"]
    assert other.pending == 1


def test_an_agent_that_cannot_save_turns_leaves_them_to_one_that_can(vault: Vault) -> None:
    (state_dir(vault) / "1-a.jsonl").write_bytes(log_of(turn(0, "a")))
    reader = MemoryManager([VaultStore(vault, "/facts/{actorId}", actor="alice")])
    reader.attach()

    with MemoryManager([facts_in(vault)]) as manager:
        manager.attach()
    assert bodies(vault) == ["a"]


def test_many_agents_have_separate_turns_and_are_released() -> None:
    store = Turns(extraction={"trigger": IntervalTrigger(2)})
    manager = managed([store])
    chats = [manager.attach() for _ in range(3)]
    for number, chat in enumerate(chats):
        chat.record(user(str(number)))
    gone = [weakref.ref(chat) for chat in chats]
    queues = [weakref.ref(chat.coordinator) for chat in chats if chat.coordinator is not None]

    del chat, chats
    gc.collect()
    queues.append(weakref.ref(cast("Coordinator", manager.attach().coordinator)))
    assert [ref() for ref in gone] == [None] * 3
    assert (len(queues), None in [ref() for ref in queues], manager.pending) == (4, False, 3)
    asyncio.run(manager.flush())
    last = manager.attach()
    gc.collect()
    assert sorted(store.texts) == ["0", "1", "2"]
    assert [ref() for ref in queues] == [None] * 4
    assert last.coordinator is not None


# --- accepted facts


def test_an_accepted_fact_is_on_disk_before_the_tool_returns(vault: Vault) -> None:
    manager = MemoryManager([facts_in(vault)], add_tool_config={"wait_for_writes": False})

    async def accept() -> None:
        assert await manager.call_tool("add_memory", {"entries": ["tea", "cake"]}) == {"accepted": 2}
        lines = b"".join(path.read_bytes() for path in state_dir(vault).glob("*/*"))
        assert b'"tea"' in lines
        assert b'"cake"' in lines
        await manager.flush()
        assert bodies(vault) == ["cake", "tea"]

    asyncio.run(accept())
    assert manager.pending == 0


def test_a_flush_writes_the_facts_that_a_closed_loop_did_not_write() -> None:
    class Slow(Facts):
        async def add(self, content: str, metadata: Any = None) -> None:
            await asyncio.sleep(0)
            await super().add(content, metadata)

    store = Slow(fails=True)
    manager = managed([store], add_tool_config={"wait_for_writes": False})

    asyncio.run(manager.call_tool("add_memory", {"entries": ["tea"]}))
    assert manager.pending == 1
    store.fails = False
    asyncio.run(manager.flush())
    assert (store.added, manager.pending) == ([("tea", None)], 0)


def test_a_fact_accepted_while_another_is_written_stays_in_the_log(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Waits(Facts):
        async def add(self, content: str, metadata: Any = None) -> None:
            if content == "first":
                await is_second_down.wait()
            await super().add(content, metadata)

    class SlowDisk(PendingLog):
        def sync(self) -> None:
            syncs.release()
            is_fast.wait(LIMIT)

    is_second_down, is_fast, syncs = asyncio.Event(), threading.Event(), threading.Semaphore(0)
    store = with_place(Waits())
    monkeypatch.setattr(accepted_facts, "PendingLog", SlowDisk)
    manager = managed([store, VaultStore(vault)])

    async def both() -> None:
        is_fast.set()
        await manager.accept(["first"], ["facts"])
        is_fast.clear()
        second = asyncio.create_task(manager.accept(["second"], ["facts"]))
        assert await asyncio.to_thread(lambda: syncs.acquire(timeout=LIMIT) and syncs.acquire(timeout=LIMIT))
        is_second_down.set()
        async with asyncio.timeout(LIMIT):
            while manager.pending > 1:  # until the first is written
                await asyncio.sleep(0)
        assert b'"second"' in b"".join(path.read_bytes() for path in state_dir(vault).glob("*/*"))
        is_fast.set()
        await second

    wait(both())
    assert store.added == [("first", None), ("second", None)]


def test_a_fact_that_is_refused_for_good_is_dropped_and_one_of_an_earlier_run_is_written(vault: Vault) -> None:
    record = {"fact": "k", "content": "tea", "stores": ["facts:/facts/alice"], "metadata": None}
    (state_dir(vault) / "1-a.jsonl").write_bytes(log_of(record, {**record, "fact": "l", "content": " "}))
    manager = MemoryManager([facts_in(vault)])
    chat = manager.attach()

    wait(chat.end_turn())
    assert (bodies(vault), manager.pending) == (["tea"], 0)


def test_a_fact_for_no_store_is_not_accepted(vault: Vault) -> None:
    manager = managed([facts_in(vault), Turns(), SearchableStore()])

    for name in ("turns", "shelf", "nobody"):
        with pytest.raises(ValueError, match=f"store '{name}'"):
            wait(manager.accept(["tea"], [name]))
    assert manager.pending == 0


# --- adoption of logs


def test_turns_of_one_actor_are_never_taken_over_by_another(vault: Vault) -> None:
    managers = {actor: MemoryManager([facts_in(vault, actor)]) for actor in ("alice", "bob")}
    logs: list[PendingLog] = []
    for actor, manager in managers.items():
        say(manager.attach(), f"turn of {actor}")
        logs.append(log := PendingLog(vault.root, [f"facts:/facts/{actor}"]))
        log.append({"fact": "k", "content": f"fact of {actor}", "stores": [f"facts:/facts/{actor}"], "metadata": None})
    assert len(list(state_dir(vault).glob("*/*.jsonl"))) == 4
    crash()

    with MemoryManager([facts_in(vault, "bob")]) as manager:
        manager.attach()
    assert bodies(vault) == ["fact of bob", "turn of bob"]
    assert len(list(state_dir(vault).glob("*/*.jsonl"))) == 2
    with MemoryManager([facts_in(vault, "alice")]) as manager:
        manager.attach()
    assert bodies(vault, "/facts/alice") == ["fact of alice", "turn of alice"]
    assert bodies(vault, "/facts/bob") == ["fact of bob", "turn of bob"]
    assert list(state_dir(vault).iterdir()) == []


def test_a_vault_may_be_moved_between_two_runs(vault: Vault, tmp_path: Path) -> None:
    manager = MemoryManager([facts_in(vault)])
    say(manager.attach(), "a")
    crash()
    vault.close()

    shutil.move(vault.root, tmp_path / "elsewhere")
    with Vault(tmp_path / "elsewhere") as moved, MemoryManager([facts_in(moved)]) as successor:
        successor.attach()
        wait(successor.flush())
        assert bodies(moved) == ["a"]


def test_a_read_only_vault_gets_no_pending_log(vault: Vault, tmp_path: Path) -> None:
    handbook = Vault.init(tmp_path / "handbook")
    manager = MemoryManager([VaultStore(handbook, name="handbook", writable=False), facts_in(vault)])

    say(manager.attach(), "private")
    assert not (handbook.root / ".memfs" / "pending").exists()
    assert len(list(state_dir(vault).iterdir())) == 1


ADOPTING_PROCESS = """
import sys
from memfs import Vault
from memfs.agent import MemoryManager
from support.pending import facts_in
vault = Vault(sys.argv[1])
sys.stdin.readline()
with MemoryManager([facts_in(vault)]) as manager:
    manager.attach()
    print(manager.pending, flush=True)
"""
TALKING_PROCESS = """
import asyncio, sys
from memfs import Vault
from memfs.agent import IntervalTrigger, MemoryManager
from support.agents import say
from support.pending import facts_in
vault = Vault(sys.argv[1])
store = facts_in(vault, extraction={"trigger": IntervalTrigger(3)})
manager = MemoryManager([store])
chats = [manager.attach() for _ in range(3)]
async def main():
    for number in range(1000):
        chat, text = chats[number % 3], f"turn {number} of {sys.argv[2]}"
        say(chat, text)
        print(text, flush=True)
        if number % 4 == 0:
            await manager.accept([f"fact {number} of {sys.argv[2]}"], ["facts"])
            print(f"fact {number} of {sys.argv[2]}", flush=True)
        await chat.end_turn()
        await asyncio.sleep(0)
asyncio.run(main())
"""


def started(code: str, *arguments: object) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_each_log_is_adopted_by_one_of_several_starting_processes(vault: Vault) -> None:
    manager = MemoryManager([facts_in(vault)])
    chats = [manager.attach() for _ in range(50)]
    for number, chat in enumerate(chats):
        say(chat, f"turn {number}")
    crash()

    processes = [started(ADOPTING_PROCESS, vault.root) for _ in range(3)]
    with ThreadPoolExecutor(2) as pool:
        taken = [int(out) for out, _ in pool.map(lambda process: process.communicate("go\n", timeout=30), processes)]
    assert sum(taken) == 50
    assert len(bodies(vault)) == 50
    assert list(state_dir(vault).iterdir()) == []


def test_recorded_turns_survive_a_kill_at_any_moment(vault: Vault) -> None:
    dice, taken = random.Random(7), set()
    for round_ in range(6):
        with started(TALKING_PROCESS, vault.root, f"round {round_}") as process:
            assert process.stdout is not None
            taken |= {process.stdout.readline().strip() for _ in range(dice.randint(1, 60))}
            process.kill()

    with MemoryManager([facts_in(vault)]) as manager:
        manager.attach()
    assert taken <= set(bodies(vault))
    assert list(state_dir(vault).iterdir()) == []


def test_a_forked_child_has_its_own_log(vault: Vault) -> None:
    manager = MemoryManager([facts_in(vault)])
    chat = manager.attach()
    log = PendingLog(vault.root, ["facts:/facts/alice"])  # closed in the child
    say(chat, "of the parent")

    child = os.fork()
    if not child:
        say(chat, "of the child")
        log.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(state_dir(vault).iterdir())) == 2
    crash()
    with MemoryManager([facts_in(vault)]) as successor:
        successor.attach()
    assert bodies(vault) == ["of the child", "of the parent"]


FORKING_PROCESS = """
import os, sys
from memfs import Vault
from memfs.agent import MemoryManager
from support.agents import say
from support.pending import facts_in
chat = MemoryManager([facts_in(Vault(sys.argv[1]))]).attach()
say(chat, "of the parent")
if os.fork():
    os.kill(os.getpid(), 9)
print("the child lives", flush=True)
sys.stdin.readline()
"""


def test_a_child_that_outlives_its_parent_does_not_lock_the_parents_logs(vault: Vault) -> None:
    with started(FORKING_PROCESS, vault.root) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "the child lives\n"
        assert process.wait(timeout=30) == -9

        with MemoryManager([facts_in(vault)]) as manager:
            manager.attach()
        assert bodies(vault) == ["of the parent"]


# --- damaged logs and full disks


@pytest.mark.parametrize(
    "damage",
    [
        b'{"turn": 1, "message": {"role": "user", "content": "cut sh',
        b"\xff\xfe not UTF-8",
        b"[" * 100_000,
        b'{"turn": ' + b"9" * 5_000 + b"}",
        b'{"turn": 1, "message": {"role": "user", "content": 5}}',
        b'{"turn": 1, "message": "text"}',
        b'{"turn": "1", "message": {}}',
        b'{"fact": 5, "content": "x", "stores": ["facts:/facts/bob"]}',
        b'{"fact": "k", "content": "x", "stores": [], "metadata": [1]}',
        b'{"store": 5, "mark": 100}',
        b'{"turn": 1, "message": {"role": "user", "content": [{"memfs:bytes": 5}]}}',
        b"null",
        b"",
    ],
)
def test_a_damaged_line_hides_no_other(vault: Vault, damage: bytes) -> None:
    (state_dir(vault) / "1-a.jsonl").write_bytes(log_of(turn(0, "before")) + damage + b"\n" + log_of(turn(2, "after")))

    with MemoryManager([facts_in(vault)]) as manager:
        manager.attach()
    assert bodies(vault)[:2] == ["after", "before"]
    assert list(state_dir(vault).iterdir()) == []


def test_other_files_are_left_alone_and_hide_no_log(vault: Vault, tmp_path: Path) -> None:
    place, outside = state_dir(vault), tmp_path / "outside.jsonl"
    outside.write_bytes(log_of(turn(0, "outside")))
    os.mkfifo(place / "1-fifo.jsonl")
    (place / "2-link.jsonl").symlink_to(outside)
    (place / "3-folder.jsonl").mkdir()
    (place / "4-huge.jsonl").touch()
    os.truncate(place / "4-huge.jsonl", 1 << 40)
    (place / "5-headless.jsonl").write_bytes(log_of(turn(0, "whose?")).partition(b"\n")[2])
    (place / "6-log.jsonl").write_bytes(log_of(turn(0, "a")))

    with MemoryManager([facts_in(vault)]) as manager:
        manager.attach()
    assert bodies(vault) == ["a"]
    assert sorted(path.name[:1] for path in place.iterdir()) == ["1", "2", "3", "4", "5"]
    assert outside.read_bytes() == log_of(turn(0, "outside"))
    assert open_logs() == []


def test_empty_directories_of_a_killed_process_are_removed(vault: Vault) -> None:
    place = state_dir(vault)
    for name in (".new-1-aaaaaaaaaaaa", "2-bbbbbbbbbbbb", "3-cccccccccccc", "4-not-a-process"):
        (place / name).mkdir()
    (place / "3-cccccccccccc" / "1.jsonl").write_bytes(log_of(turn(0, "a"), {"store": "facts:/facts/alice", "mark": 0}))

    MemoryManager([facts_in(vault)]).attach()
    assert [path.name for path in place.iterdir()] == ["4-not-a-process"]


def test_a_line_after_a_truncated_one_is_read(vault: Vault) -> None:
    (state_dir(vault) / "1-a.jsonl").write_bytes(log_of(turn(0, "a"), turn(1, "b")) + b'{"store": "facts:/fa')
    (orphan,) = adopt_orphans(vault.root, {"facts:/facts/alice"})
    orphan.log.append({"store": "facts:/facts/alice", "mark": 0})
    crash()

    (orphan,) = adopt_orphans(vault.root, {"facts:/facts/alice"})
    assert [number for number, _ in orphan.unsaved_turns("facts:/facts/alice")] == [1]


def test_messages_of_any_kind_survive_the_log(vault: Vault) -> None:
    class Whole(Turns):
        async def add_messages(self, messages: Sequence[Any], context: AddMessagesContext | None = None) -> None:
            received.extend(messages)

    received: list[Any] = []
    loop: list[Any] = []
    loop.append(loop)
    picture = {"role": "user", "content": [{"image": {"source": {"bytes": b"\x00\xff"}}}, {"text": "half \ud800"}]}
    trap = {"role": "user", "content": [{"toolUse": {"input": {"memfs:bytes": "no base64!"}}}, {"text": "t"}]}
    cycle, odd = {"role": "user", "content": [{"text": "x", "y": loop}]}, {"role": "user", "content": "z", (): 1}
    manager = managed([with_place(Whole(extraction=NEVER)), VaultStore(vault)])
    chat = manager.attach()
    for message in (picture, trap, cycle, odd):
        chat.record(message)  # type: ignore[arg-type]
    crash()

    with managed([with_place(Whole(extraction=NEVER)), VaultStore(vault)]) as successor:
        successor.attach()
    assert received == [picture, {"role": "user", "content": [{"text": "t"}]}]
    assert manager.pending == 4


def test_a_full_disk_blocks_no_agent_and_damages_no_line(mount_tmpfs: Callable[[str], Path]) -> None:
    disk = mount_tmpfs("size=1m")
    with Vault.init(disk / "vault") as vault:
        store = with_place(Turns(extraction=NEVER))
        manager = managed([store, VaultStore(vault)])
        chat = manager.attach()
        say(chat, "before")
        fact = {"fact": "k", "content": "tea", "stores": ["vault:/"], "metadata": None}
        (state_dir(vault) / "1-a.jsonl").write_bytes(log_of(fact, stores=["vault:/"]))
        with pytest.raises(OSError, match="No space"):
            (disk / "ballast").write_bytes(b"x" * (1 << 20))
        managed([store, VaultStore(vault)]).attach()
        say(chat, *("while it is full " + "x" * 3000 for _ in range(5)))
        with pytest.raises(OSError, match="No space"):
            wait(manager.accept(["y" * 9000], ["vault"]))
        (disk / "ballast").unlink()
        say(chat, "after")
        crash()

        again = with_place(Turns(extraction=NEVER))
        with managed([again, VaultStore(vault)]) as successor:
            successor.attach()
        assert {"before", "after"} <= set(again.texts)
        assert bodies(vault) == ["tea"]
        wait(manager.flush())
        assert len(store.texts) == 7


def test_a_read_only_vault_blocks_no_agent(mount_tmpfs: Callable[[str], Path]) -> None:
    disk = mount_tmpfs("size=4m")
    Vault.init(disk / "vault")
    (disk / "vault" / ".memfs" / "pending").mkdir(parents=True, exist_ok=True)
    lines = log_of({"fact": "k", "content": "x", "stores": ["turns"], "metadata": None}, stores=["turns"])
    (disk / "vault" / ".memfs" / "pending" / "1-a.jsonl").write_bytes(lines)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    store = with_place(Turns())
    manager = managed([store, VaultStore(disk / "vault")])
    chat = manager.attach()

    say(chat, "a")
    wait(manager.close())
    assert store.texts == ["a"]


@pytest.mark.parametrize("deleted", ["", "pending", "pending/{name}"])
def test_a_deleted_state_directory_is_created_again(vault: Vault, deleted: str) -> None:
    manager = MemoryManager([facts_in(vault)])
    chats = [manager.attach() for _ in range(2)]
    for chat in chats:
        say(chat, "a")

    (mine,) = state_dir(vault).iterdir()
    shutil.rmtree(vault.root / ".memfs" / deleted.format(name=mine.name))
    for number, chat in enumerate(chats):
        say(chat, f"b{number}")
    assert len(list(state_dir(vault).glob("*/*.jsonl"))) == 2
    assert len(open_logs()) == 1
    wait(manager.close())
    assert bodies(vault) == ["a", "b0", "b1"]


def test_a_log_that_cannot_be_reopened_touches_no_other_file(vault: Vault, tmp_path: Path) -> None:
    log = PendingLog(vault.root, ["s"])
    log.append({"turn": 0})
    shutil.rmtree(vault.root / ".memfs")
    (vault.root / ".memfs").write_text("in the way")

    with pytest.raises(Exception, match="not a directory"):
        log.append({"turn": 1})
    other = (tmp_path / "other").open("w+")  # it has the descriptor now
    other.write("precious")
    other.flush()
    log.clear()
    log.close()
    other.seek(0)
    assert other.read() == "precious"
    other.close()


# --- failed batches


def test_a_batch_that_no_model_could_read_is_kept_and_retried(vault: Vault) -> None:
    store = VaultStore(vault, "/facts", extraction=NEVER)
    words = "I drink tea \ud800"
    with MemoryManager([store], model=ScriptedModel(["prose", "more prose"])) as manager:
        say(manager.attach(), words)

    (failure,) = list_failed(vault.root)
    assert (failure.store, [text_of(message) for message in failure.messages]) == ("facts:/facts", [words])
    retry(vault.root, failure)
    assert list_failed(vault.root) == []
    with MemoryManager([store], model=ScriptedModel([[{"content": "Alice drinks tea."}]])) as manager:
        manager.attach()
    assert bodies(vault) == ["Alice drinks tea."]


def test_other_files_hide_no_failed_batch(vault: Vault, tmp_path: Path) -> None:
    place = state_dir(vault, "failed")
    (place / "1.json").write_bytes(b"[" * 100_000)
    (place / "2.json").write_bytes(b"\xff")
    (place / "3.json").write_text('{"store": "s", "reason": "r", "time": 1, "messages": 5}')
    (place / "4.json").mkdir()
    os.mkfifo(place / "5.json")
    (place / "6.json").symlink_to(tmp_path)
    (place / "7.json").write_text("[]")
    name = keep_failed(vault.root, "s", "r", [user("x" * 10_000_000)])

    (failure,) = list_failed(vault.root)
    assert failure.name == name
    drop(vault.root, failure)
    drop(vault.root, failure)
    assert list_failed(vault.root) == []


# --- edited messages


def session_message(text: str, number: int, agent: str = "main") -> dict[str, Any]:
    return {"role": "user", "content": text, "session": "s-1", "agent": agent, "number": number}


def test_a_removed_message_is_not_extracted_and_not_on_disk(vault: Vault) -> None:
    with MemoryManager([facts_in(vault)]) as manager:
        one, two = manager.attach(), manager.attach()
        for number, text in enumerate(("first", "secret", "third")):
            one.record(session_message(text, number))
        two.record(session_message("of another agent", 1, "aside"))
        edit_pending(vault.root, MessageEdit("s-1", "main", 1))

        assert all(b"secret" not in path.read_bytes() for path in state_dir(vault).rglob("*.jsonl"))
        assert manager.pending == 3
    assert bodies(vault) == ["first", "of another agent", "third"]


def test_a_replaced_message_keeps_its_position_and_its_marks(vault: Vault) -> None:
    first = MemoryManager([facts_in(vault), facts_in(vault, "bob", name="bobs")])
    chat = first.attach()
    chat.record(session_message("kept", 0))
    chat.record(session_message("secret", 1))
    edit_pending(vault.root, MessageEdit("s-1", "main", 1, session_message("public", 1)))
    crash()

    with MemoryManager([facts_in(vault), facts_in(vault, "bob", name="bobs")]) as manager:
        manager.attach()
    assert bodies(vault, "/facts/alice") == bodies(vault, "/facts/bob") == ["kept", "public"]


def test_a_log_without_messages_is_deleted(vault: Vault) -> None:
    for is_held in (True, False):
        manager = MemoryManager([facts_in(vault)])
        manager.attach().record(session_message("secret", 0))
        if not is_held:
            crash()
        edit_pending(vault.root, MessageEdit("s-1", "main", 0))

        assert not list(state_dir(vault).rglob("*.jsonl"))
        assert not adopt_orphans(vault.root, {facts_in(vault).place})


def test_a_message_is_removed_from_failed_batches_too(vault: Vault) -> None:
    keep_failed(vault.root, "facts:/facts", "prose", [session_message("secret", 0), session_message("kept", 1)])
    keep_failed(vault.root, "facts:/facts", "prose", [session_message("secret", 0)])
    keep_failed(vault.root, "facts:/facts", "prose", [session_message("other", 2)])

    edit_pending(vault.root, MessageEdit("s-1", "main", 0))
    assert sorted(text_of(one) for failure in list_failed(vault.root) for one in failure.messages) == ["kept", "other"]


def test_removing_a_message_also_removes_a_truncated_line(vault: Vault) -> None:
    manager = MemoryManager([facts_in(vault)])
    chat = manager.attach()
    chat.record(session_message("secret", 0))
    (path,) = state_dir(vault).rglob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'\n{"turn": 1, "message": {"role": "user", "content": "secr')
    chat.record(session_message("kept", 1))

    edit_pending(vault.root, MessageEdit("s-1", "main", 0))
    assert b"secr" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    wait(manager.close())
    assert bodies(vault) == ["kept"]


def test_a_message_removed_during_extraction_is_not_kept_anywhere(vault: Vault) -> None:
    seen: list[str] = []

    class Slow:
        async def extract(self, messages: Sequence[Any], context: Any = None) -> Sequence[Any]:
            seen.append(" ".join(map(text_of, context.previous)))
            if len(seen) < 3:
                edit_pending(vault.root, MessageEdit("s-1", "main", len(seen) - 1))
            if len(seen) == 2:
                raise ExtractionError("prose", "")
            return []

    with MemoryManager([facts_in(vault, extraction={"extractor": Slow()})]) as manager:
        chat = manager.attach()
        for number in range(3):
            chat.record(session_message(f"secret {number}", number))
            wait(chat.flush())

    assert seen == ["", "", ""]
    assert list_failed(vault.root) == []


# --- adoption per store


def test_each_store_of_a_killed_process_gets_its_turns_from_the_next_agent_with_it(vault: Vault) -> None:
    shared, first = facts_in(vault), facts_in(vault, "s-1", name="summary")
    say(MemoryManager([shared, first]).attach(), "a", "b")
    crash()

    with MemoryManager([facts_in(vault, "bob")]) as manager:
        manager.attach()
    assert bodies(vault) == []
    with MemoryManager([facts_in(vault), facts_in(vault, "s-2", name="summary")]) as manager:
        manager.attach()
    assert bodies(vault, "/facts/alice") == ["a", "b"]
    assert bodies(vault, "/facts/s-2") == bodies(vault, "/facts/s-1") == []
    with MemoryManager([facts_in(vault), facts_in(vault, "s-1", name="summary")]) as manager:
        assert manager.attach().coordinator is not None
        assert manager.pending == 2
    assert bodies(vault, "/facts/s-1") == ["a", "b"]
    assert len(bodies(vault)) == 4
    assert not adopt_orphans(vault.root, {shared.place, first.place})


def test_marks_and_accepted_facts_go_to_their_own_store(vault: Vault) -> None:
    one, two = "facts:/facts/alice", "summary:/facts/s-1"
    log = PendingLog(vault.root, [one, two])
    log.append(*({"turn": number, "message": session_message(f"turn {number}", number)} for number in range(3)))
    log.append({"store": two, "mark": 0}, {"store": one, "mark": 1})
    log.append({"fact": "f", "content": "both", "stores": [one, two], "metadata": None})
    log.append({"fact": "g", "content": "second", "stores": [two], "metadata": None})
    log.close()

    (orphan,) = adopt_orphans(vault.root, {one, "other:/x"})
    assert orphan.stores == {one}
    assert ([number for number, _ in orphan.unsaved_turns(one)], orphan.unsaved_turns(two)) == ([2], [])
    assert {fact.content: fact.stores for fact in orphan.facts.values()} == {"both": [one]}
    orphan.log.close()
    (orphan,) = adopt_orphans(vault.root, {two})
    assert ([number for number, _ in orphan.unsaved_turns(two)], orphan.unsaved_turns(one)) == ([1, 2], [])
    assert {fact.content: fact.stores for fact in orphan.facts.values()} == {"both": [two], "second": [two]}
    orphan.log.close()
    assert sorted(sorted(orphan.stores) for orphan in adopt_orphans(vault.root, {one, two})) == [[one], [two]]


def test_a_store_that_has_all_turns_leaves_the_log_to_the_other(vault: Vault) -> None:
    one, two = "facts:/facts/alice", "summary:/facts/s-1"
    log = PendingLog(vault.root, [one, two])
    log.append({"turn": 0, "message": session_message("a", 0)}, {"store": one, "mark": 0})
    log.close()

    assert adopt_orphans(vault.root, {one}) == []
    (orphan,) = adopt_orphans(vault.root, {two})
    assert [text_of(message) for _, message in orphan.unsaved_turns(two)] == ["a"]
    orphan.log.clear()
    assert not list(state_dir(vault).rglob("*.jsonl"))
