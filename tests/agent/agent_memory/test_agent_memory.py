"""AgentMemory: the conversation, persistent experiences, and recall by words and by meaning."""

import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any

import pytest
from support.commands import REPOSITORY

from memfs import AgentMemory, EnhancedAgentMemory, Vault
from memfs.agent import ScriptedModel, WorkingMemory
from memfs.agent.agent_memory.agent_memory import fuse
from memfs.errors import InvalidSetupError, SecretRefusedError
from memfs.stores.keyed import InMemoryKeyedStore, KeyedStore, VaultKeyedStore, VectorStore

PEANUTS = "Bob is allergic to peanuts, traces included."
SENCHA = "Bob drinks sencha in the morning."
SUSHI = "Alice likes sushi with tuna, most of all on Fridays."


def texts(memory: AgentMemory, query: str, k: int = 5) -> list[str]:
    return [text for _, text, _ in memory.recall(query, k)]


@pytest.fixture
def memory() -> AgentMemory:
    """Return a memory in RAM that recalls by words only."""
    return AgentMemory(vector=False)


# --- the conversation -----------------------------------------------------------------------------------


def test_recent_messages_are_lines_of_role_and_content(memory: AgentMemory) -> None:
    for count in range(12):
        memory.add_message("user" if count % 2 == 0 else "assistant", f"Message {count}.")

    assert memory.get_recent_messages(2) == "user: Message 10.\nassistant: Message 11."
    assert len(memory.get_recent_messages().splitlines()) == 10
    assert memory.get_recent_messages(99).startswith("user: Message 0.\n")


@pytest.mark.parametrize("n", [0, -2])
def test_a_count_below_one_is_refused(memory: AgentMemory, n: int) -> None:
    memory.add_message("user", "Hello.")

    with pytest.raises(ValueError, match="is not a whole number from 1"):
        memory.get_recent_messages(n)


def test_a_message_with_an_unknown_role_is_refused(memory: AgentMemory) -> None:
    with pytest.raises(ValueError, match=r"^role: 'robot' is none of user, assistant, system, tool$"):
        memory.add_message("robot", "Beep.")
    with pytest.raises(ValueError, match=r"^content: ' ' is not a text"):
        memory.add_message("user", " ")
    assert memory.get_recent_messages() == ""


def test_a_summary_covers_the_whole_conversation_and_folds_nothing() -> None:
    plain = AgentMemory(vector=False)
    summarizing = AgentMemory(vector=False, model=ScriptedModel(["They book a flight."]))
    for memory in (plain, summarizing):
        memory.add_message("user", "Book the flight to Lisbon on 3 December.")

    assert plain.summary() == "- user: Book the flight to Lisbon on 3 December."
    assert summarizing.summary() == "They book a flight."
    assert AgentMemory(vector=False).summary() == ""
    assert len(plain.working) == 1


def test_a_given_working_memory_is_used() -> None:
    memory = AgentMemory(vector=False, working=WorkingMemory(max_messages=4, keep=2))
    for count in range(5):
        memory.add_message("user", f"The number {count} bus is late again.")

    assert (
        memory.get_recent_messages() == "user: The number 3 bus is late again.\nuser: The number 4 bus is late again."
    )
    assert "The number 0 bus is late again." in memory.summary()


def test_tool_calls_are_in_the_history_and_in_the_messages(memory: AgentMemory) -> None:
    memory.add_tool_call("menu", {"place": "Chez Lin"}, "tuna sushi")
    memory.add_tool_call("clock")

    assert [(call.name, call.arguments, call.result) for call in memory.tool_call_history] == [
        ("menu", {"place": "Chez Lin"}, "tuna sushi"),
        ("clock", {}, ""),
    ]
    assert memory.get_recent_messages() == "tool: menu(place='Chez Lin') -> tuna sushi\ntool: clock()"
    wrong: Any = ["Chez Lin"]
    with pytest.raises(ValueError, match=r"^arguments: \['Chez Lin'\] is not a mapping$"):
        memory.add_tool_call("menu", wrong)
    assert len(memory.tool_call_history) == len(memory.working) == 2


