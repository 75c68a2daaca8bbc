"""The code samples of the advanced-memory guide, run in their order beside the memfs classes.

Each sample is executed unchanged. The memfs class gets the same calls: the results are equal, except for the faults
that docs/memory.md lists.
"""

import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from memfs import AgentMemory, EnhancedAgentMemory
from memfs.embedding import default_embedder
from memfs.stores.keyed.base import KeyedStore
from memfs.stores.keyed.in_memory_store import InMemoryKeyedStore
from memfs.stores.keyed.vector import VectorStore

MEMORY_STORE = """
# memory_store.py
from abc import ABC, abstractmethod
from typing import Any, Dict, List, Tuple, Optional, Generic, TypeVar

T = TypeVar("T")

class MemoryStore(ABC, Generic[T]):
    @abstractmethod
    def add(self, key: str, value: T, meta: Dict[str, Any] | None = None): ...
    @abstractmethod
    def get(self, key: str) -> Optional[T]: ...
    @abstractmethod
    def search(self, query: str, top_k: int = 5) -> List[Tuple[str, T, float]]: ...
    @abstractmethod
    def forget(self, key: str) -> bool: ...
"""

IN_MEMORY = """
# stores/in_memory.py
from collections import defaultdict
from memory_store import MemoryStore

class InMemoryStore(MemoryStore[str]):
    def __init__(self):
        self.data: dict[str, str] = {}
        self.meta: dict[str, dict] = defaultdict(dict)

    def add(self, key, value, meta=None):
        self.data[key] = value
        if meta: self.meta[key] = meta

    def get(self, key):
        return self.data.get(key)

    def search(self, query, top_k=5):
        # naive substring ranking
        hits = [(k, v, 1.0) for k, v in self.data.items() if query.lower() in v.lower()]
        return hits[:top_k]

    def forget(self, key):
        return self.data.pop(key, None) is not None
"""

VECTOR_STORE = """
# stores/vector_store.py
import numpy as np
from memory_store import MemoryStore
from sentence_transformers import SentenceTransformer

class VectorMemoryStore(MemoryStore[str]):
    def __init__(self, model_name="all-MiniLM-L6-v2"):
        self.model = SentenceTransformer(model_name)
        self.texts: list[str] = []
        self.embeds: list[np.ndarray] = []
        self.keys: list[str] = []

    def _embed(self, txt): return self.model.encode(txt, normalize_embeddings=True)

    def add(self, key, value, meta=None):
        self.keys.append(key)
        self.texts.append(value)
        self.embeds.append(self._embed(value))

    def search(self, query, top_k=5):
        q = self._embed(query)
        sims = (np.dot(self.embeds, q) ).tolist()
        idxs = np.argsort(sims)[::-1][:top_k]
        return [(self.keys[i], self.texts[i], sims[i]) for i in idxs]

    # get / forget similar to InMemoryStore
"""

ENHANCED_MEMORY = """
# enhanced_memory.py
from stores.in_memory import InMemoryStore
from stores.vector_store import VectorMemoryStore

class EnhancedAgentMemory:
    def __init__(self, persistent=False, vector=True):
        self.working = InMemoryStore()
        self.long_term = InMemoryStore()  # swap for SqliteStore if persistent
        self.vector = VectorMemoryStore() if vector else None

    def add_experience(self, text: str, importance: int = 1):
        key = f"exp_{len(self.long_term.data)}"
        self.long_term.add(key, text, meta={"importance": importance})
        if self.vector:
            self.vector.add(key, text)

    def recall(self, query: str, k: int = 5):
        if self.vector:
            return self.vector.search(query, k)
        return self.long_term.search(query, k)

    # Wrapper helpers used by Agent ---------------------------
    def add_message(self, role, content):
        self.working.add(f"msg_{len(self.working.data)}", f"{role}: {content}")

    def get_recent_messages(self, n=10):
        items = list(self.working.data.values())[-n:]
        return "\\n".join(items)
"""

