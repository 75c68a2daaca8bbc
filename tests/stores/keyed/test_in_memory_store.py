"""InMemoryKeyedStore fulfils the contract of a keyed store."""

from typing import Any

from support.people import facts

from memfs.stores.keyed import InMemoryKeyedStore, KeyedStore
from memfs.testing import StoreContract


class TestInMemoryKeyedStore(StoreContract):
    by_score = revises_at_once = True
    lasts = False

    def make_store(self, place: Any) -> KeyedStore[str]:
        return InMemoryKeyedStore()


def test_replaced_and_forgotten_texts_do_not_affect_scores() -> None:
    fresh, used = InMemoryKeyedStore(), InMemoryKeyedStore()
    for number, (actor, text) in enumerate(facts(200)):
        used.add(f"{actor}/{number}", "Who likes ramen, and red wine in Oslo?")
        used.add(f"gone/{number}", text)
        used.add(f"{actor}/{number}", text)
        used.forget(f"gone/{number}")
        fresh.add(f"{actor}/{number}", text)

    for question in ("Who likes ramen?", "red wine in Oslo", "Maria Silva", "chess on Friday"):
        assert used.search(question, top_k=50) == fresh.search(question, top_k=50)


def test_a_score_means_the_same_in_a_small_store_and_a_large_one() -> None:
    small, large = InMemoryKeyedStore(), InMemoryKeyedStore()
    for store, number in ((small, 20), (large, 2000)):
        for count, (_, text) in enumerate(facts(number)):
            store.add(f"n/{count}", text)
        store.add("it", "Dora repairs old clocks in a cellar, and sells them at the harbour.")

    for question, least, most in (("Who repairs clocks?", 0.8, 1.0), ("how do I centre a div in CSS?", 0.0, 0.2)):
        for store in (small, large):
            best = max((score for _, _, score in store.search(question)), default=0.0)
            assert least <= best <= most, question
