"""SqliteStore fulfils the contract of a keyed store, in a file that many processes share."""

import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.people import CODING, facts

from memfs.errors import (
    InvalidSetupError,
    MissingExtraError,
    NewerSchemaError,
    StoreDamagedError,
    StoreLockedError,
    StoreUnavailableError,
)
from memfs.stores.keyed import InMemoryKeyedStore, KeyedStore, SqliteStore
from memfs.stores.keyed.sqlite import APPLICATION_ID
from memfs.stores.keyed.sqlite_schema import MIGRATIONS, VERSION
from memfs.testing import StoreContract

ADD_SCRIPT = """
import sys
from memfs.stores.keyed import SqliteStore
with SqliteStore(sys.argv[1]) as store:
    for turn in range(int(sys.argv[3])):
        store.add(f"p{sys.argv[2]}/{turn}", f"process{sys.argv[2]} says turn{turn}")
        store.add("shared", f"last by {sys.argv[2]}")
        print(f"p{sys.argv[2]}/{turn}", flush=True)
"""
OPEN_AND_CLOSE_SCRIPT = """
import sys
from memfs.stores.keyed import SqliteStore
for turn in range(40):
    with SqliteStore(sys.argv[1]) as store:
        store.add(f"p{sys.argv[2]}/{turn}", "Text. " * 2000)
"""


class TestSqliteStore(StoreContract):
    by_score = revises_at_once = True

    def make_store(self, place: Any) -> KeyedStore[str]:
        return SqliteStore(place / "memories.db")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memories.db"


def write_version(file: Path, version: int) -> None:
    """Write a file as the given schema version of memfs left it."""
    with sqlite3.connect(file) as database:
        for step in MIGRATIONS[:version]:
            for statement in step.statements:
                database.execute(statement)
        database.execute(f"PRAGMA user_version = {version}")
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    database.close()


def test_a_file_of_version_1_is_migrated_with_all_its_values(file: Path) -> None:
    write_version(file, 1)
    with sqlite3.connect(file) as database:
        rows = [(f"n/{number}", text, '{"old": true}') for number, (_, text) in enumerate(facts(1200))]
        database.executemany("INSERT INTO entries (key, value, meta) VALUES (?, ?, ?)", rows)
    database.close()

    with SqliteStore(file) as store:
        assert (store.get("n/7"), store.meta("n/7")) == (rows[7][1], {"old": True})
        assert store.search("Card 1134", top_k=1)[0][0] == "n/1134"
        assert store.forget("n/1134") is True
        store.add("n/7", "Something new about zebras.")
        assert store.search("zebras")[0][0] == "n/7"
        assert store.search(rows[7][1], top_k=1)[0][0] != "n/7"
        assert len(store.keys(limit=1000)) == 1000
        new = InMemoryKeyedStore()
        for key, value, _ in [*rows[:7], ("n/7", "Something new about zebras.", ""), *rows[8:1134], *rows[1135:]]:
            new.add(key, value)
        assert store.search("Who likes risotto?", top_k=3) == new.search("Who likes risotto?", top_k=3)


def test_a_file_is_migrated_once_and_a_migration_that_fails_changes_nothing(file: Path) -> None:
    write_version(file, 1)
    with sqlite3.connect(file) as database:
        database.execute("INSERT INTO entries (key, value) VALUES ('x', 'One.')")
        database.execute("CREATE TABLE totals (other)")  # makes the second migration fail
    database.close()

    with pytest.raises(StoreDamagedError, match="totals"):
        SqliteStore(file)
    with sqlite3.connect(file) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
        assert database.execute("SELECT count(*) FROM pragma_table_info('entries')").fetchone() == (4,)
        database.execute("DROP TABLE totals")
    database.close()
    SqliteStore(file).close()
    SqliteStore(file).close()
    assert SqliteStore(file).search("one")[0][0] == "x"


