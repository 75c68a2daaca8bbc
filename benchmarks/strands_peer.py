"""Run by the environment of strands-agents: answers every line with the number of entries found for it."""

import asyncio
import importlib
import sys

storage = importlib.import_module("strands.storage")
stores = importlib.import_module("strands.vended_memory_stores.file_memory_store")


def main(root: str) -> None:
    """Search the files of the vault itself."""
    files = storage.LocalFileStorage(root).namespace("facts")
    store = stores.FileMemoryStore(name="bench", storage=files, max_search_results=5)
    for line in sys.stdin:
        print(len(asyncio.run(store.search(line.rstrip("\n")))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
