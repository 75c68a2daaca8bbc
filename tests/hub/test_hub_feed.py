"""The feed of changes of a hub: numbers follow the order of commits, so that a reader misses nothing."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.postgres_server import Server

from memfs.errors import StoreUnavailableError
from memfs.hub.remote import Hub, Upload

TIMEOUT = 60
COUNT_WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.fixture
def hub(postgres_url: str) -> Iterator[Hub]:
    with Hub(postgres_url) as made:
        made.create()
        yield made


def upload(name: str, data: bytes = b"x") -> Upload:
    return Upload(f"{name}.md", f"{name}.md", data * 32, "", data)


def names(hub: Hub, after: int) -> list[str]:
    return [row.path for row in hub.changes("", after, hub.status().seq)]


def test_writers_wait_for_each_other_and_readers_do_not_wait(hub: Hub, postgres: Server) -> None:
    """The first writer has its numbers, and commits after the second one has started to wait."""
    name = hub.status().hub
    may_commit, has_written = threading.Event(), threading.Event()

    def first() -> None:
        with hub.transaction(name) as transaction:
            transaction.upload([upload("first-1"), upload("first-2")])
            has_written.set()
            assert may_commit.wait(TIMEOUT)

    def second() -> None:
        assert has_written.wait(TIMEOUT)
        with hub.transaction(name) as transaction:
            transaction.upload([upload("second")])

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(first), pool.submit(second)]
        assert has_written.wait(TIMEOUT)
        try:
            while postgres.run(COUNT_WAITING) == [(0,)]:
                assert not both[1].done(), "the second writer did not wait"
            assert (hub.status().seq, names(hub, 0)) == (0, [])
        finally:
            may_commit.set()
        for one in both:
            one.result(TIMEOUT)

    assert [(row.path, row.seq) for row in hub.changes("", 0, 9)] == [
        ("first-1.md", 1), ("first-2.md", 2), ("second.md", 3),
    ]  # fmt: skip


def test_a_reader_of_the_feed_sees_every_change_of_concurrent_writers(postgres_url: str, hub: Hub) -> None:
    writers, batches = 4, 25
    name = hub.status().hub
    is_over = threading.Event()

    def write(writer: int) -> None:
        with Hub(postgres_url) as mine:
            for number in range(batches):
                with mine.transaction(name) as transaction:
                    transaction.upload(
                        [upload(f"{writer}-{number}-{part}") for part in range(1 + (writer + number) % 3)]
                    )

    def follow() -> list[str]:
        seen: list[str] = []
        with Hub(postgres_url) as mine:
            position = 0
            while True:
                was_over, until = is_over.is_set(), mine.status().seq
                rows = list(mine.changes("", position, until))
                assert [row.seq for row in rows] == list(range(position + 1, until + 1))
                seen += [row.path for row in rows]
                position = until
                if was_over and position == mine.status().seq:
                    return seen

    with ThreadPoolExecutor(writers + 1) as pool:
        reader = pool.submit(follow)
        try:
            for one in [pool.submit(write, writer) for writer in range(writers)]:
                one.result(TIMEOUT)
        finally:
            is_over.set()
        seen = reader.result(TIMEOUT)

    assert sorted(seen) == sorted(row.path for row in hub.changes("", 0, hub.status().seq))
    assert len(seen) == sum(1 + (writer + number) % 3 for writer in range(writers) for number in range(batches))


def test_a_rolled_back_change_leaves_no_gap_in_the_numbers(hub: Hub) -> None:
    name = hub.status().hub

    def fail() -> None:
        with hub.transaction(name) as transaction:
            transaction.upload([upload("lost")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with hub.transaction(name) as transaction:
        transaction.upload([upload("kept")])
    assert [(row.path, row.seq) for row in hub.changes("", 0, 9)] == [("kept.md", 1)]


def test_fetch_leaves_out_a_file_that_changed_since_it_was_listed(hub: Hub) -> None:
    name = hub.status().hub
    with hub.transaction(name) as transaction:
        transaction.upload([upload("tea"), upload("sushi")])
    rows = list(hub.changes("", 0, hub.status().seq))
    with hub.transaction(name) as transaction:
        transaction.upload([upload("tea", b"y")])

    assert hub.fetch(rows) == {"sushi.md": b"x"}
    [later] = hub.changes("", 2, hub.status().seq)
    assert hub.fetch([later]) == {"tea.md": b"y"}


def test_a_hub_that_replaced_another_is_not_written_to(hub: Hub) -> None:
    name = hub.status().hub
    hub.database.rows("UPDATE memfs.hubs SET hub = gen_random_uuid()")

    with pytest.raises(StoreUnavailableError, match="another hub"), hub.transaction(name):
        pass


def test_an_invalid_hub_name_in_the_database_is_refused(hub: Hub) -> None:
    hub.database.rows("ALTER TABLE memfs.hubs ALTER COLUMN hub TYPE text")
    hub.database.rows("UPDATE memfs.hubs SET hub = '../../etc/passwd'")

    with pytest.raises(StoreUnavailableError, match="not written by memfs"):
        hub.status()
