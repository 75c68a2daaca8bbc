"""Every process and thread counts recalls, and nothing that git tracks changes by that."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands import REPOSITORY, Git, Script

from memfs import MemoryManager, Vault
from memfs.agent.distill.config import RetrievalConfig
from memfs.agent.distill.retrieval import Retriever
from memfs.data_types import Change
from memfs.integrations.agentcore.records_api import RecordsApi
from memfs.storage.recall_log import COMPACT_BYTES, NEVER_RECALLED, Ratio, RecallLog, Recalls, Tally
from memfs.stores import VaultStore

MOMENT = datetime(2026, 11, 17, 12, tzinfo=UTC)
SECONDS = MOMENT.timestamp()


def log_of(root: Path) -> Path:
    return root / ".memfs" / "usage" / "recalls"


@pytest.fixture
def usage(tmp_path: Path) -> RecallLog:
    return RecallLog(tmp_path, lambda: MOMENT)


# --- counting


def test_recalls_are_counted_with_the_time_of_the_last_one(tmp_path: Path) -> None:
    times = iter([MOMENT, MOMENT.replace(hour=13), MOMENT.replace(hour=11)])
    usage = RecallLog(tmp_path, lambda: next(times))
    for ids in (["m-1", "m-2"], ["m-1"], ["m-1"]):
        usage.recalled(ids)

    assert usage.of("m-1") == Recalls(3, SECONDS + 3600)
    assert usage.of("m-2") == Recalls(1, SECONDS)
    assert usage.of("m-3") == NEVER_RECALLED == (0, 0.0)
    assert usage.ratio() == Ratio(0, 0, 0.0)
    assert usage.ratio().share is None


def test_a_search_counts_its_hits_and_whether_there_were_any(usage: RecallLog) -> None:
    for ids in (["m-1", "m-2"], [], ["m-1"], []):
        usage.searched(ids)

    assert usage.ratio() == (4, 2, SECONDS)
    assert usage.ratio().share == 0.5
    assert dict(usage.snapshot()) == {"m-1": (2, SECONDS), "m-2": (1, SECONDS)}


@pytest.mark.parametrize(
    "name", ["notes/Zürich trip", "a\tb", "a\nb", "100% sure", "東京", "\u2028", "x/" * 500, "a b", "%41", "."]
)
def test_any_id_and_path_is_counted_as_it_is(usage: RecallLog, name: str) -> None:
    usage.recalled([name, "m-1"])

    assert dict(usage.snapshot()) == {name: (1, SECONDS), "m-1": (1, SECONDS)}


def test_another_recall_log_of_the_vault_sees_the_counts_and_continues_them(tmp_path: Path, usage: RecallLog) -> None:
    other = RecallLog(tmp_path, lambda: MOMENT)
    usage.searched(["m-1"])
    assert other.of("m-1").times == 1
    usage.searched(["m-1"])
    other.searched(["m-1"])

    assert usage.of("m-1") == other.of("m-1") == (3, SECONDS)


def test_the_snapshot_of_an_unchanged_log_is_the_same_object(usage: RecallLog) -> None:
    usage.recalled(["m-1"])
    first = usage.snapshot()
    assert usage.snapshot() is first

    usage.recalled(["m-2"])

    assert usage.snapshot()["m-2"].times == 1


def test_threads_lose_no_count(usage: RecallLog) -> None:
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(usage.searched, [f"m-{n % 10}", "m-all"]) for n in range(2000)]:
            done.result()

    assert usage.of("m-all").times == usage.ratio().searches == 2000
    assert [usage.of(f"m-{n}").times for n in range(10)] == [200] * 10


WORKER = """
from memfs.storage.recall_log import RecallLog
usage = RecallLog(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(3000):
    usage.searched([f"m-own-{sys.argv[2]}", f"m-shared-{number % 7:0100}"] if number % 3 else [])
"""


def test_four_concurrent_processes_lose_no_count_while_the_log_is_compacted(tmp_path: Path) -> None:
    """Each line is over 100 bytes, so that the log is compacted a dozen times meanwhile."""
    inodes = set()
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", f"import sys\n{WORKER}", tmp_path, str(number)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for worker in workers:
        assert worker.stdout
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin
        worker.stdin.write("go\n")
        worker.stdin.flush()
    usage = RecallLog(tmp_path)
    while any(worker.poll() is None for worker in workers):
        usage.snapshot()
        with suppress(FileNotFoundError):
            inodes.add(log_of(tmp_path).stat().st_ino)
    for worker in workers:
        assert (worker.communicate(timeout=60)[0], worker.returncode) == ("", 0)

    assert [usage.of(f"m-own-{number}").times for number in range(4)] == [2000] * 4
    assert sum(recalls.times for recalls in usage.snapshot().values()) == 4 * 2 * 2000
    assert usage.ratio()[:2] == RecallLog(tmp_path).ratio()[:2] == (12_000, 8_000)
    assert len(inodes) > 1
    assert log_of(tmp_path).stat().st_size < 3 * COMPACT_BYTES


# --- small, and bounded


def test_the_log_stays_small_and_loses_no_count(tmp_path: Path, usage: RecallLog) -> None:
    largest = 0
    for number in range(6000):
        usage.searched([f"m-{number % 50:026}", "m-1"] if number % 2 else [])
        largest = max(largest, log_of(tmp_path).stat().st_size)

    assert largest < COMPACT_BYTES + 1000
    assert usage.of("m-1").times == 3000
    assert RecallLog(tmp_path).snapshot() == usage.snapshot()
    assert RecallLog(tmp_path).ratio() == (6000, 3000, SECONDS)
    assert sorted(os.listdir(log_of(tmp_path).parent)) == ["recalls"]


def test_compaction_keeps_the_counters_of_the_memories_recalled_last() -> None:
    tally = Tally()
    tally.add_lines(b"".join(b"r\t%d\tm-%0100d\t.\n" % (number, number) for number in range(80_000)))
    kept = Tally()
    kept.add_lines(b"".join(tally.lines()))

    assert 60_000 < len(kept.counts) < 80_000
    assert f"m-{79_999:0100}" in kept.counts
    assert f"m-{0:0100}" not in kept.counts


def test_an_oversized_log_is_replaced(tmp_path: Path, usage: RecallLog) -> None:
    usage.recalled(["m-1"])
    os.truncate(log_of(tmp_path), 1 << 30)

    assert usage.of("m-1").times <= 1
    usage.recalled(["m-2"])
    usage.recalled(["m-3"])
    assert usage.of("m-3").times == 1
    assert log_of(tmp_path).stat().st_size < 1000


# --- damage


@pytest.mark.parametrize(
    "foreign",
    [
        b"nonsense", b"r\t17\tm-9", b"s\t", b"r\t-1\tm-9\t.", b"c\tm-9\tmany\t1\t.", b"c\tm-9\t1\t.", b"t\t1\t.",
        b"\0" * 4000, b"\xff\xfe\t.\xff", b"r\t" + b"9" * 40 + b"\tm-9\t.", b"\n\n\n", b"r\t1\t\xff\t.",
        b"x\t1\tm-9\t.",
    ],
)  # fmt: skip
def test_a_torn_or_foreign_line_costs_only_itself(tmp_path: Path, usage: RecallLog, foreign: bytes) -> None:
    usage.searched(["m-1"])
    with log_of(tmp_path).open("ab") as log:
        log.write(foreign)
    usage.searched(["m-1", "m-2"])

    for handle in (usage, RecallLog(tmp_path)):
        assert dict(handle.snapshot()) == {"m-1": (2, SECONDS), "m-2": (1, SECONDS)}
        assert handle.ratio() == (2, 2, SECONDS)


@given(st.binary(max_size=300))
def test_a_log_with_any_content_can_be_read(data: bytes) -> None:
    tally = Tally()
    tally.add_lines(data)
    tally.add_lines(b"\nr\t5\tm-0\t.\n")

    assert tally.counts["m-0"].times >= 1
    again = Tally()
    again.add_lines(b"".join(tally.lines()))
    assert (again.counts, again.searches, again.found) == (tally.counts, tally.searches, tally.found)


def test_a_line_is_read_once_it_is_complete(tmp_path: Path, usage: RecallLog) -> None:
    usage.recalled(["m-1"])
    with log_of(tmp_path).open("ab", buffering=0) as log:
        log.write(b"\nr\t5\tm-")
        assert usage.of("m-2") == NEVER_RECALLED
        log.write(b"2\t.\n")

    assert usage.of("m-2") == (1, 5)


def test_counters_start_at_zero_after_the_log_is_deleted(tmp_path: Path, usage: RecallLog) -> None:
    usage.searched(["m-1"])
    assert usage.of("m-1").times == 1
    log_of(tmp_path).unlink()
    assert usage.of("m-1") == NEVER_RECALLED
    assert usage.ratio() == (0, 0, 0.0)

    usage.searched(["m-2"])

    assert dict(usage.snapshot()) == {"m-2": (1, SECONDS)}
    subprocess.run(["rm", "-rf", tmp_path / ".memfs"], check=True)
    usage.searched(["m-3"])
    assert dict(usage.snapshot()) == {"m-3": (1, SECONDS)}


def test_recalls_are_counted_in_the_vault_that_is_now_at_the_path(tmp_path: Path) -> None:
    root, former = tmp_path / "vault", tmp_path / "former"
    usage = RecallLog(Vault.init(root).root)
    usage.recalled(["tea"])
    assert usage.of("tea").times == 1
    root.rename(former)
    RecallLog(Vault.init(root).root).recalled(["oolong"])

    usage.recalled(["oolong"])

    for now in (usage, RecallLog(root)):
        assert now.of("oolong").times == 2
        assert now.of("tea") == NEVER_RECALLED
    assert RecallLog(former).of("oolong") == NEVER_RECALLED


def make_folder(log: Path, _: Path) -> None:
    log.mkdir(parents=True)


def make_link(log: Path, outside: Path) -> None:
    log.parent.mkdir(parents=True)
    log.symlink_to(outside)


def make_linked_directory(log: Path, outside: Path) -> None:
    log.parent.parent.mkdir(parents=True)
    log.parent.symlink_to(outside.parent)


@pytest.mark.parametrize("make", [make_folder, make_link, make_linked_directory])
def test_an_entry_in_the_place_of_the_log_is_not_followed(tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    outside = tmp_path / "outside" / "recalls"
    outside.parent.mkdir()
    outside.write_bytes(b"r\t5\tm-9\t.\n")
    make(log_of(tmp_path / "vault"), outside)
    usage = RecallLog(tmp_path / "vault", lambda: MOMENT)
    usage.searched(["m-1"])

    assert usage.of("m-9") == NEVER_RECALLED
    assert outside.read_bytes() == b"r\t5\tm-9\t.\n"


def test_a_closed_log_still_returns_the_recalls_for_ranking(usage: RecallLog) -> None:
    usage.recalled(["m-1"])
    before = dict(usage.by_id_hash())
    usage.close()
    assert usage.by_id_hash() == before != {}


def test_a_closed_log_can_still_be_used(usage: RecallLog) -> None:
    usage.recalled(["m-1"])
    usage.close()
    usage.recalled(["m-1"])

    assert usage.of("m-1").times == 2


def test_on_a_full_disk_nothing_is_counted_and_no_error_raised(mount_tmpfs: Callable[[str], Path]) -> None:
    disk = mount_tmpfs("size=1m")
    usage = RecallLog(disk, lambda: MOMENT)
    usage.searched(["m-1"])
    with pytest.raises(OSError, match="No space"):
        (disk / "filler").write_bytes(bytes(2 << 20))
    for _ in range(200):
        usage.searched(["m-" + "2" * 100])
    (disk / "filler").unlink()
    usage.searched(["m-3"])

    assert usage.of("m-1").times == usage.of("m-3").times == 1


def test_a_read_only_vault_is_searched_and_not_counted(tmp_path: Path, mount_tmpfs: Callable[[str], Path]) -> None:
    disk = mount_tmpfs("size=8m")
    with Vault.init(disk) as vault:
        vault.add("Green tea at five.")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)

    assert len(search(VaultStore(disk), "green tea")) == 1
    assert Vault(disk).usage.ratio() == (0, 0, 0.0)


def test_recalls_of_a_user_without_write_permission_are_not_counted(public_path: Path, run_script: Script) -> None:
    with Vault.init(public_path / "vault") as vault:
        vault.add("Green tea at five.")
    code = """
from memfs.storage.recall_log import RecallLog
usage = RecallLog(sys.argv[1])
usage.searched(["m-1"])
print(usage.ratio().searches)
"""

    assert run_script(code, public_path / "vault", ordinary=True).stdout == "0\n"


def test_a_forked_process_counts_on_its_own(usage: RecallLog) -> None:
    usage.recalled(["m-1"])
    child = os.fork()
    if not child:
        usage.recalled(["m-1"])
        os._exit(0 if usage.of("m-1").times == 2 else 1)

    assert os.waitpid(child, 0)[1] == 0
    assert usage.of("m-1").times == 2


# --- recalls by agents


def search(store: VaultStore, question: str) -> list[Any]:
    return asyncio.run(store.search(question))


def test_a_search_of_an_agent_is_counted(vault: Vault) -> None:
    tea = vault.add("Alice drinks green tea at five.", "/facts/alice")
    (vault.root / "facts" / "alice" / "coffee.md").write_text("Alice never drinks coffee.\n")
    store = VaultStore(vault, "/facts/alice")
    search(store, "green tea")
    search(store, "what does Alice drink?")
    search(store, "submarines")

    assert vault.usage.of(tea.id).times == 2
    assert vault.usage.of("facts/alice/coffee").times == 1
    assert vault.usage.ratio()[:2] == (3, 2)
    assert Vault(vault.root).usage.ratio()[:2] == (3, 2)


def test_calls_that_give_an_agent_no_memories_are_not_counted(vault: Vault) -> None:
    tea = vault.add("Alice drinks green tea at five.", pinned=True)
    store = VaultStore(vault)

    async def look() -> None:
        await store.initialize()
        await store.similar("green tea")
        await store.list()
        await store.pinned()
        await store.get(tea.id)
        await store.search("  ")
        await store.is_forgotten("green tea")

    asyncio.run(look())
    vault.search("green tea")
    vault.read(tea.id)
    subprocess.run([sys.executable, "-m", "memfs", "search", "tea", "--vault", vault.root], check=True, cwd=REPOSITORY)

    assert vault.usage.of(tea.id) == NEVER_RECALLED
    assert vault.usage.ratio() == (0, 0, 0.0)


def test_memories_injected_by_a_manager_are_counted(vault: Vault) -> None:
    tea = vault.add("Alice drinks green tea at five.")
    manager = MemoryManager([VaultStore(vault)])
    messages = [{"role": "user", "content": [{"text": "When does Alice drink green tea?"}]}]
    injected = asyncio.run(manager.attach().inject(messages))

    assert "green tea at five" in str(injected)
    assert vault.usage.of(tea.id).times == 1


def test_memories_retrieved_by_a_session_are_counted_once_per_turn(vault: Vault) -> None:
    tea = vault.add("Alice drinks green tea at five.", "/facts/alice")
    retriever = Retriever(vault, [("/facts/alice", RetrievalConfig())])
    messages = [{"role": "user", "content": [{"text": "When does Alice drink green tea?"}]}]
    for _ in range(3):
        assert "green tea at five" in str(asyncio.run(retriever.inject(messages)))

    assert vault.usage.of(tea.id).times == vault.usage.ratio().searches == 1


def test_memories_retrieved_by_a_client_of_agentcore_are_counted(vault: Vault) -> None:
    tea = vault.add("Alice drinks green tea at five.", "/facts/alice")
    records = RecordsApi(vault, dict)
    criteria = {"searchQuery": "green tea"}
    records.retrieve_memory_records(memoryId="m", namespace="/facts/alice", searchCriteria=criteria)
    records.list_memory_records(memoryId="m", namespace="/facts/alice")

    assert vault.usage.of(tea.id).times == 1
    assert vault.usage.ratio()[:2] == (1, 1)


def test_git_status_stays_empty_whatever_agents_search(example: Path, git: Git) -> None:
    (example / ".gitignore").unlink()  # the state directory has its own .gitignore
    git(example, "init", "-q")
    git(example, "add", "-A")
    git(example, "commit", "-qm", "all")
    head = git(example, "rev-parse", "HEAD^{tree}")
    with Vault(example) as vault:
        store = VaultStore(vault)
        for question in ("what is Bob allergic to", "sushi", "when is Atlas due", "ukulele"):
            search(store, question)
        assert vault.usage.ratio().searches == 4
        assert vault.usage.of("m-01km2karngprvvfk7wmb3nvxvz").times >= 1

    assert log_of(example).is_file()
    assert git(example, "status", "--porcelain", "--untracked-files=all") == ""
    git(example, "add", "-A")
    assert git(example, "write-tree") == head


def test_counting_does_not_make_a_search_stale(vault: Vault) -> None:
    """Watchers and event sources ignore the state directory."""
    vault.add("Green tea at five.")
    changes: list[str] = []
    has_change = threading.Event()

    def record(change: Change) -> None:
        changes.append(change.path)
        has_change.set()

    with Vault(vault.root, watch=True) as watched:
        watched.subscribe(record)
        for _ in range(20):
            search(VaultStore(watched), "tea")
        (vault.root / "coffee.md").write_text("Coffee at ten.\n")
        assert has_change.wait(10)

    assert changes == ["coffee.md"]
