"""The search engine of an open vault, for tests that look at its index or its event source."""

from collections.abc import Callable
from typing import Any

from memfs import Vault
from memfs.vault.search_engine import SearchEngine

EngineOf = Callable[[Vault], SearchEngine]  # what the fixture `engine_of` is


def recording_engine() -> tuple[type[SearchEngine], EngineOf]:
    """Return a class of engines that are recorded, and a function that returns the one of a vault."""
    engines: dict[int, SearchEngine] = {}  # by the recall log that an engine has in common with its vault

    class RecordedEngine(SearchEngine):
        def __init__(self, files: Any, root: str, recall_log: Any, **options: Any) -> None:
            super().__init__(files, root, recall_log, **options)
            engines[id(recall_log)] = self

    return RecordedEngine, lambda vault: engines[id(vault.usage)]
