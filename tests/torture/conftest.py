"""Full-scale tests stay out unless `-m torture` asks for them."""

import sys

import pytest

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is marked `torture`, unless an expression given with -m speaks of it."""
    if "torture" in str(config.getoption("markexpr")):
        return
    full = [item for item in items if item.get_closest_marker("torture")]
    if full:
        config.hook.pytest_deselected(items=full)
        items[:] = [item for item in items if not item.get_closest_marker("torture")]
