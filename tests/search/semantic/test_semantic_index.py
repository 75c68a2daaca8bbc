"""Semantic search: paraphrases are found at once and under every filter; without it, numpy is not even imported."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.engines import EngineOf
from support.people import CODING, fill
from support.vaults import paths

from benchmarks.ranking import QUESTIONS
from memfs import Vault
from memfs.embedding import default_embedder
from memfs.fs.files import STATE_DIR
from memfs.index.document_builder import embedding_text
from memfs.search.semantic.nearest_vectors import live_rows
from memfs.search.semantic.vector_file import VECTORS_DIR

NOW = datetime(2026, 11, 16, tzinfo=UTC)
PARAPHRASES = {  # questions that a search by words does not answer
    "which nuts make him ill?": "facts/bob/allergic-to-peanuts.md",
    "what beverage does he have at breakfast?": "preferences/bob/drinks-sencha.md",
    "caffeine habits": "preferences/bob/drinks-sencha.md",
    "favourite fish dish": "preferences/alice/likes-tuna-sushi.md",
    "raw seafood with rice": "preferences/alice/likes-tuna-sushi.md",
    "does she fly or go by rail?": "preferences/alice/train-over-plane.md",
    "railway or aircraft?": "preferences/alice/train-over-plane.md",
    "tooth doctor appointment": "notes/dentist.md",
    "bad teeth": "notes/dentist.md",
    "where is his apartment?": "facts/bob/lives-in-croix-rousse.md",
    "when should nobody schedule appointments?": "preferences/alice/no-meetings-before-ten.md",
    "how should criticism be delivered?": "preferences/alice/feedback-in-writing.md",
    "journey to Japan": "facts/bob/in-tokyo-in-december.md",
    "rules for altering a schema": "projects/atlas/feedback_small_migrations.md",
    "geographic data storage": "facts/atlas/offline-maps-in-sqlite.md",
    "sibling": "people/emma.md",
}
SUSHI, BUILD = "Alice likes sushi with tuna.", "The build server is red since Monday."


@pytest.fixture
def lexical(example: Path) -> Vault:
    return Vault(example, clock=lambda: NOW)


@pytest.fixture
def semantic(example: Path) -> Vault:
    return Vault(example, clock=lambda: NOW, embedder=default_embedder())


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    """An empty vault with semantic search."""
    Vault.init(tmp_path / "vault")
    with Vault(tmp_path / "vault", embedder=default_embedder()) as made:
        yield made


# --- hits


@pytest.mark.parametrize("question", PARAPHRASES)
def test_a_paraphrase_is_found(lexical: Vault, semantic: Vault, question: str) -> None:
    assert PARAPHRASES[question] not in paths(lexical, question, limit=5)
    assert PARAPHRASES[question] in paths(semantic, question, limit=5)


def test_hits_of_a_search_lexical_do_not_rank_lower(lexical: Vault, semantic: Vault) -> None:
    def shares(vault: Vault) -> float:
        found = [(paths(vault, question), path) for question, path in QUESTIONS.items()]
        return sum(1 / (hits.index(path) + 1) for hits, path in found if path in hits)

    assert shares(semantic) >= shares(lexical)


def test_the_relevance_of_hits_lexical_does_not_fall(lexical: Vault, semantic: Vault) -> None:
    fallen = []
    for question in (*QUESTIONS, *PARAPHRASES, *CODING):
        relevance = {hit.memory.path: hit.relevance for hit in semantic.search(question, limit=1000)}
        found = lexical.search(question, limit=1000)
        fallen += [
            (question, hit.memory.path) for hit in found if relevance.get(hit.memory.path, 0) < hit.relevance - 1e-6
        ]

    assert fallen == []


def test_min_relevance_keeps_similar_memories(semantic: Vault) -> None:
    found = [path in paths(semantic, question, min_relevance=0.2) for question, path in PARAPHRASES.items()]

    assert sum(found) >= 0.6 * len(found)
    assert all(hit.relevance >= 0.2 for hit in semantic.search("railway or aircraft?", min_relevance=0.2))


@pytest.mark.parametrize("number", [15, 1000, 5000])
def test_min_relevance_drops_the_hits_of_off_topic_questions(tmp_path: Path, semantic: Vault, number: int) -> None:
    fill(tmp_path / "people", number)
    with Vault(tmp_path / "people", embedder=default_embedder()) as people:
        for vault in (people, semantic):
            answered = [question for question in CODING if vault.search(question, min_relevance=0.2)]

            assert len(answered) <= 2, answered


def test_explain_and_explain_miss_show_the_similarity(semantic: Vault) -> None:
    hit = semantic.search("bad teeth", explain=True)[0]
    missed = semantic.explain_miss("people/claire.md", "bad teeth")
    cut = semantic.explain_miss("notes/dentist.md", "bad teeth", min_relevance=0.9)

    assert hit.memory.path == "notes/dentist.md"
    assert [reason.score > 0 for reason in hit.why if reason.text.startswith("similarity: 0.4")] == [True]
    assert any(reason.text.startswith("similarity: 0.0") for reason in missed)
    assert missed[0].text == "it has none of the words of the question"
    assert "is below 0.90" in cut[0].text
    assert semantic.explain_miss("notes/dentist.md", "bad teeth")[0].text.startswith("it is hit 1")


def test_a_phrase_or_a_prefix_is_searched_lexical_only(semantic: Vault) -> None:
    assert paths(semantic, "teet*") == []
    assert "notes/dentist.md" in paths(semantic, '"bad teeth"')  # which no memory has: its words are looked for


@pytest.mark.parametrize("question", ["", "   ", "?!", "\ud800", "東京", "x" * 5000, "the of", "🦷", "\0"])
def test_any_text_is_a_question(semantic: Vault, question: str, caplog: pytest.LogCaptureFixture) -> None:
    semantic.search(question)

    assert caplog.records == []


# --- freshness


def test_a_changed_file_is_compared_with_its_new_text(vault: Vault) -> None:
    vault.add(BUILD, "/facts")
    file = vault.root / "facts" / "a.md"
    file.write_text(SUSHI, encoding="utf-8")
    assert paths(vault, "favourite fish dish") == ["facts/a.md"]
    file.write_text("Bob plays the violin.\n", encoding="utf-8")

    assert paths(vault, "favourite fish dish") == []
    assert paths(vault, "musical instrument") == ["facts/a.md"]
    file.unlink()
    assert paths(vault, "musical instrument") == []


def test_unpublished_and_published_memories_are_found_alike(vault: Vault) -> None:
    vault.add_many({"text": f"Note {number} of the gardener.", "namespace": "/notes"} for number in range(30))
    vault.sync()
    vault.add(SUSHI, "/facts")
    before = [(hit.memory.path, round(hit.relevance, 3)) for hit in vault.search("favourite fish dish", limit=1)]
    assert vault.status().pending == 1
    vault.sync()
    after = [(hit.memory.path, round(hit.relevance, 3)) for hit in vault.search("favourite fish dish", limit=1)]

    assert before == after
    assert before[0][1] > 0.1


def test_a_moved_memory_is_found_at_its_new_path(vault: Vault) -> None:
    added = vault.add(SUSHI, "/facts")
    vault.sync()
    moved = vault.move(added.path, "/food")

    assert paths(vault, "favourite fish dish") == [moved.path]
    vault.sync()
    assert paths(vault, "favourite fish dish") == [moved.path]


def test_a_memory_of_another_process_is_found_at_once(vault: Vault) -> None:
    vault.add(BUILD, "/facts")
    vault.search("anything")
    code = "import sys; from memfs import Vault; print(Vault(sys.argv[1]).add(sys.argv[2], '/facts').path)"
    done = subprocess.run([sys.executable, "-c", code, vault.root, SUSHI], capture_output=True, text=True, check=True)

    assert paths(vault, "favourite fish dish") == [done.stdout.strip()]


def test_each_text_is_embedded_once(tmp_path: Path) -> None:
    Vault.init(tmp_path / "vault")
    embedder = Counting()
    with Vault(tmp_path / "vault", embedder=embedder) as vault:
        vault.add_many({"text": f"Memory {number} of tea.", "namespace": "/notes"} for number in range(40))
        vault.search("tea")
        vault.search("tea")
    with Vault(tmp_path / "vault", embedder=embedder) as vault:
        vault.search("tea")
        vault.sync()

    assert sorted(text for text in embedder.texts if "Memory" in text) == sorted(
        {text for text in embedder.texts if "Memory" in text}
    )


def test_a_sync_embeds_all_memories_and_reports_progress(tmp_path: Path) -> None:
    fill(tmp_path, 50)
    with Vault(tmp_path) as vault:
        vault.sync()
    progress: list[tuple[int, int]] = []
    with Vault(tmp_path, embedder=default_embedder()) as vault:
        vault.sync(lambda done, total: progress.append((done, total)))

    assert progress[-1] == (50, 50)
    assert (tmp_path / STATE_DIR / VECTORS_DIR).is_dir()


def test_a_removed_memory_leaves_no_vector(vault: Vault) -> None:
    kept = vault.add(BUILD, "/facts")
    removed = vault.add(SUSHI, "/facts")
    vault.sync()
    vault.search("fish")
    [file] = (vault.root / STATE_DIR / VECTORS_DIR).iterdir()
    size = file.stat().st_size
    vault.remove(removed.path)
    vault.close()

    assert file.stat().st_size == size // 2
    assert paths(vault, "is the server fine?") == [kept.path]


def test_unused_vectors_do_not_accumulate(tmp_path: Path) -> None:
    Vault.init(tmp_path / "vault")
    with Vault(tmp_path / "vault", embedder=Counting()) as vault:
        added = vault.add("Tea at noon.", "/notes")
        for number in range(320):
            vault.update(added.path, body=f"Tea at {number}.\n")
            if number % 50 == 0:
                vault.sync()
            vault.search("tea")
        vault.sync()
        [file] = (vault.root / STATE_DIR / VECTORS_DIR).iterdir()

        assert file.stat().st_size < 260 * 24  # bytes of a record


# --- filters


def test_filters_apply_to_similar_memories(vault: Vault) -> None:
    vault.add(SUSHI, "/facts/alice", type="fact", tags=["food"])
    vault.add("Bob likes sashimi.", "/facts/bob", type="preference")
    vault.add("Carol likes nigiri.", "/facts/carol", expires="2020-01-01")
    vault.add("Dan likes maki.", "/facts/dan", status="deprecated")
    old = vault.add("Emma likes onigiri.", "/facts/emma")
    vault.add("Emma likes futomaki.", "/facts/emma", supersedes=f"[[{old.path}]]")
    vault.forget(vault.add("Fay likes temaki.", "/facts/fay").path)

    def found(**options: Any) -> set[str]:
        return {path.split("/")[-2] + "/" + path[-7:-3] for path in paths(vault, "favourite fish dish", **options)}

    for _ in ("pending", "published"):
        assert "alice/tuna" in found()
        assert {path.partition("/")[0] for path in found()} <= {"alice", "bob", "emma"}
        assert {path.partition("/")[0] for path in found(namespace="/facts/bob")} <= {"bob"}
        assert found(type="fact") == {"alice/tuna"} == found(tags=["food"]) == found(where={"type": "fact"})
        assert paths(vault.scope("/facts/bob"), "tuna") == paths(vault, "tuna", namespace="/facts/bob")
        assert old.path not in paths(vault, "favourite fish dish")
        vault.sync()


def test_a_narrow_filter_finds_a_memory_behind_many_nearer_ones(tmp_path: Path) -> None:
    Vault.init(tmp_path / "vault")
    with Vault(tmp_path / "vault", embedder=default_embedder()) as vault:
        vault.add_many({"text": f"Sushi, sashimi, maki, no. {n}.", "namespace": "/menu"} for n in range(400))
        hidden = vault.add(SUSHI, "/facts/alice")
        vault.sync()

        assert hidden.path not in paths(vault, "Japanese food", limit=20)
        assert paths(vault, "Japanese food", namespace="/facts") == [hidden.path]


# --- conversations

OCEAN = ("Bob: We went to the ocean with the children.", "Bob: They built castles of sand.", "Ada: The waves!")
OFFICE = ("Bob: We printed the invoices.", "Bob: They built castles of sand.", "Ada: The printer jams.")


def test_the_messages_around_a_memory_count_for_its_similarity(vault: Vault) -> None:
    for place, talk in (("office", OFFICE), ("ocean", OCEAN)):
        for number, text in enumerate(talk, 1):
            vault.add(text, f"/chat/{place}", source=f"session s-1, message {number}")

    for _ in ("pending", "published"):
        hits = vault.search("a holiday on the beach", limit=20)
        castles = {hit.memory.path.split("/")[1]: hit for hit in hits if hit.memory.body == OCEAN[1]}
        assert castles["ocean"].rank > 1.2 * castles["office"].rank
        assert castles["ocean"].relevance == castles["office"].relevance
        vault.sync()


def test_a_message_that_is_a_question_ranks_below_a_statement(vault: Vault) -> None:
    for number, text in enumerate(("Ada: Do you like the sea?", "Bob: I do like the sea."), 1):
        vault.add(text, "/chat", source=f"session s-{number}, message 1")
    hits = vault.search("is the ocean liked?", explain=True)

    assert [hit.memory.body.partition(":")[0] for hit in hits] == ["Bob", "Ada"]
    assert [reason.score < 0 for reason in hits[1].why if reason.text == "it is a question itself"] == [True]


# --- settings, and missing packages


def test_the_setting_turns_semantic_search_on(example: Path) -> None:
    with (example / "memfs.yaml").open("a", encoding="utf-8") as settings:
        settings.write("retrieval:\n  semantic: true\n")
    with Vault(example) as vault:
        assert vault.status().semantic == default_embedder().name
        assert paths(vault, "bad teeth", limit=1) == ["notes/dentist.md"]


def script(code: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    start = "import sys, json\n"
    command = [sys.executable, "-c", start + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def test_without_semantic_search_numpy_is_not_imported_and_no_vectors_are_kept(example: Path) -> None:
    done = script(
        "from memfs import Vault\n"
        "with Vault(sys.argv[1]) as vault:\n"
        "    vault.sync(); hits = vault.search('what does Alice eat?', explain=True); vault.status()\n"
        "    vault.explain_miss('notes/dentist.md', 'bad teeth'); vault.remove('notes/dentist.md')\n"
        "print(json.dumps([len(hits), sorted(sys.modules)]))",
        example,
    )
    number, modules = json.loads(done.stdout)

    assert number > 0
    assert {
        "numpy",
        "tokenizers",
        "wordllama",
        "memfs.search.semantic.semantic_index",
        "memfs.search.semantic.vector_file",
    }.isdisjoint(modules)
    assert not (example / STATE_DIR / VECTORS_DIR).exists()


@pytest.mark.parametrize("missing", ["numpy", "wordllama", "tokenizers"])
def test_without_the_extra_the_search_is_lexical_and_warns_once(example: Path, missing: str) -> None:
    with (example / "memfs.yaml").open("a", encoding="utf-8") as settings:
        settings.write("retrieval:\n  semantic: true\n")
    done = script(
        f"sys.modules[{missing!r}] = None  # what is not installed cannot be imported\n"
        "import logging; logging.basicConfig(format='%(levelname)s %(message)s')\n"
        "from memfs import Vault\n"
        "with Vault(sys.argv[1]) as vault:\n"
        "    found = [vault.search(question) for question in ('bad teeth', 'peanut allergy', 'sushi')]\n"
        "    vault.sync()\n"
        "    status = vault.status()\n"
        "print(json.dumps([[len(hits) for hits in found], status.semantic, status.trouble]))",
        example,
    )
    found, semantic, trouble = json.loads(done.stdout)

    assert found[0] == 0
    assert min(found[1:]) > 0
    assert semantic == "missing"
    assert trouble in done.stderr
    assert done.stderr.count("pip install 'memfs-vault[semantic]'") == 1


COMMAND = "from memfs.cli.main import main; print('exit code', main(sys.argv[1:]), file=sys.stderr)"


def test_the_command_has_an_option_for_semantic_search(example: Path) -> None:
    where = ("--vault", example, "--json")
    words = json.loads(script(COMMAND, "search", "bad", "teeth", *where).stdout)
    hits = json.loads(script(COMMAND, "search", "--semantic", "--explain", "bad", "teeth", *where).stdout)
    missed = json.loads(script(COMMAND, "explain-miss", "people/claire", "--semantic", "bad teeth", *where).stdout)

    assert words == []
    assert hits[0]["path"] == "notes/dentist.md"
    assert any(reason["text"].startswith("similarity: 0.4") for reason in hits[0]["why"])
    assert any(reason["text"].startswith("similarity: 0.0") for reason in missed["reasons"])


def test_the_command_refuses_missing_packages_and_status_shows_them(example: Path) -> None:
    without = "sys.modules['wordllama'] = None\n" + COMMAND
    refused = script(without, "search", "--semantic", "bad teeth", "--vault", example)
    with (example / "memfs.yaml").open("a", encoding="utf-8") as settings:
        settings.write("retrieval:\n  semantic: true\n")
    warned = script(without, "search", "peanut", "allergy", "--paths", "--vault", example)
    status = script(without, "status", "--vault", example)
    fine = script(COMMAND, "status", "--vault", example)

    assert "hint: Install it: pip install 'memfs-vault[semantic]'.\nexit code 2" in refused.stderr
    assert warned.stdout == "facts/bob/allergic-to-peanuts.md\npeople/bob.md\n"
    assert warned.stderr.count("memfs: warning: search by meaning is not installed") == 1
    assert "  meaning    not installed: searches use words only\n" in status.stdout
    assert "pip install" in status.stdout
    assert f"  meaning    by {default_embedder().name}\n" in fine.stdout


def test_removing_a_memory_without_numpy_deletes_all_vectors(example: Path) -> None:
    with Vault(example, embedder=default_embedder()) as vault:
        vault.search("bad teeth")
    script(
        "sys.modules['numpy'] = None\nfrom memfs import Vault\n"
        "with Vault(sys.argv[1]) as vault: vault.search('x'); vault.remove('notes/dentist.md')",
        example,
    )

    assert not (example / STATE_DIR / VECTORS_DIR).exists()


# --- custom embedders


class Counting:
    """An embedder that counts letters, returns lists and records its texts."""

    name = "letters"

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.fails: Exception | None = None
        self.answers: Any = None

    def embed(self, texts: Sequence[str]) -> Any:
        if self.fails:
            raise self.fails
        self.texts += texts
        found = [[float(text.lower().count(letter)) + 0.1 for letter in "etaoinsr"] for text in texts]
        return found if self.answers is None else self.answers


def test_a_custom_embedder_is_used(tmp_path: Path) -> None:
    Vault.init(tmp_path / "vault")
    with Vault(tmp_path / "vault", embedder=Counting()) as vault:
        vault.add("tattoo", "/notes")
        vault.add("riesig", "/notes")

        assert paths(vault, "toast")[0] == "notes/tattoo.md"
        assert vault.status().semantic == "letters"


@pytest.mark.parametrize("answers", [[[1.0] * 8], [1.0], "nonsense", [], None])
def test_an_embedder_that_fails_is_reported_and_the_search_is_lexical(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answers: Any
) -> None:
    Vault.init(tmp_path / "vault")
    embedder = Counting()
    with Vault(tmp_path / "vault", embedder=embedder) as vault, caplog.at_level(logging.WARNING, "memfs"):
        vault.add("Green tea.", "/notes")
        vault.add("Black coffee.", "/notes")
        if answers is None:
            embedder.fails = ConnectionError("no route to the model")
        embedder.answers = answers

        assert paths(vault, "tea") == ["notes/green-tea.md"]
        assert paths(vault, "tea") == ["notes/green-tea.md"]
        assert len(caplog.records) == 1
        report = vault.sync()
        assert [problem.path for problem in report.problems] == [f"{STATE_DIR}/{VECTORS_DIR}"]
        assert vault.status().trouble
        embedder.fails = embedder.answers = None
        assert len(vault.search("tea")) == 2
        assert not vault.status().trouble


# --- damage


@pytest.mark.parametrize("damage", ["gone", "halved", "zeroed", "noise"])
def test_damaged_vectors_are_embedded_again(semantic: Vault, damage: str) -> None:
    assert paths(semantic, "bad teeth", limit=1) == ["notes/dentist.md"]
    [file] = (semantic.root / STATE_DIR / VECTORS_DIR).iterdir()
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes({"halved": data[: len(data) // 2], "zeroed": bytes(len(data)), "noise": data[::-1]}[damage])

    assert paths(semantic, "bad teeth", limit=1) == ["notes/dentist.md"]
    assert paths(Vault(semantic.root, embedder=default_embedder()), "bad teeth", limit=1) == ["notes/dentist.md"]


def test_semantic_search_works_where_vectors_cannot_be_written(example: Path) -> None:
    (example / STATE_DIR).mkdir()
    (example / STATE_DIR / VECTORS_DIR).write_text("somebody's file")

    assert paths(Vault(example, embedder=default_embedder()), "bad teeth", limit=1) == ["notes/dentist.md"]


def test_git_ignores_the_vectors(semantic: Vault, git: Any) -> None:
    git(semantic.root, "init", "-q")
    git(semantic.root, "add", "-A")
    git(semantic.root, "commit", "-qm", "all")
    semantic.search("bad teeth")

    assert (semantic.root / STATE_DIR / VECTORS_DIR).is_dir()
    assert git(semantic.root, "status", "--porcelain") == ""


# --- the text that is embedded


def test_a_file_name_made_of_the_text_is_not_embedded(vault: Vault) -> None:
    untitled = vault.read(vault.add("Tea at noon. Every day.", "/notes").path)
    second = vault.read(vault.add("Tea at noon. Every day!", "/notes").path)
    titled = vault.read(vault.add("At noon.", "/notes", title="Tea time", tags=["drinks"]).path)
    (vault.root / "notes" / "five_o-clock.md").write_text("Milk first.\n", encoding="utf-8")

    assert embedding_text(untitled).split("\n") == ["", "Tea at noon. Every day."]
    assert second.path.endswith("-2.md")
    assert embedding_text(second).startswith("\nTea")
    assert embedding_text(titled).split("\n")[:3] == ["", "Tea time", "drinks"]
    assert embedding_text(vault.read("notes/five_o-clock.md")).startswith("five o-clock\nMilk")


def test_rows_of_deleted_memories_are_not_compared(engine_of: EngineOf, vault: Vault) -> None:
    vault.add_many({"text": f"Note {number}.", "namespace": "/notes"} for number in range(60))
    vault.sync()
    for memory in vault.list("/notes")[:20]:
        os.unlink(vault.root / memory.path)
    vault.sync()
    rows, keys = live_rows(engine_of(vault).freshness.index.row_table)

    assert len(rows) == len(keys) == 40
    assert sorted(rows) == sorted(engine_of(vault).freshness.index.all_rows())