PEANUTS = "Bob is allergic to peanuts."
SENCHA = "Bob drinks sencha in the morning."
SUSHI = "Alice likes sushi with tuna."


class SentenceTransformer:
    """A stub of the model that the guide uses, with the vectors of the extra `semantic`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def encode(self, text: str, *, normalize_embeddings: bool) -> Any:
        assert normalize_embeddings
        return default_embedder().embed([text])[0]


def execute_sample(name: str, code: str, **variables: Any) -> ModuleType:
    """Return a sample as a module that other samples can import."""
    module = ModuleType(name)
    vars(module).update(variables)
    sys.modules[name] = module
    exec(compile(code, f"<{name}>", "exec"), vars(module))
    return module


@pytest.fixture(scope="module")
def guide() -> Iterator[ModuleType]:
    """Yield the last sample of the guide, after executing all of them in order."""
    names = ("memory_store", "sentence_transformers", "stores", "stores.in_memory", "stores.vector_store")
    assert not {*names, "enhanced_memory"} & set(sys.modules)
    execute_sample("memory_store", MEMORY_STORE)
    execute_sample("sentence_transformers", "", SentenceTransformer=SentenceTransformer)
    execute_sample("stores", "", __path__=[])
    execute_sample("stores.in_memory", IN_MEMORY)
    execute_sample("stores.vector_store", VECTOR_STORE)
    yield execute_sample("enhanced_memory", ENHANCED_MEMORY)
    for name in (*names, "enhanced_memory"):
        del sys.modules[name]


def sample_class(guide: ModuleType, name: str) -> Any:
    module = {"MemoryStore": "memory_store", "EnhancedAgentMemory": "enhanced_memory"}.get(name)
    return getattr(sys.modules[module] if module else guide, name)


# --- 3.1 the abstract store -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["add", "get", "search", "forget"])
def test_the_abstract_store_takes_the_arguments_of_the_guide(guide: ModuleType, name: str) -> None:
    theirs, ours = (
        inspect.signature(getattr(store, name)) for store in (sample_class(guide, "MemoryStore"), KeyedStore)
    )

    assert [(one.name, one.default) for one in ours.parameters.values()] == [
        (one.name, one.default) for one in theirs.parameters.values()
    ]
    assert name in KeyedStore.__abstractmethods__


# --- 3.2 in memory --------------------------------------------------------------------------------------


def call_store(store: Any) -> list[Any]:
    """Call a store, and return the results without scores."""
    store.add("allergy", PEANUTS, meta={"importance": 9})
    store.add("tea", SENCHA)
    results = [
        store.get("allergy"),
        store.get("none"),
        keyed(store.search("peanuts")),
        keyed(store.search("Sencha", 1)),
    ]
    store.add("tea", "Bob drinks oolong.")
    return [*results, store.get("tea"), keyed(store.search("sencha")), store.forget("tea"), store.forget("tea")]


def keyed(hits: Sequence[tuple[str, str, float]]) -> list[tuple[str, str]]:
    assert all(0 <= score <= 1 for _, _, score in hits)
    return [(key, text) for key, text, _ in hits]


def test_the_in_memory_store_returns_what_the_guides_returns(guide: ModuleType) -> None:
    assert call_store(InMemoryKeyedStore()) == call_store(sample_class(guide, "InMemoryStore")()) == [
        PEANUTS, None, [("allergy", PEANUTS)], [("tea", SENCHA)], "Bob drinks oolong.", [], True, False,
    ]  # fmt: skip


def test_the_in_memory_store_does_not_have_the_faults_of_the_guides(guide: ModuleType) -> None:
    theirs, ours = sample_class(guide, "InMemoryStore")(), InMemoryKeyedStore()
    for store in (theirs, ours):
        store.add("allergy", PEANUTS, meta={"importance": 9})
        store.add("tea", SENCHA)

    assert {score for _, _, score in theirs.search("Bob")} == {1.0}
    near, far = ours.search("Bob drinks sencha")
    assert near[2] > far[2]
    assert (theirs.search("what is Bob allergic to"), len(theirs.search(""))) == ([], 2)
    assert (keyed(ours.search("what is Bob allergic to"))[0], ours.search("")) == (("allergy", PEANUTS), [])
    assert len(theirs.search("Bob", -1)) == 1
    with pytest.raises(ValueError, match="top_k"):
        ours.search("Bob", -1)
    theirs.forget("allergy")
    ours.forget("allergy")
    assert (theirs.meta["allergy"], ours.meta("allergy")) == ({"importance": 9}, {})


# --- 3.3 vectors ----------------------------------------------------------------------------------------


def test_the_guides_vector_store_cannot_be_instantiated_and_ours_can(guide: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"abstract methods? '?forget'?.*get"):
        sample_class(guide, "VectorMemoryStore")()

    store = VectorStore()
    store.add("allergy", PEANUTS)
    assert (store.get("allergy"), store.get("none")) == (PEANUTS, None)
    assert (store.forget("allergy"), store.forget("allergy"), store.search("peanuts")) == (True, False, [])


@pytest.fixture
def guide_vectors(guide: ModuleType) -> Any:
    """Return the guide's vector store with the two methods that it leaves out."""
    named = sample_class(guide, "VectorMemoryStore")
    return type("Completed", (named,), {"get": lambda self, key: None, "forget": lambda self, key: False})()