# --- experiences ----------------------------------------------------------------------------------------


def test_an_experience_is_recalled_by_its_words(memory: AgentMemory) -> None:
    key = memory.add_experience(PEANUTS, importance=9)
    memory.add_experience(SUSHI)

    [(found, text, score)] = memory.recall("what is Bob allergic to?", 1)
    assert (found, text) == (key, PEANUTS)
    assert 0 < score <= 1
    assert memory.long_term.meta(key) == {"importance": 9}
    assert memory.recall("lemonade") == memory.recall("") == []


def test_scores_separate_near_from_far(memory: AgentMemory) -> None:
    memory.add_experience(PEANUTS)
    memory.add_experience(SENCHA)

    near, far = memory.recall("Bob sencha morning")

    assert (near[1], far[1]) == (SENCHA, PEANUTS)
    assert near[2] > far[2] > 0
    assert memory.recall("Bob sencha morning", min_score=(near[2] + far[2]) / 2) == [near]


def test_the_same_text_is_stored_once_with_the_higher_importance(memory: AgentMemory) -> None:
    keys = {memory.add_experience(PEANUTS, importance) for importance in (2, 7, 3)}

    [key] = keys
    assert texts(memory, "peanuts") == [PEANUTS]
    assert memory.long_term.meta(key) == {"importance": 7}


def test_no_key_is_reused_for_another_text_after_a_forget(memory: AgentMemory) -> None:
    """Keys from `len()`, as in the guide, would overwrite the last memory."""
    first, second = memory.add_experience(PEANUTS), memory.add_experience(SENCHA)
    assert memory.forget(first)
    third = memory.add_experience(SUSHI)

    assert third != second
    assert (memory.long_term.get(second), memory.long_term.get(third)) == (SENCHA, SUSHI)
    assert not memory.forget(first)


def test_forget_deletes_messages_too(memory: AgentMemory) -> None:
    key = memory.add_message("user", "My card is 1234.")

    assert memory.forget(key)
    assert memory.get_recent_messages() == ""


def test_redacted_text_is_neither_in_the_memory_nor_in_its_name_nor_in_vectors() -> None:
    memory = AgentMemory()
    assert memory.vector is not None

    key = memory.add_experience("Alice pays by 4111111111111111.")
    with pytest.raises(SecretRefusedError, match=r"^text: holds github-token on line 1, which is not stored$"):
        memory.add_experience(f"Her token is ghp_{'a1B2c3D4' * 4}e5F6.")

    stored = [f"{found} {store.get(found)}" for store in (memory.long_term, memory.vector) for found in store.keys()]  # noqa: SIM118
    assert stored == [f"{key} Alice pays by [redacted: card]."] * 2
    assert "4111" not in key


@pytest.mark.parametrize("importance", [0, 11, -1, 2.5, True, None, "5"])
def test_an_invalid_importance_is_refused(memory: AgentMemory, importance: int) -> None:
    with pytest.raises(ValueError, match=r"^importance: .* is not a whole number from 1 to 10$"):
        memory.add_experience(PEANUTS, importance)
    assert memory.recall("peanuts") == []


@pytest.mark.parametrize("text", ["", "\n", None, 7, "\ud800"])
def test_an_experience_without_words_is_refused(memory: AgentMemory, text: str) -> None:
    with pytest.raises(ValueError, match=r"^text: "):
        memory.add_experience(text)


