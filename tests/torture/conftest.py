"""Deselect full-scale tests unless `-m torture` is given, and record failures beside the figures."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import WorkerPool

from .figures import BROKEN, Row, note

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `torture`, unless the expression of -m contains the word."""
    if "torture" in str(config.getoption("markexpr")):
        return
    full = [item for item in items if item.get_closest_marker("torture")]
    if full:
        config.hook.pytest_deselected(items=full)
        items[:] = [item for item in items if not item.get_closest_marker("torture")]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record which file ran, and the failures in it."""
    path, _, name = report.nodeid.partition("::")
    if report.failed:
        lines = getattr(getattr(report.longrepr, "reprcrash", None), "message", report.longreprtext).splitlines()
        reason = " ... ".join(line[:200] for line in dict.fromkeys([lines[0], lines[-1]]))
        note(Row(f"{BROKEN}: {name.replace('_', ' ')}", reason, Path(path).name))
    elif report.when == "call":
        note(Row("", "", Path(path).name))


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[WorkerPool]:
    """A server that forks processes for one test, and ends them with it."""
    with WorkerPool(tmp_path) as pool:
        yield pool
