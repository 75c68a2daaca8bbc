"""The feed of changes of a hub: numbers in the order of commits, so that whoever follows it misses nothing."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.postgres_server import Server

from memfs.errors import StoreUnavailableError
from memfs.hub.remote import Hub, Upload

LIMIT = 60
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.fixture
def hub(postgres_url: str) -> Iterator[Hub]:
    with Hub(postgres_url) as made:
        made.create()
        yield made


def upload(name: str, data: bytes = b"x") -> Upload:
    return Upload(f"{name}.md", f"{name}.md", data * 32, "", data)


def names(hub: Hub, after: int) -> list[str]:
    return [row.path for row in hub.changes("", after, hub.status().seq)]


def test_a_writer_waits_for_the_one_before_it_and_a_reader_for_neither(hub: Hub, postgres: Server) -> None:
    """The first writer has its numbers, and commits when the second one has been waiting for a while."""
    name = hub.status().hub
    may_commit, has_written = threading.Event(), threading.Event()

    def first() -> None:
        with hub.transaction(name) as transaction:
            transaction.upload([upload("first-1"), upload("first-2")])
            has_written.set()
            assert may_commit.wait(LIMIT)

    def second() -> None:
        assert has_written.wait(LIMIT)
        with hub.transaction(name) as transaction:
            transaction.upload([upload("second")])

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(first), pool.submit(second)]
        assert has_written.wait(LIMIT)
        try:
            while postgres.run(WAITING) == [(0,)]:
                assert not both[1].done(), "the second writer did not wait"
            assert (hub.status().seq, names(hub, 0)) == (0, [])
        finally:
            may_commit.set()
        for one in both:
            one.result(LIMIT)

    assert [(row.path, row.seq) for row in hub.changes("", 0, 9)] == [
        ("first-1.md", 1), ("first-2.md", 2), ("second.md", 3),
    ]  # fmt: skip


def test_who_follows_the_feed_sees_every_change_of_many_writers(postgres_url: str, hub: Hub) -> None:
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
                one.result(LIMIT)
        finally:
            is_over.set()
        seen = reader.result(LIMIT)

    assert sorted(seen) == sorted(row.path for row in hub.changes("", 0, hub.status().seq))
    assert len(seen) == sum(1 + (writer + number) % 3 for writer in range(writers) for number in range(batches))


def test_a_change_that_was_not_committed_leaves_no_gap(hub: Hub) -> None:
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


def test_a_memory_that_changed_since_it_was_read_of_comes_with_its_later_change(hub: Hub) -> None:
    name = hub.status().hub
    with hub.transaction(name) as transaction:
        transaction.upload([upload("tea"), upload("sushi")])
    rows = list(hub.changes("", 0, hub.status().seq))
    with hub.transaction(name) as transaction:
        transaction.upload([upload("tea", b"y")])

    assert hub.fetch(rows) == {"sushi.md": b"x"}
    [later] = hub.changes("", 2, hub.status().seq)
    assert hub.fetch([later]) == {"tea.md": b"y"}


def test_a_hub_that_took_the_place_of_another_is_not_written_to(hub: Hub) -> None:
    name = hub.status().hub
    hub.database.rows("UPDATE memfs.hubs SET hub = gen_random_uuid()")

    with pytest.raises(StoreUnavailableError, match="another hub"), hub.transaction(name):
        pass


def test_what_is_no_name_of_a_hub_is_refused(hub: Hub) -> None:
    hub.database.rows("ALTER TABLE memfs.hubs ALTER COLUMN hub TYPE text")
    hub.database.rows("UPDATE memfs.hubs SET hub = '../../etc/passwd'")

    with pytest.raises(StoreUnavailableError, match="not written by memfs"):
        hub.status()
