"""Fixtures of memfs for pytest, loaded where memfs is installed: `vault`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from memfs import Vault


@pytest.fixture
def vault(tmp_path: Path) -> "Iterator[Vault]":
    """A fresh, empty memfs vault in a directory of its own."""
    from memfs import Vault

    with Vault.init(tmp_path / "vault") as made:
        yield made
