"""Shared by the peers' programs: build, print the cost, answer questions. Runs where memfs is not installed."""

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence

HIT_LIMIT = 5  # hits per question


def cpu() -> float:
    """Return the CPU seconds of this process and its finished children."""
    used = [resource.getrusage(scope) for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def timed(call: Callable[[], object]) -> None:
    """Print the cost of a call."""
    start, before = time.perf_counter(), cpu()
    call()
    wall = time.perf_counter() - start
    print(json.dumps({"wall": wall, "cpu": cpu() - before}), flush=True)


def serve(build: Callable[[], object], ask: Callable[[str], Sequence[str]]) -> None:
    """Build; then answer each line with the found paths and the seconds of the search."""
    timed(build)
    for line in sys.stdin:
        start = time.perf_counter()
        paths = ask(line.rstrip("\n"))
        print(json.dumps({"seconds": time.perf_counter() - start, "paths": paths}), flush=True)