def test_a_file_of_a_later_version_is_left_alone(file: Path) -> None:
    with SqliteStore(file) as store:
        store.add("x", "One.")
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    before = file.read_bytes()

    with pytest.raises(NewerSchemaError, match=rf"memories\.db: has schema version 99.* up to {VERSION}") as caught:
        SqliteStore(file)
    assert "upgrade" in caught.value.hint
    assert file.read_bytes() == before


def test_the_database_of_another_program_is_left_alone(file: Path) -> None:
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE songs (title)")
    database.close()
    before = file.read_bytes()

    with pytest.raises(InvalidSetupError, match="a database of another program"):
        SqliteStore(file)
    assert file.read_bytes() == before
    assert [*file.parent.iterdir()] == [file]


@pytest.mark.parametrize("damage", ["garbage", "zeros", "half"])
def test_a_damaged_file_is_a_clear_error_and_left_alone(file: Path, damage: str) -> None:
    with SqliteStore(file) as store:
        for number, (_, text) in enumerate(facts(300)):
            store.add(f"n/{number}", text)
    good = file.read_bytes()
    bad = {
        "garbage": b"not a database, " * 1000,
        "zeros": good[:4096] + bytes(len(good) - 4096),
        "half": good[: len(good) // 2 // 4096 * 4096],
    }[damage]
    file.write_bytes(bad)

    def use() -> None:
        with SqliteStore(file) as store:
            for number in range(300):
                store.get(f"n/{number}")
                store.search("risotto pierogi card", top_k=300)

    with pytest.raises(StoreDamagedError, match=r"memories\.db: ") as caught:
        use()
    assert "copy" in caught.value.hint
    assert file.read_bytes() == bad


def test_concurrent_processes_lose_no_write(file: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", ADD_SCRIPT, file, str(n), "100"], stdout=-3) for n in range(4)]
    assert [process.wait(timeout=300) for process in running] == [0] * 4

    with SqliteStore(file) as store:
        assert len(store.keys()) == 401
        assert all(store.get(f"p{n}/{turn}") == f"process{n} says turn{turn}" for n in range(4) for turn in range(100))
        assert [key for key, _, _ in store.search("turn42 process2", top_k=1)] == ["p2/42"]
        assert len(store.search("turn42", top_k=10)) == 4


def test_acknowledged_writes_survive_a_kill(file: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ADD_SCRIPT, file, "0", "100000"], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout
        acknowledged = [run.stdout.readline().strip() for _ in range(30)]
        run.kill()
        acknowledged += [line.strip() for line in run.stdout.readlines() if line.endswith("\n")]

    with SqliteStore(file) as store:
        there = set(store.keys(limit=1000))
        assert set(acknowledged[:900]) <= there
        assert store.search(f"turn{len(acknowledged) - 1}", top_k=1)[0][0] == acknowledged[-1]
        store.add("more", "Goes on.")


def test_a_store_works_on_both_sides_of_a_fork(file: Path) -> None:
    code = """
import os, sys
from memfs.stores.keyed import SqliteStore
store = SqliteStore(sys.argv[1])
store.add("before", "One.")
child = os.fork()
for turn in range(50):
    store.add(f"{'child' if not child else 'parent'}/{turn}", "Two.")
if not child:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(len(store.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, file], capture_output=True, text=True, timeout=120
    )

    assert (done.stdout.strip(), done.stderr) == ("101", "")


def test_a_locked_file_is_waited_for_and_then_named_in_the_error(file: Path) -> None:
    with SqliteStore(file, timeout=0.2) as store:
        store.add("x", "One.")
        other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreLockedError, match=r"memories\.db: database is locked"):
            store.add("x", "Two.")
        assert store.get("x") == "One."
        assert store.search("one")[0][0] == "x"
        patient = SqliteStore(file, timeout=60)
        done = threading.Thread(target=patient.add, args=("x", "Three."))
        done.start()
        other.execute("ROLLBACK")
        other.close()
        done.join(60)
        assert store.get("x") == "Three."
        patient.close()


def test_a_full_disk_is_a_clear_error_and_nothing_is_lost(mount_tmpfs: Any) -> None:
    file = mount_tmpfs("size=3m") / "memories.db"
    kept: list[str] = []
    with SqliteStore(file) as store:

        def fill() -> None:
            for number in range(1000):
                store.add(f"n/{number}", f"word{number} " * 2000)
                kept.append(f"n/{number}")

        with pytest.raises(StoreUnavailableError, match=r"full|I/O"):
            fill()
        assert kept
        assert set(store.keys()) == set(kept)
        assert store.get(kept[-1])
    with SqliteStore(file) as store:
        assert set(store.keys()) == set(kept)


def test_a_missing_directory_and_a_read_only_disk_are_named_in_the_error(file: Path, mount_tmpfs: Any) -> None:
    with pytest.raises(StoreUnavailableError, match="unable to open database file"):
        SqliteStore(file.parent / "nowhere" / "x.db")
    disk = mount_tmpfs("size=3m")
    SqliteStore(disk / "x.db").close()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)

    with pytest.raises(StoreUnavailableError, match=r"x\.db: cannot be written: .* read-only") as refused:
        SqliteStore(disk / "x.db").add("x", "One.")
    assert "permissions" in refused.value.hint
    with pytest.raises(StoreUnavailableError, match=r"y\.db: unable to open"):
        SqliteStore(disk / "y.db")


@pytest.fixture
def mounts(tmp_path: Path, mount_tmpfs: Any) -> Iterator[tuple[Path, Path]]:
    """Yield the path of a file on a writable mount, and the path of the same file on a read-only mount."""
    disk, view = mount_tmpfs("size=8m"), tmp_path / "view"
    view.mkdir()
    subprocess.run(["mount", "--bind", disk, view], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", view], check=True)
    yield disk / "a ?#%.db", view / "a ?#%.db"
    subprocess.run(["umount", "-l", view], check=True)


def test_a_read_only_file_is_read(mounts: tuple[Path, Path]) -> None:
    writable, read_only = mounts
    with SqliteStore(writable) as store:
        for number in range(20):
            store.add(f"n/{number}", f"Text number{number}.", {"at": number})
    assert [file.name for file in writable.parent.iterdir()] == [writable.name]

    with SqliteStore(read_only) as reader:
        assert reader.get("n/3") == "Text number3."
        assert reader.meta("n/3") == {"at": 3}
        assert [key for key, _, _ in reader.search("number7")] == ["n/7"]
        assert len(reader.items("n")) == 20
        for write in (lambda: reader.add("x", "One."), lambda: reader.forget("n/3")):
            with pytest.raises(StoreUnavailableError, match="cannot be written: the file or its directory is read-on"):
                write()
    assert [file.name for file in writable.parent.iterdir()] == [writable.name]


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_reader_without_write_permission_sees_the_writes_of_others(
    mounts: tuple[Path, Path], is_closed: bool
) -> None:
    writable, read_only = mounts
    store = SqliteStore(writable)
    store.add("n", "Text 0.")
    store.close()
    reader = SqliteStore(read_only)
    for number in range(1, 30):
        store.add("n", f"Text {number}.")
        if is_closed:  # closing removes the side files, so a reader cannot see that there was a writer
            store.close()
        assert reader.get("n") == f"Text {number}."
        if is_closed:
            reader.close()
    store.close()
    reader.close()


def test_a_read_only_reader_sees_consistent_states_while_writers_open_and_close(mounts: tuple[Path, Path]) -> None:
    writable, read_only = mounts
    with SqliteStore(writable) as store:
        store.add("n/0", "Text.")
    writers = [
        subprocess.Popen([sys.executable, "-c", OPEN_AND_CLOSE_SCRIPT, writable, str(number)]) for number in range(2)
    ]
    reads = 0
    try:
        while any(writer.poll() is None for writer in writers):
            with SqliteStore(read_only) as reader:
                found = dict(reader.items())
            assert all(text in ("Text.", "Text. " * 2000) for text in found.values())
            reads += 1
    finally:
        codes = [writer.wait(60) for writer in writers]

    assert codes == [0, 0]
    assert reads
    with SqliteStore(read_only) as reader:
        assert len(reader.keys()) == 1 + 2 * 40


def test_a_read_only_file_with_a_wal_file_is_refused(mounts: tuple[Path, Path]) -> None:
    writable, read_only = mounts
    with SqliteStore(writable) as store:
        store.add("n", "Text.")
        part = Path(f"{writable}-wal").read_bytes()
    Path(f"{writable}-wal").write_bytes(part)

    with pytest.raises(StoreUnavailableError, match=r"-wal holds a part") as refused:
        SqliteStore(read_only)
    assert "Copy it and" in refused.value.hint


def test_a_read_only_file_of_an_earlier_version_is_not_migrated(mounts: tuple[Path, Path]) -> None:
    writable, read_only = mounts
    write_version(writable, 1)

    with pytest.raises(StoreUnavailableError, match="cannot be written"):
        SqliteStore(read_only)


FOREIGN_DATA = [
    "UPDATE entries SET meta = '{no' WHERE key = 'green'",
    "UPDATE entries SET meta = '[1]' WHERE key = 'green'",
    "UPDATE entries SET meta = x'ff' WHERE key = 'green'",
    "UPDATE entries SET key = x'ff' WHERE key = 'green'",
    "UPDATE totals SET entries = -5, length = 0",
    "DELETE FROM totals",
]


@pytest.mark.parametrize("statement", FOREIGN_DATA)
def test_foreign_data_is_reported_as_damage(file: Path, statement: str) -> None:
    with SqliteStore(file) as store:
        for key in ("green", "black"):
            store.add(key, f"{key} tea")
    with sqlite3.connect(file) as database:
        database.execute(statement)
    database.close()

    with SqliteStore(file) as store:
        with pytest.raises(StoreDamagedError, match="holds data that memfs did not write"):
            _ = store.meta("green"), store.search("tea")
        assert store.get("black") == "black tea"


@pytest.mark.parametrize("path", ["", ":memory:", None, 5])
def test_a_store_needs_the_path_of_a_file(path: Any) -> None:
    with pytest.raises(InvalidSetupError, match="path of a file"):
        SqliteStore(path)


@pytest.mark.parametrize("timeout", [-1, True, "5", float("inf")])
def test_a_timeout_is_a_number_of_seconds(file: Path, timeout: Any) -> None:
    with pytest.raises(InvalidSetupError, match="timeout"):
        SqliteStore(file, timeout=timeout)


def test_scores_equal_those_of_the_store_in_memory(file: Path) -> None:
    """Both use the same terms and weights, whatever finds the candidates."""
    kept = InMemoryKeyedStore()
    with SqliteStore(file) as store:
        for number, (actor, text) in enumerate(facts(400, seed=3)):
            for one in (kept, store):
                one.add(f"{actor}/{number}", "Red wine and ramen.")
                one.add(f"{actor}/{number}", text)
        for key in random.Random(5).sample(kept.keys(), 100):
            for one in (kept, store):
                one.forget(key)
        for number, question in enumerate((*CODING, "Who likes ramen?", "Maria Silva", "red wine in Oslo", "chess")):
            expected, found = kept.search(question, top_k=3), store.search(question, top_k=3)
            assert [score for _, _, score in found] == pytest.approx([score for _, _, score in expected]), number


def test_without_the_extra_there_is_one_clear_error(run_script: Any) -> None:
    code = """
sys.modules["sqlalchemy"] = None
from memfs.stores.keyed import SqliteStore
try:
    SqliteStore("x.db")
except errors.MissingExtraError as error:
    print(error, error.hint)
"""
    done = run_script(code)

    assert "SqliteStore: needs the extra 'sql'" in done.stdout, done.stderr
    assert "pip install 'memfs-vault[sql]'" in done.stdout
    assert MissingExtraError("SqliteStore", "sql").exit_code == 2