def test_the_vector_store_finds_in_the_order_of_the_guides(guide_vectors: Any) -> None:
    ours = VectorStore()
    for store in (guide_vectors, ours):
        for key, text in (("allergy", PEANUTS), ("tea", SENCHA), ("food", SUSHI)):
            store.add(key, text)

    for question in ("green tea at breakfast", "which nuts are bad for him?", "raw fish"):
        theirs = [hit[:2] for hit in guide_vectors.search(question, 2)]
        assert keyed(ours.search(question, 2)) == theirs


def test_a_key_that_is_added_again_is_found_once(guide_vectors: Any) -> None:
    ours = VectorStore()
    for store in (guide_vectors, ours):
        store.add("tea", SENCHA)
        store.add("tea", "Bob drinks oolong.")

    assert len(guide_vectors.search("tea")) == 2
    assert keyed(ours.search("tea")) == [("tea", "Bob drinks oolong.")]


# --- 3.4 the façade -------------------------------------------------------------------------------------


def call_facade(memory: Any) -> list[Any]:
    """Call a façade, and return the results without keys and scores."""
    memory.add_message("user", "Hello.")
    memory.add_message("assistant", "Good morning.")
    memory.add_experience(PEANUTS, importance=9)
    memory.add_experience(SUSHI)
    recalled = [text for _, text, _ in memory.recall("peanuts", 1)]
    return [memory.get_recent_messages(), memory.get_recent_messages(n=1), recalled]


def test_the_facade_returns_what_the_guides_returns(guide: ModuleType) -> None:
    expected = ["user: Hello.\nassistant: Good morning.", "assistant: Good morning.", [PEANUTS]]

    assert call_facade(sample_class(guide, "EnhancedAgentMemory")(vector=False)) == expected
    for memory in (EnhancedAgentMemory(), EnhancedAgentMemory(vector=False), EnhancedAgentMemory(False, True)):
        assert call_facade(memory) == expected


def test_the_facade_takes_the_arguments_of_the_guide(guide: ModuleType) -> None:
    theirs = sample_class(guide, "EnhancedAgentMemory")
    for name, function in inspect.getmembers(theirs, inspect.isfunction):
        ours = [*inspect.signature(getattr(EnhancedAgentMemory, name)).parameters.values()]
        for one, other in zip(inspect.signature(function).parameters.values(), ours, strict=False):
            assert (one.name, one.default) == (other.name, other.default), name
    made = EnhancedAgentMemory()
    assert all(hasattr(made, part) for part in ("working", "long_term", "vector"))