@pytest.mark.parametrize("arguments", [{"k": 0}, {"k": -1}, {"k": True}, {"min_score": 2}, {"min_score": "a"}])
def test_invalid_arguments_of_recall_are_refused(memory: AgentMemory, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^(k|min_score): "):
        memory.recall("peanuts", **arguments)


def test_a_query_that_is_not_a_text_is_refused(memory: AgentMemory) -> None:
    with pytest.raises(ValueError, match=r"^query: None is not a text$"):
        memory.recall(None)  # type: ignore[arg-type]


# --- in a vault -----------------------------------------------------------------------------------------


def test_experiences_are_files_that_stay(tmp_path: Path) -> None:
    with AgentMemory(vault=tmp_path / "notes", vector=False) as memory:
        key = memory.add_experience(PEANUTS, importance=9)

    [file] = (tmp_path / "notes" / "experiences").iterdir()
    assert file.name.startswith("bob-is-allergic-to-peanuts-traces-included-")
    assert file.read_text().endswith("importance: 9\n---\n\nBob is allergic to peanuts, traces included.\n")
    with AgentMemory(vault=tmp_path / "notes", vector=False) as memory:
        assert memory.recall("peanut allergy")[0][:2] == (key, PEANUTS)
        assert memory.forget(key)
        assert memory.recall("peanut allergy") == []
    assert len(list((tmp_path / "notes" / "archive").rglob("*.md"))) == 1


@pytest.mark.parametrize("vector", [False, True])
def test_recalled_memories_of_a_vault_are_counted_and_decay_slower(vault: Vault, vector: bool) -> None:
    memory = AgentMemory(vault=vault, vector=vector)
    key = memory.add_experience(PEANUTS)
    memory.add_experience(SUSHI)
    before = {path: path.read_bytes() for path in (vault.root / "experiences").iterdir()}

    memory.recall("what is Bob allergic to? peanuts?", k=1)
    memory.recall("submarines", min_score=1)
    memory.recall(" ")

    assert [times for times, _ in vault.usage.snapshot().values()] == [1]
    assert vault.usage.of(vault.read(f"experiences/{key}.md").id).times == 1
    assert vault.usage.ratio()[:2] == (2, 1)
    assert {path: path.read_bytes() for path in (vault.root / "experiences").iterdir()} == before


def test_persistent_uses_a_directory_here_or_the_vault_of_the_environment(tmp_path: Path) -> None:
    code = "from memfs import AgentMemory; AgentMemory(persistent=True, vector=False).add_experience('Tea at five.')"
    named = {"MEMFS_VAULT": str(tmp_path / "named")}

    for environment in ({}, named):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr

    folders = [path.relative_to(tmp_path).parts[0] for path in sorted(tmp_path.rglob("tea-at-five-*.md"))]
    assert folders == ["agent-memory", "named"]


def test_a_rewritten_memory_is_not_overwritten_by_the_old_text(tmp_path: Path) -> None:
    with AgentMemory(vault=tmp_path / "notes", vector=False) as memory:
        key = memory.add_experience(PEANUTS)
        [file] = (tmp_path / "notes" / "experiences").iterdir()
        file.write_text("Bob is allergic to hazelnuts, not to peanuts.\n")

        again = memory.add_experience(PEANUTS, importance=5)

        assert again != key
        assert file.read_text() == "Bob is allergic to hazelnuts, not to peanuts.\n"
        assert sorted(texts(memory, "allergic")) == ["Bob is allergic to hazelnuts, not to peanuts.", PEANUTS]


class Edited(VaultKeyedStore):
    """A vault store in which a person saves a file right after the agent has read its header."""

    def meta(self, key: str) -> dict[str, Any]:
        meta = super().meta(key)
        (self.vault.root / "experiences" / f"{key}.md").write_text("Bob is allergic to hazelnuts.\n")
        return meta


def test_an_edit_during_add_experience_is_not_overwritten(vault: Vault) -> None:
    memory = AgentMemory(long_term=Edited(vault, "/experiences"), vector=False)
    key = memory.add_experience(PEANUTS)

    again = memory.add_experience(PEANUTS, importance=5)

    assert memory.long_term.get(key) == "Bob is allergic to hazelnuts."
    assert (again != key, memory.long_term.get(again)) == (True, PEANUTS)


def test_an_open_vault_and_a_namespace_may_be_given(vault: Vault) -> None:
    memory = AgentMemory(vault=vault, namespace="/agents/anna", vector=False)
    memory.add_experience(SENCHA)
    memory.close()

    assert vault.search("sencha")[0].memory.path.startswith("agents/anna/bob-drinks-sencha")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"vault": "x", "long_term": InMemoryKeyedStore()}, "vault and long_term are both given"),
        ({"vector": False, "vector_store": InMemoryKeyedStore()}, "vector is False, and a vector_store is given"),
        ({"long_term": {}}, "long_term: {} is not a KeyedStore"),
        ({"vector_store": "redis://"}, "vector_store: 'redis://' is not a KeyedStore"),
    ],
)
def test_an_invalid_setup_is_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidSetupError, match=f"^AgentMemory: {reason}"):
        AgentMemory(**arguments)


