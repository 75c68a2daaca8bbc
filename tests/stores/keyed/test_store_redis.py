"""RedisStore fulfils the contract of a keyed store, on a real server, and expires values."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis as client
from support.commands import Script
from support.people import facts
from support.redis_server import TIMEOUT, RedisServer

from memfs.errors import InvalidSetupError, StoreDamagedError, StoreUnavailableError
from memfs.stores.keyed import InMemoryKeyedStore, KeyedStore, RedisStore
from memfs.testing import StoreContract

LONG_TTL = 600.0  # seconds: longer than any test


class TestRedisStore(StoreContract):
    by_score = revises_at_once = True

    @pytest.fixture
    def place(self, redis_url: str) -> Any:
        return redis_url

    def make_store(self, place: Any) -> KeyedStore[str]:
        return RedisStore(place)


class TestRedisStoreWithTtl(StoreContract):
    by_score = revises_at_once = True

    @pytest.fixture
    def place(self, redis_url: str) -> Any:
        return redis_url

    def make_store(self, place: Any) -> KeyedStore[str]:
        return RedisStore(place, ttl=LONG_TTL, refresh_on_read=True, prefix="other")


@pytest.fixture
def raw(redis_url: str) -> Iterator[Any]:
    """Yield a plain Redis client to inspect the server."""
    with client.Redis.from_url(redis_url, decode_responses=True, protocol=2) as made:
        yield made


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll a condition until it is true, with a timeout."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline


# --- expiry


def test_an_expired_value_is_gone_from_everywhere(redis_url: str, raw: Any) -> None:
    lasting, store = RedisStore(redis_url, ttl=LONG_TTL), RedisStore(redis_url, ttl=0.2)
    lasting.add("long", "Alice likes green tea.")
    store.add("short", "Bob likes black tea.", {"x": 1})
    wait_until(lambda: store.get("short") is None)

    assert store.meta("short") == {}
    assert store.forget("short") is False
    assert store.keys() == lasting.keys() == ["long"]
    assert [key for key, _, _ in store.search("tea", top_k=9)] == ["long"]
    assert store.search("bob") == []
    assert not [name for name in raw.keys() if "short" in str(raw.dump(name))]  # noqa: SIM118  a method of the client
    alone = InMemoryKeyedStore()
    alone.add("long", "Alice likes green tea.")
    assert lasting.search("tea") == alone.search("tea")


def test_search_and_keys_skip_expired_values_that_were_never_read(redis_url: str) -> None:
    store = RedisStore(redis_url, ttl=0.2)
    for number in range(1500):
        store.add(f"n/{number}", f"The cat number {number} sleeps.")
    wait_until(lambda: store.get("n/1499") is None)

    assert store.search("cat") == []
    assert store.keys() == []


def test_all_keys_expire_on_the_server_without_further_calls(redis_url: str, raw: Any) -> None:
    store = RedisStore(redis_url, ttl=LONG_TTL)
    store.add("a", "Green tea.", {"x": 1})
    store.add("b", "Black tea.")
    store.add("a", "Green tea again.")

    names = raw.keys()
    assert len(names) > 5
    assert all(LONG_TTL * 1000 <= raw.pttl(name) <= LONG_TTL * 1000 + 61_000 for name in names)


def test_a_value_without_a_ttl_keeps_shared_keys_from_expiring(redis_url: str, raw: Any) -> None:
    RedisStore(redis_url).add("for-ever", "Green tea.")
    RedisStore(redis_url, ttl=LONG_TTL).add("for-now", "Black tea.")

    shared = {name: raw.pttl(name) for name in raw.keys() if not name.endswith(("due", ":t:black"))}  # noqa: SIM118
    assert set(shared.values()) == {-1}
    RedisStore(redis_url).add("for-now", "Black tea.")
    assert raw.zcard("{memfs}:due") == 0
    assert raw.pttl("{memfs}:t:black") == -1


def test_refresh_on_read_extends_the_expiry(redis_url: str, raw: Any) -> None:
    RedisStore(redis_url, ttl=60).add("tea", "Green tea.")
    due = raw.zscore("{memfs}:due", "tea")
    plain, refreshing = RedisStore(redis_url, ttl=LONG_TTL), RedisStore(redis_url, ttl=LONG_TTL, refresh_on_read=True)

    assert (plain.get("tea"), plain.search("tea")[0][0], raw.zscore("{memfs}:due", "tea")) == ("Green tea.", "tea", due)
    for read in (lambda: refreshing.get("tea"), lambda: refreshing.search("green")):
        raw.zadd("{memfs}:due", {"tea": due})
        read()
        assert raw.zscore("{memfs}:due", "tea") > due + 500_000
    assert all(raw.pttl(name) > 600_000 for name in raw.keys())  # noqa: SIM118


def test_forgetting_everything_leaves_no_keys_on_the_server(redis_url: str, raw: Any) -> None:
    for store in (RedisStore(redis_url), RedisStore(redis_url, ttl=LONG_TTL, prefix="b")):
        for key in ("a", "b"):
            store.add(key, "Green tea.", {"x": 1})
            store.add(key, "Black tea.")
        assert [store.forget(key) for key in ("a", "b")] == [True, True]

    assert raw.keys() == []


def test_stores_with_different_prefixes_are_independent(redis_url: str) -> None:
    one, two = RedisStore(redis_url, prefix="one"), RedisStore(redis_url, prefix="one:t")
    one.add("x", "Green tea.")
    two.add("x", "Black tea.")

    assert one.forget("x") is True
    assert (two.get("x"), one.keys(), one.search("tea")) == ("Black tea.", [], [])


# --- concurrency


def test_a_value_is_replaced_atomically(redis_url: str) -> None:
    store, other = RedisStore(redis_url), RedisStore(redis_url)
    store.add("x", "tea number0", {"n": 0})
    done = threading.Event()

    def write() -> None:
        for number in range(300):
            other.add("x", f"tea number{number}", {"n": number})
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert (store.get("x") or "").startswith("tea number")
        assert [key for key, _, _ in store.search("tea")] == ["x"]
        assert store.keys() == ["x"]
    writer.join()
    assert [key for key, _, _ in store.search("number299")] == ["x"]
    assert store.search("number298") == []


def test_concurrent_processes_lose_no_write(redis_url: str) -> None:
    code = """
