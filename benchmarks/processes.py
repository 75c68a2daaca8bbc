"""Child processes: the cost of one, and one that answers lines."""

import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

CHECKOUT = Path(__file__).parents[1]
ANSWER_TIMEOUT_SECONDS = 180
CHILD = (sys.executable, "-m", "benchmarks.child")


class ProcessCost(NamedTuple):
    """Wall time, CPU time and output of a process."""

    wall: float
    cpu: float
    output: str


class FailedError(Exception):
    """A process ended with an error."""


def command() -> list[str]:
    """Return the command of memfs: its script, or the module if the script is not installed."""
    script = shutil.which("memfs", path=str(Path(sys.executable).parent))
    return [script] if script else [sys.executable, "-m", "memfs"]


def run_measured(words: Sequence[str]) -> ProcessCost:
    """Run a command and return the cost of it and its children."""
    start = time.perf_counter()
    with subprocess.Popen(words, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        output, errors = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise FailedError(f"exit {process.returncode}: {errors.strip().splitlines()[-1:]}")
    return ProcessCost(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, output)


class Helper:
    """A process that answers each line with a line, until its input ends."""

    def __init__(self, words: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            words, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def send(self, line: str) -> str:
        """Send a line, and return the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        return self.read_line()

    def read_line(self) -> str:
        """Return the next line; raise FailedError if there is none in time."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], ANSWER_TIMEOUT_SECONDS)[0]:
            raise FailedError(f"no answer in {ANSWER_TIMEOUT_SECONDS} s")
        answer = self.process.stdout.readline()
        if not answer:
            raise FailedError(f"exit {self.process.wait(10)}")
        return answer.rstrip("\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.communicate()
