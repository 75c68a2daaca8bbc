"""Processes that can be killed, logs that survive a kill, and lines with checksums."""

import hashlib
import importlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

TIMEOUT_SECONDS = 30.0  # within which every process must end
Event = dict[str, Any]


# --- checksummed lines


def checksummed(token: str) -> str:
    """Return a line with a checksum of its token."""
    return f"token {token} {_checksum(token)}"


def tokens(text: str) -> list[str]:
    """Return the tokens of all checksummed lines, in order; AssertionError if a line is torn."""
    found = []
    for line in text.splitlines():
        if "token" in line:
            match = re.fullmatch(r"token (\S+) (\w{8})", line)
            assert match is not None, f"torn line {line!r}"
            assert match[2] == _checksum(match[1]), f"torn line {line!r}"
            found.append(match[1])
    return found


def _checksum(token: str) -> str:
    return hashlib.blake2b(token.encode(), digest_size=4).hexdigest()


# --- logs


class Log:
    """One file of events from many processes; an event is in it as a whole line when `note` returns."""

    def __init__(self, path: str | Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        self._at = 0
        self._rest = b""

    def note(self, **event: Any) -> None:
        """Append one event, with the time."""
        os.write(self._fd, json.dumps({"time": time.monotonic(), **event}).encode() + b"\n")

    def new(self) -> list[Event]:
        """Return the events since the last call."""
        data = self._rest
        while more := os.pread(self._fd, 1 << 20, self._at):
            self._at += len(more)
            data += more
        *lines, self._rest = data.split(b"\n")
        return [json.loads(line) for line in lines]


# --- processes


class Worker:
    """A forked process that runs one function."""

    def __init__(self, pid: int, report: Path) -> None:
        self.pid, self._report = pid, report
        self.fd = -1
        with suppress(ProcessLookupError):
            self.fd = os.pidfd_open(pid)

    def kill(self) -> None:
        """Send SIGKILL."""
        if self.fd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.fd, signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send any other signal."""
        signal.pidfd_send_signal(self.fd, number)

    def ended(self, limit: float = 0.0) -> bool:
        """Wait until the process has ended; return False after the limit."""
        return self.fd < 0 or bool(select.select([self.fd], [], [], limit)[0])

    def finish(self, limit: float = TIMEOUT_SECONDS) -> None:
        """Wait until the function returns; raise AssertionError with its traceback if it raised or took too long."""
        assert self.ended(limit), f"process {self.pid} is blocked"
        report = self._report.read_text(encoding="utf-8") if self._report.exists() else "died"
        assert report == "done", report

    def close(self) -> None:
        self.kill()
        if self.fd >= 0:
            self.ended(TIMEOUT_SECONDS)
            os.close(self.fd)
            self.fd = -1


class WorkerPool:
    """Processes forked from a small server that has imported everything, so that a start takes milliseconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "pool"
        self._folder.mkdir()
        self._number = count()
        self._workers: list[Worker] = []
        self._server = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def start(self, job: Callable[..., None], *arguments: Any) -> Worker:
        """Run a function of a module, with JSON arguments, in a new process."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        report = self._folder / str(next(self._number))
        print(json.dumps([job.__module__, job.__name__, arguments, str(report)]), file=self._server.stdin, flush=True)
        worker = Worker(int(self._server.stdout.readline()), report)
        self._workers.append(worker)
        return worker

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.close()
        self._server.communicate(timeout=TIMEOUT_SECONDS)


def serve() -> None:
    """Fork one process per line of standard input, and print its pid."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        module, name, arguments, report = json.loads(line)
        job = getattr(importlib.import_module(module), name)
        pid = os.fork()
        if pid == 0:
            _work(job, arguments, report)
        print(pid, flush=True)


def _work(job: Callable[..., None], arguments: list[Any], report: str) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    result = "done"
    try:
        job(*arguments)
    except BaseException:
        result = traceback.format_exc()
    Path(report).write_text(result, encoding="utf-8")
    os._exit(0)


class Barrier:
    """A common start: each process reports that it is ready, then blocks until all are released."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "barrier")
        os.mkfifo(f"{self.path}-ready")
        os.mkfifo(f"{self.path}-go")
        self._ready = os.open(f"{self.path}-ready", os.O_RDWR)

    def release(self, number: int) -> None:
        """Release `number` processes once all of them are ready."""
        self.ready(number)
        self.go(number)

    def ready(self, number: int) -> None:
        """Wait until `number` processes are ready."""
        self._read_bytes(number, "get ready")

    def go(self, number: int) -> None:
        """Release the processes, and wait until they continue."""
        fd = os.open(f"{self.path}-go", os.O_RDWR)
        os.write(fd, b"." * number)
        self._read_bytes(number, "start")
        os.close(fd)

    def _read_bytes(self, number: int, step: str) -> None:
        for _ in range(number):
            assert select.select([self._ready], [], [], TIMEOUT_SECONDS)[0], f"a process did not {step}"
            os.read(self._ready, 1)

    @staticmethod
    def wait(path: str) -> None:
        """Report that the calling process is ready, and block until it is released."""
        ready = os.open(f"{path}-ready", os.O_WRONLY)
        go = os.open(f"{path}-go", os.O_RDWR)
        os.write(ready, b".")
        os.read(go, 1)
        os.write(ready, b".")
        os.close(ready)
        os.close(go)
