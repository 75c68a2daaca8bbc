"""The pytest plugin of memfs, with the fixture `vault`; pytest loads it wherever memfs is installed."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from memfs import Vault


@pytest.fixture
def vault(tmp_path: Path) -> "Iterator[Vault]":
    """Yield a new, empty memfs vault in a directory of its own."""
    from memfs import Vault

    with Vault.init(tmp_path / "vault") as made:
        yield made