def test_a_memory_added_after_a_forget_overwrites_nothing(guide: ModuleType) -> None:
    theirs, ours = sample_class(guide, "EnhancedAgentMemory")(vector=False), EnhancedAgentMemory(vector=False)
    for memory in (theirs, ours):
        memory.add_experience(PEANUTS)
        memory.add_experience(SENCHA)
    theirs.long_term.forget("exp_0")
    assert ours.forget(ours.recall("peanuts")[0][0])
    for memory in (theirs, ours):
        memory.add_experience(SUSHI)

    assert [*theirs.long_term.data.values()] == [SUSHI]  # the sencha is lost
    assert {ours.long_term.get(key) for key in ours.long_term.keys()} == {SENCHA, SUSHI}  # noqa: SIM118


def test_a_message_added_after_a_forget_overwrites_nothing(guide: ModuleType) -> None:
    theirs, ours = sample_class(guide, "EnhancedAgentMemory")(vector=False), EnhancedAgentMemory(vector=False)
    for memory in (theirs, ours):
        memory.add_message("user", "One.")
        memory.add_message("user", "Two.")
        memory.working.forget("msg_0")
        memory.add_message("user", "Three.")

    assert (theirs.get_recent_messages(), ours.get_recent_messages()) == ("user: Three.", "user: Two.\nuser: Three.")


def test_zero_messages_are_not_all_messages(guide: ModuleType) -> None:
    theirs, ours = sample_class(guide, "EnhancedAgentMemory")(vector=False), EnhancedAgentMemory(vector=False)
    for memory in (theirs, ours):
        for count in range(5):
            memory.add_message("user", f"{count}.")

    assert theirs.get_recent_messages(0).count("\n") == 4
    assert theirs.get_recent_messages(-3) == "user: 3.\nuser: 4."
    for n in (0, -3):
        with pytest.raises(ValueError, match=f"^n: {n} is not a whole number from 1$"):
            ours.get_recent_messages(n)


def test_a_persistent_memory_is_kept_for_the_next_process(
    guide: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for named in (sample_class(guide, "EnhancedAgentMemory"), EnhancedAgentMemory):
        named(persistent=True, vector=False).add_experience(PEANUTS)

    assert sample_class(guide, "EnhancedAgentMemory")(persistent=True, vector=False).recall("peanuts") == []
    assert EnhancedAgentMemory(persistent=True, vector=False).recall("peanuts")[0][1] == PEANUTS


def test_recall_finds_a_number_that_vectors_confuse() -> None:
    memory = EnhancedAgentMemory(vector=True)
    assert memory.vector is not None
    for text in ("Invoice 2231 went to Samir.", "Invoice 2213 went to Yuki.", "Invoice 1232 went to Claire."):
        memory.add_experience(text)

    assert memory.vector.search("invoice 2213", 1)[0][1] == "Invoice 1232 went to Claire."
    assert memory.recall("invoice 2213", 1)[0][1] == "Invoice 2213 went to Yuki."


# --- 3.5 in an agent ------------------------------------------------------------------------------------


def test_an_agent_keeps_its_calls_when_its_memory_is_replaced() -> None:
    """`AgentMemory()` becomes `EnhancedAgentMemory()`, and `tool_call_history` is still there."""
    prompts = []
    for made in (AgentMemory, EnhancedAgentMemory):
        memory = made()
        memory.add_experience(PEANUTS, importance=9)
        memory.add_message("user", "Order lunch for Bob, who has an allergy.")
        context = [text for _, text, _ in memory.recall("Order lunch for Bob, who has an allergy.")]
        memory.add_tool_call("order", {"dish": "soup", "without": "peanuts"}, "ordered")
        prompts.append("\n".join([*context, memory.get_recent_messages()]))
        assert [call.name for call in memory.tool_call_history] == ["order"]

    assert prompts[0] == prompts[1]
    assert prompts[0].startswith(f"{PEANUTS}\nuser: Order lunch for Bob")
