"""The keyed InMemoryStore keeps the contract of a store."""

from typing import Any

from memfs.stores.keyed import InMemoryStore, MemoryStore
from memfs.testing import StoreContract


class TestInMemoryStore(StoreContract):
    lasts = False

    def make_store(self, place: Any) -> MemoryStore[str]:
        return InMemoryStore()
