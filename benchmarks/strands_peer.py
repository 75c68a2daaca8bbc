"""Run by the environment of strands-agents: its file store over the files of a vault; it has no index."""

import asyncio
import importlib
import sys
from pathlib import Path

from benchmarks.serving import HIT_LIMIT, serve

storage = importlib.import_module("strands.storage")
stores = importlib.import_module("strands.vended_memory_stores.file_memory_store")


def main(root: str) -> None:
    """Search the files directly, in a directory of its storage."""
    folder = Path(root)
    files = storage.LocalFileStorage(str(folder.parent)).namespace(folder.name)
    store = stores.FileMemoryStore(name="bench", storage=files, max_search_results=HIT_LIMIT)
    serve(lambda: None, lambda question: [entry.metadata["path"] for entry in asyncio.run(store.search(question))])


if __name__ == "__main__":
    main(sys.argv[1])