import sys
from memfs.stores.keyed import RedisStore
with RedisStore(sys.argv[1]) as store:
    for turn in range(100):
        store.add(f"p{sys.argv[2]}/{turn}", f"process{sys.argv[2]} says turn{turn}")
        store.add("shared", f"last by {sys.argv[2]}")
"""
    running = [subprocess.Popen([sys.executable, "-c", code, redis_url, str(number)]) for number in range(4)]
    assert [process.wait(timeout=120) for process in running] == [0] * 4

    store = RedisStore(redis_url)
    assert len(store.keys()) == 401
    assert [key for key, _, _ in store.search("process2 turn42", top_k=1)] == ["p2/42"]
    assert len(store.search("turn42", top_k=10)) == 4


def test_scores_equal_those_of_the_store_in_memory(redis_url: str) -> None:
    reference, store = InMemoryKeyedStore(), RedisStore(redis_url)
    for number, (actor, text) in enumerate(facts(300, seed=3)):
        for one in (reference, store):
            one.add(f"{actor}/{number}", "Red wine and ramen.")
            one.add(f"{actor}/{number}", text)
            if number % 3 == 0:
                one.forget(f"{actor}/{number}")

    for question in ("Who likes ramen?", "Maria Silva", "red wine in Oslo", "chess", "card 7"):
        assert store.search(question, top_k=20) == reference.search(question, top_k=20)


# --- unavailable servers


def test_a_password_that_occurs_in_an_error_is_masked(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()
    server.stop()

    with pytest.raises(StoreUnavailableError) as caught:
        RedisStore(f"redis://:refused@127.0.0.1:{server.port}/0").get("tea")
    assert "refused" not in str(caught.value)
    assert "***" in str(caught.value)


@pytest.fixture
def password_server(tmp_path: Path) -> Iterator[RedisServer]:
    """Yield a separate server that requires a password."""
    server = RedisServer(tmp_path, "--requirepass", "s3cret word")
    server.start()
    yield server
    server.stop()


def test_a_full_server_refuses_writes_keeps_values_and_is_still_searched(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()
    try:
        with RedisStore(server.url) as store:
            store.add("tea", "Green tea.")
            assert server.send("CONFIG", "SET", "maxmemory", "1") == "+OK"
            for key in ("tea", "coffee"):
                with pytest.raises(StoreUnavailableError, match="maxmemory"):
                    store.add(key, "Black.")

            assert store.get("tea") == "Green tea."
            assert [key for key, _, _ in store.search("tea")] == ["tea"]
            assert store.keys() == store.keys("tea") == ["tea"]
            assert store.forget("tea")
            assert server.send("CONFIG", "SET", "maxmemory", "0") == "+OK"
            store.add("tea", "Black tea.")
            assert store.keys() == ["tea"]
    finally:
        server.stop()


def test_a_stopped_server_is_a_clear_error_and_is_used_again_after_a_restart(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()
    store = RedisStore(server.url)
    store.add("tea", "Green tea.")
    server.stop()

    for call in (store.keys, lambda: store.get("tea"), lambda: store.add("x", "y"), lambda: store.search("tea")):
        with pytest.raises(StoreUnavailableError, match=rf"^redis://127\.0\.0\.1:{server.port}/0: ") as caught:
            call()
        assert caught.value.hint
    server.start()
    store.add("tea", "Black tea.")
    assert store.keys() == ["tea"]
    store.close()
    server.stop()


def test_a_password_opens_the_server_and_is_never_shown(password_server: RedisServer) -> None:
    right = f"redis://:s3cret%20word@127.0.0.1:{password_server.port}/0"
    store = RedisStore(right)
    store.add("tea", "Green tea.")

    assert store.get("tea") == "Green tea."
    assert "s3cret" not in repr(store)
    for url in (
        f"redis://:wr0ng@127.0.0.1:{password_server.port}",
        f"redis://bob:wr0ng@127.0.0.1:{password_server.port}",
        password_server.url,
    ):
        with pytest.raises(StoreUnavailableError) as caught:
            RedisStore(url).get("tea")
        assert "wr0ng" not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
        assert "password" in str(caught.value).lower() or "auth" in str(caught.value).lower()


NO_ADDRESSES = (
    "", "http://x", "redis://u:hidden@host:port", "redis://:hidden@h/notadb", "redis://:hidden@h?ttl=5", "unix://",
    None, 5, "redis://[::hidden", "redis://:1#hidden@h/0", "redis://:1?db=hidden@h/0", "redis://:1/hidden@h",
)  # fmt: skip


@pytest.mark.parametrize("url", NO_ADDRESSES)
def test_an_invalid_address_is_a_clear_error_without_the_password(url: Any) -> None:
    with pytest.raises(InvalidSetupError, match="address") as caught:
        RedisStore(url)
    assert "hidden" not in str(caught.value)


class CuttingProxy:
    """A proxy of a server that closes the connection once, after a request was executed and before its response."""

    def __init__(self, port: int) -> None:
        self._server, self._is_armed = port, threading.Event()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def arm(self) -> None:
        self._is_armed.set()

    def close(self) -> None:
        self._door.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._carry, args=(self._door.accept()[0],), daemon=True).start()

    def _carry(self, guest: socket.socket) -> None:
        """Forward small requests and responses, one after the other."""
        with guest, socket.create_connection(("127.0.0.1", self._server)) as host:
            while request := guest.recv(1 << 20):
                host.sendall(request)
                response = host.recv(1 << 20)
                if self._is_armed.is_set() and b"EVALSHA" in request and not response.startswith(b"-NOSCRIPT"):
                    self._is_armed.clear()
                    return
                guest.sendall(response)


def test_revise_and_forget_are_not_retried_after_a_lost_response(redis_server: RedisServer) -> None:
    """A retry would report that the value has changed, or that there is none."""
    redis_server.send("FLUSHALL")
    door = CuttingProxy(redis_server.port)
    with RedisStore(f"redis://127.0.0.1:{door.port}/0") as store:
        store.add("tea", "Green tea.")
        assert not store.revise("tea", "Black tea.", known="White tea.")
        assert not store.forget("coffee")
        door.arm()
        with pytest.raises(StoreUnavailableError):
            store.revise("tea", "Black tea.", known="Green tea.")
        assert store.get("tea") == "Black tea."
        door.arm()
        with pytest.raises(StoreUnavailableError):
            store.forget("tea")
        door.arm()
        store.add("tea", "Green tea.")  # idempotent, so it is retried
        door.arm()
        assert store.get("tea") == "Green tea."
    door.close()


FOREIGN_DATA = [
    ("values", b"\xff"), ("meta", b"{no"), ("meta", b"[1]"), ("meta", b"\xff"), ("t:tea", b"many"), ("t:tea", b"\xff"),
]  # fmt: skip


@pytest.mark.parametrize(("part", "data"), FOREIGN_DATA)
def test_foreign_data_is_reported_as_damage_and_replaced_by_the_next_add(
    redis_url: str, raw: Any, part: str, data: bytes
) -> None:
    store = RedisStore(redis_url)
    for key in ("green", "black"):
        store.add(key, f"{key} tea")
    raw.hset(f"{{memfs}}:{part}", "green", data)

    with pytest.raises(StoreDamagedError, match="holds data that memfs did not write"):
        _ = store.get("green"), store.meta("green"), store.search("tea")
    assert store.get("black") == "black tea"
    store.add("green", "green tea")
    assert (store.get("green"), store.meta("green"), len(store.search("tea"))) == ("green tea", {}, 2)


def test_keys_of_another_program_are_left_alone(redis_url: str, raw: Any) -> None:
    raw.set("{memfs}:values", "mine")

    with pytest.raises(StoreDamagedError, match="another program"):
        RedisStore(redis_url).add("x", "y")
    assert raw.get("{memfs}:values") == "mine"


@pytest.mark.parametrize(
    "options",
    [{"ttl": 0}, {"ttl": -1}, {"ttl": True}, {"ttl": "5"}, {"ttl": float("nan")}, {"ttl": 1e12}, {"prefix": ""},
     {"prefix": "a\nb"}, {"refresh_on_read": 1}, {"timeout": 0}, {"timeout": None}],
)  # fmt: skip
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetupError, match=next(iter(options))):
        RedisStore(**options)


def test_without_the_extra_there_is_one_clear_error(run_script: Script) -> None:
    code = """
sys.modules["redis"] = None
from memfs.stores.keyed import RedisStore
try:
    RedisStore()
except errors.MissingExtraError as error:
    print(error, error.hint)
"""
    done = run_script(code)

    assert "RedisStore: needs the extra 'redis'" in done.stdout, done.stderr
    assert "pip install 'memfs-vault[redis]'" in done.stdout