def test_any_store_and_the_address_of_one_may_be_the_long_term_memory(tmp_path: Path) -> None:
    store = InMemoryKeyedStore()
    key = AgentMemory(vector=False, long_term=store).add_experience(SUSHI)
    assert store.get(key) == SUSHI

    with AgentMemory(vector=False, long_term=f"sqlite:///{tmp_path / 'memory.db'}") as memory:
        memory.add_experience(SUSHI)
    with AgentMemory(vector=False, long_term=f"sqlite:///{tmp_path / 'memory.db'}") as memory:
        assert texts(memory, "what does Alice like?") == [SUSHI]


# --- by meaning -----------------------------------------------------------------------------------------


def test_vectors_find_memories_without_a_common_word() -> None:
    memory = AgentMemory(vector_store=VectorStore())
    key = memory.add_experience("Alice takes the railway rather than an aircraft.")
    memory.add_experience("The invoice of the third quarter was paid.")
    memory.add_experience("Yuki tests on four phones.")

    assert memory.long_term.search("train or plane") == []
    assert memory.recall("train or plane", 1)[0][0] == key


def test_the_score_is_the_mean_of_words_and_meaning() -> None:
    memory = AgentMemory()
    assert memory.vector is not None
    key = memory.add_experience(PEANUTS)
    memory.add_experience(SENCHA)

    [(found, _, score), *_] = memory.recall("peanuts", 1)

    parts = [
        {hit[0]: hit[2] for hit in store.search("peanuts", 50)}[key] for store in (memory.long_term, memory.vector)
    ]
    assert found == key
    assert score == pytest.approx(sum(parts) / 2)


def test_hits_by_words_and_by_meaning_are_fused() -> None:
    words = [("a", "A", 1.0), ("b", "B", 0.5)]
    meaning = [("c", "C", 0.9), ("a", "A", 0.4), ("b", "old", 0.5)]

    assert fuse(words, meaning) == [("a", "A", 0.7), ("b", "B", 0.5), ("c", "C", 0.45)]
    assert fuse([], []) == []


def test_forget_deletes_the_vector_too() -> None:
    vectors = VectorStore()
    memory = AgentMemory(vector_store=vectors)
    key = memory.add_experience(PEANUTS)
    memory.add_experience(PEANUTS)
    assert vectors.keys() == [key]

    assert memory.forget(key)

    assert (vectors.keys(), memory.recall("peanuts")) == ([], [])


def test_a_new_process_recalls_by_meaning_what_an_earlier_one_stored(tmp_path: Path) -> None:
    with AgentMemory(vault=tmp_path, vector=False) as memory:
        memory.add_experience("Alice takes the railway rather than an aircraft.")

    with AgentMemory(vault=tmp_path) as memory:
        assert texts(memory, "train or plane") == ["Alice takes the railway rather than an aircraft."]


def test_an_edited_memory_is_recalled_with_its_new_text(tmp_path: Path) -> None:
    with AgentMemory(vault=tmp_path) as memory:
        keys = [memory.add_experience(text) for text in (PEANUTS, SENCHA, SUSHI)]
        assert len(memory.recall("what about Bob and Alice?")) == 3
        files = {key: tmp_path / "experiences" / f"{key}.md" for key in keys}
        files[keys[0]].unlink()
        files[keys[1]].write_text("Bob drinks oolong in the morning.\n")
        (tmp_path / "experiences" / "rail.md").write_text("The night train has a quiet coach.\n")

        assert sorted(texts(memory, "what does Bob drink, and Alice like?")) == [
            SUSHI, "Bob drinks oolong in the morning.",
        ]  # fmt: skip
        assert texts(memory, "peanuts allergic traces", 1) != [PEANUTS]
        memory.refresh()
        assert texts(memory, "railway sleeper carriage", 1) == ["The night train has a quiet coach."]
        assert memory.vector is not None
        assert memory.vector.keys() == sorted([*keys[1:], "rail"])


def test_vectors_over_the_long_term_memory_itself_change_nothing_in_it(tmp_path: Path) -> None:
    store = VaultKeyedStore(tmp_path)
    memory = AgentMemory(long_term=store, vector_store=VectorStore(store=store))

    key = memory.add_experience(PEANUTS, importance=9)

    [file] = (tmp_path / "memories").iterdir()
    before = file.read_bytes()
    assert memory.recall("nut allergy", 1)[0][:2] == (key, PEANUTS)
    memory.refresh()
    assert (file.read_bytes(), store.meta(key)) == (before, {"importance": 9})
    assert b"updated" not in before
    assert memory.forget(key)
    assert memory.recall("nut allergy") == []


class Broken(InMemoryKeyedStore):
    """A store whose server is unavailable."""

    is_away = True

    def add(self, key: str, value: str, meta: Any = None) -> None:
        if self.is_away:
            raise ConnectionError("the server is away")
        super().add(key, value, meta)


def test_if_vectors_fail_recall_uses_words_and_nothing_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    vectors = Broken()
    memory = AgentMemory(vector_store=vectors)

    key = memory.add_experience(PEANUTS)

    assert [hit[0] for hit in memory.recall("peanuts")] == [key]
    assert "is found by words only: the server is away" in caplog.text
    assert "recall uses words only, because the vector store failed: the server is away" in caplog.text
    vectors.is_away = False
    assert [hit[0] for hit in memory.recall("peanuts")] == [key]
    assert vectors.keys() == [key]


def test_without_the_extra_recall_uses_words_only_and_warns_once(tmp_path: Path) -> None:
    """Run with the packages of this environment except those of the extra."""
    for package in Path(sysconfig.get_path("platlib")).iterdir():
        if not package.name.startswith(("wordllama", "tokenizers", "numpy")):
            (tmp_path / package.name).symlink_to(package)
    code = (
        "import logging; logging.basicConfig(format='%(message)s')\n"
        "from memfs import AgentMemory\n"
        "first, second = AgentMemory(), AgentMemory()\n"
        "assert first.vector is second.vector is None\n"
        "first.add_experience('Tea at five.')\n"
        "print(first.recall('tea')[0][1])\n"
    )

    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": f"{tmp_path}:{REPOSITORY}"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, "Tea at five.\n"), done.stderr
    assert done.stderr == "recall uses words only: pip install 'memfs-vault[semantic]' adds search by meaning\n"


# --- threads, and names ---------------------------------------------------------------------------------


def test_many_threads_add_experiences_and_lose_nothing() -> None:
    memory = AgentMemory()
    errors: list[BaseException] = []

    def live(name: int) -> None:
        try:
            for count in range(25):
                key = memory.add_experience(f"Agent {name} saw ship number {count}.")
                memory.add_message("user", f"Agent {name}, {count}.")
                assert memory.recall(f"agent {name} ship {count}", 3)
                if count % 5 == 0:
                    assert memory.forget(key)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=live, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert errors == []
    assert memory.vector is not None
    assert len(memory.long_term.keys()) == len(memory.vector.keys()) == 80


def test_enhanced_agent_memory_is_the_same_class() -> None:
    assert EnhancedAgentMemory is AgentMemory
    assert isinstance(EnhancedAgentMemory(vector=False).long_term, KeyedStore)
