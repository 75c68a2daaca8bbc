"""What a question finds: any text is one, the right memory comes first, and relevance means the same everywhere."""

import random
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
from support.people import CODING, MORE_CODING, SENTENCES_ABOUT_PEOPLE, fill
from support.questions import HUGE, ODD, crowd, slowest_answer
from support.vaults import paths

from memfs import Change, Hit, Vault
from memfs.errors import InvalidNamespaceError, InvalidSearchError, MemoryNotFoundError
from memfs.index.tantivy_analyzer import Analyzer
from memfs.query.question import RELEVANCE_EXPONENT
from memfs.query.tokens import LANGUAGES

EXAMPLE = Path(__file__).parents[2] / "example-vault"
NOW = datetime(2026, 11, 16, tzinfo=UTC)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    """A copy of the example vault, on the day after its last memory."""
    root = tmp_path_factory.mktemp("example") / "vault"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns(".memfs"))
    with Vault(root, clock=lambda: NOW) as vault:
        yield vault


# --- fast path and general path -----------------------------------------------------------------------


def test_the_fast_path_returns_the_same_hits_as_the_general_path(tmp_path: Path) -> None:
    fill(tmp_path / "vault", 300)
    with Vault(tmp_path / "vault", clock=lambda: NOW) as vault:
        first, second, third, fourth, fifth, *_ = vault.list()
        vault.update(first.path, supersedes=[second.path])
        vault.update(third.path, expires="2026-11-01")
        vault.update(fourth.path, status="deprecated")
        vault.forget(fifth.path)
        vault.sync()
        chance = random.Random(4)
        words = sorted({word for memory in vault.list() for word in re.findall(r"\w+", memory.body)})
        questions = [" ".join(chance.sample(words, chance.randint(1, 6))) for _ in range(150)]
        questions += ['"red wine" sushi', "mar* coffee", second.body, third.body, fourth.body, fifth.body]
        choices: list[dict[str, Any]] = [
            {},
            {"include": "all"},
            {"namespace": "/people"},
            {"where": {"status": "stable"}},
        ]
        options = [(chance.randint(1, 12), chance.choice(choices)) for _ in questions]
        short = [
            shown(vault.search(text, limit=limit, **more))
            for text, (limit, more) in zip(questions, options, strict=True)
        ]
        for text, (limit, more), hits in zip(questions, options, short, strict=True):
            assert hits == shown(vault.search(text, limit=limit, explain=True, **more))
            assert hits == shown(vault.search(text, limit=13, **more)[:limit])
        assert sum(map(len, short)) > 800


def shown(hits: list[Hit]) -> list[tuple[object, ...]]:
    return [(hit.memory, pytest.approx(hit.rank), pytest.approx(hit.relevance), hit.snippet, hit.marks) for hit in hits]


# --- the right memory first ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    """Each of these among 300 memories about people."""
    with Vault(crowd(tmp_path_factory.mktemp("crowded") / "vault")) as vault:
        yield vault


@pytest.mark.parametrize(("number", "question"), list(enumerate(ODD)))
def test_an_odd_question_finds_its_memory_first(crowded: Vault, number: int, question: str) -> None:
    assert paths(crowded, question, limit=3)[:1] == [f"odd/memory-{number}.md"]


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("peanut allergy", "facts/bob/allergic-to-peanuts.md"),
        ("what does Alice eat?", "preferences/alice/likes-tuna-sushi.md"),
        ("atlas due", "facts/alice/atlas-deadline.md"),
        ("where does bob live", "facts/bob/lives-in-croix-rousse.md"),
        ("climbing grade of Alice", "facts/alice/climbs-6c.md"),
        ("trip to zurich", "notes/Zürich trip.md"),
        ("東京", "notes/東京 office.md"),
    ],
)
def test_the_example_vault_answers(example: Vault, question: str, path: str) -> None:
    assert paths(example, question)[0] == path


def test_any_text_is_a_question_and_takes_bounded_time(crowded: Vault) -> None:
    assert slowest_answer(crowded, 20_000, 2026) < 5


@pytest.mark.parametrize("question", HUGE)
def test_a_huge_question_has_hits(crowded: Vault, question: str) -> None:
    crowded.search(question)


def test_long_noise_does_not_hide_the_right_memory(crowded: Vault) -> None:
    assert paths(crowded, "lighthouse keeper " + "(" * 10_000)[0].startswith("odd/")


# --- words, phrases, prefixes -------------------------------------------------------------------------


def test_a_phrase_in_quotes_is_required_where_a_memory_has_it(vault: Vault) -> None:
    first = vault.add("The red door of the old barn.", "n")
    vault.add("The old door is red, and the barn too.", "n")

    assert paths(vault, '"old barn"') == [first.path]
    assert len(paths(vault, "old barn")) == 2


def test_a_phrase_that_no_memory_has_is_searched_by_its_words(vault: Vault) -> None:
    added = vault.add("The old door is red, and the barn too.", "n")

    assert paths(vault, '"old barn"') == [added.path]


def test_a_page_behind_the_last_hit_of_a_phrase_is_empty(vault: Vault) -> None:
    vault.add("The red door of the old barn.", "n")
    vault.add("The old door is red, and the barn too.", "n")

    assert paths(vault, '"old barn"', offset=1) == []
    assert len(paths(vault, '"barn old"', offset=1)) == 1


def test_a_prefix_finds_words_that_begin_so(vault: Vault) -> None:
    first = vault.add("A photographer came.", "n")
    vault.add("The phone rang.", "n")

    assert paths(vault, "photo*") == [first.path]


@pytest.mark.parametrize("committed", [False, True])
def test_unpublished_and_published_memories_are_found_alike(vault: Vault, committed: bool) -> None:
    vault.search("nothing yet")
    texts = ("Karl likes the jazz club.", "The jazz festival is in July.", "Nothing to see, 東京 aside.")
    added = [vault.add(text, "n") for text in texts]
    if committed:
        vault.sync()

    assert set(paths(vault, "jazz")) == {added[0].path, added[1].path}
    assert paths(vault, '"jazz club"') == [added[0].path]
    assert paths(vault, "festi*") == [added[1].path]
    assert paths(vault, "東京") == [added[2].path]
    assert vault.status().pending == (0 if committed else 3)


@pytest.mark.parametrize(
    ("language", "text", "question"),
    [
        ("german", "Die Häuser am See sind verkauft.", "Haus am See"),
        ("french", "Les chevaux sont dans la prairie.", "cheval prairies"),
        ("spanish", "Las canciones de mi abuela.", "canción"),
    ],
)
def test_a_language_has_its_own_stems(tmp_path: Path, language: str, text: str, question: str) -> None:
    with Vault.init(tmp_path / "v") as vault:
        added = vault.add(text, "n")
        vault.search("x")
    (tmp_path / "v" / "memfs.yaml").write_text(f"version: 1\nretrieval:\n  language: {language}\n")

    with Vault(tmp_path / "v") as vault:
        assert paths(vault, question)[:1] == [added.path]


# --- bounds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1, 5_000_000_000, 5e9, 1001, True, "3", 2.0])
def test_an_invalid_limit_is_refused(vault: Vault, limit: Any) -> None:
    with pytest.raises(InvalidSearchError, match=r"limit: .* is not a whole number from 1 to 1000"):
        vault.search("x", limit=limit)


def test_a_limit_may_be_a_member_of_an_enumeration(vault: Vault) -> None:
    Size = IntEnum("Size", {"FEW": 3})  # noqa: N806
    assert vault.search("alice", limit=Size.FEW) == vault.search("alice", limit=3)


def test_limit_none_is_the_default_limit(crowded: Vault) -> None:
    assert len(crowded.search("dinner", limit=None)) == 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"offset": -1}, "offset: -1"),
        ({"offset": 1_000_000}, "offset: 1000000"),
        ({"min_relevance": 1.5}, "min_relevance: 1.5"),
        ({"min_relevance": "0.5"}, "min_relevance: '0.5'"),
        ({"min_relevance": float("nan")}, "min_relevance: nan"),
        ({"typ": "fact"}, "typ: no such filter; known: created, include"),
        ({"created": "yesterday"}, "created: 'yesterday'"),
        ({"where": [("a", "LIKE", "b")]}, "where: unknown operator 'LIKE'"),
    ],
)
def test_an_invalid_option_is_refused(vault: Vault, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSearchError) as caught:
        vault.search("x", **options)

    assert str(caught.value).startswith(words)
    assert caught.value.exit_code == 2


def test_a_question_that_is_not_a_text_is_refused(vault: Vault) -> None:
    with pytest.raises(InvalidSearchError, match="question: 3 is not a text"):
        vault.search(3)  # type: ignore[arg-type]


def test_consecutive_pages_hold_consecutive_hits(crowded: Vault) -> None:
    together = paths(crowded, "dinner coffee school", limit=40)

    pages = [
        path for start in range(0, 40, 7) for path in paths(crowded, "dinner coffee school", limit=7, offset=start)
    ]
    assert pages[:40] == together


# --- default exclusions and filters -------------------------------------------------------------------


def test_expired_archived_deprecated_and_superseded_memories_are_excluded_by_default(example: Vault) -> None:
    example_paths = [
        ("ten-visit pass for the climbing hall", "facts/alice/climbing-hall-pass.md", "expired"),
        ("learns ukulele", "archive/facts/alice/learns-ukulele.md", "archived"),
        ("atlas due in October", "facts/alice/atlas-deadline-october.md", "superseded"),
    ]
    for question, path, word in example_paths:
        assert path not in paths(example, question)
        assert path in paths(example, question, include=word)
        assert path in paths(example, question, include="all")


def test_a_superseded_memory_comes_back_when_its_successor_is_forgotten(vault: Vault) -> None:
    old = vault.add("The gate code is 1111.", "facts")
    new = vault.add("The gate code is 2222.", "facts", supersedes=[f"[[{old.path.removesuffix('.md')}]]"])
    assert paths(vault, "gate code") == [new.path]
    vault.sync()
    assert paths(vault, "gate code") == [new.path]

    vault.forget(new.id)

    assert paths(vault, "gate code") == [old.path]


@pytest.mark.parametrize("link", ["{stem}", "[[{stem}]]", "[[{path}|old]]", "{id}", "[[{path}#part]]", "/{path}.md"])
def test_a_supersedes_link_may_be_written_in_several_ways(vault: Vault, link: str) -> None:
    old = vault.add("The gate code is 1111.", "facts")
    path = old.path.removesuffix(".md")
    text = link.format(stem=path.rpartition("/")[2], path=path, id=old.id)
    new = vault.add("The gate code is 2222.", "facts", supersedes=[text])

    assert paths(vault, "gate code") == [new.path]


def test_an_expired_memory_supersedes_nothing(vault: Vault) -> None:
    old = vault.add("The gate code is 1111.", "facts")
    link = f"[[{old.path.removesuffix('.md')}]]"
    vault.add("The gate code is 2222 until the fair.", "facts", supersedes=[link], expires="2020-01-01")
    for _ in range(2):
        assert paths(vault, "gate code") == [old.path]
        vault.sync()


def test_a_memory_that_links_to_itself_is_not_superseded(vault: Vault) -> None:
    added = vault.add("The gate code is 1111.", "facts", supersedes=["[[facts/the-gate-code-is-1111]]"])

    assert paths(vault, "gate code") == [added.path]


def test_the_archive_can_be_searched_after_a_search_without_it(vault: Vault) -> None:
    forgotten = vault.forget(vault.add("Tea is hot.", namespace="/facts").id)
    vault.add("Coffee is hot.", namespace="/facts")
    vault.sync()

    assert paths(vault, "tea") == []
    assert [hit.memory.path for hit in vault.search("tea", "/archive")] == [forgotten.path]
    assert [hit.memory.path for hit in vault.search("hot", "/archive")] == [forgotten.path]


def test_filters_apply_to_unpublished_and_published_memories(vault: Vault) -> None:
    tea = vault.add("Tea at five.", "actors/alice", type="preference", tags=["Food"], importance=7, project="atlas")
    vault.add("Tea at six.", "actors/alice2", type="fact", importance=2)
    for _ in range(2):
        for options in (
            {"namespace": "/actors/alice"},
            {"type": "preference"},
            {"tags": ["food"]},
            {"where": [("importance", ">=", 5)]},
            {"where": [("project", "EXISTS")]},
            {"where": {"project": "atlas"}},
        ):
            assert paths(vault, "tea", **options) == [tea.path], options
        assert len(paths(vault, "tea", namespace="/actors")) == 2
        assert paths(vault, "tea", created="..2020-01-01") == []
        vault.sync()


def test_a_blank_question_lists_the_newest(vault: Vault) -> None:
    old = vault.add("Tea.", "n", created="2026-01-01")
    new = vault.add("Coffee.", "n", created="2026-02-01")

    assert paths(vault, "") == [new.path, old.path]
    assert paths(vault, "  ", limit=1, offset=1) == [old.path]
    assert paths(vault, "?!") == []


def test_a_scope_finds_only_its_subtree(vault: Vault) -> None:
    mine = vault.add("A green boat.", "actors/alice")
    vault.add("A green boat, too.", "actors/alice2")
    alice = vault.scope("/actors/alice")

    assert paths(alice, "boat") == [mine.path]
    with pytest.raises(InvalidNamespaceError, match="outside the scope"):
        alice.search("boat", namespace="/actors/alice2")


def test_a_removed_memory_leaves_no_word_in_derived_data(vault: Vault) -> None:
    added = vault.add("The word is xyzzyplugh.", "n", title="abracadabra")
    other = vault.add("Nothing of the kind.", "n")
    assert paths(vault, "xyzzyplugh") == [added.path]
    vault.sync()

    vault.remove(added.id)
    vault.close()

    everything = b"".join(file.read_bytes() for file in vault.root.rglob("*") if file.is_file())
    assert b"xyzzyplugh" not in everything
    assert b"abracadabra" not in everything
    assert paths(vault, "nothing kind") == [other.path]


# --- relevance ----------------------------------------------------------------------------------------

RIGHT = {
    "is Alice allergic to peanuts?": "Alice is allergic to peanuts and carries an adrenaline pen.",
    "when is project Atlas due?": "Project Atlas is due on 25 November 2026.",
    "what tea does Bob prefer?": "Bob prefers green tea over coffee in the afternoon.",
    "what is the door code of the office?": "The office door code is 4711 since March.",
    "shellfish allergy": "Bob is allergic to shellfish.",
    "when does Carol fly to Reykjavik?": "Carol's flight to Reykjavik leaves at 06:40 on Monday.",
}


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Vault]]:
    """Vaults of 15, 1,000 and 10,000 memories that hold the same right ones."""
    vaults = {}
    for number in (15, 1000, 10_000):
        root = tmp_path_factory.mktemp("sizes") / "vault"
        fill(root, number - len(RIGHT))
        (root / "right").mkdir()
        for count, text in enumerate(RIGHT.values()):
            (root / "right" / f"memory-{count}.md").write_text(text + "\n", encoding="utf-8")
        vaults[number] = Vault(root)
    yield vaults
    for vault in vaults.values():
        vault.close()


@pytest.mark.parametrize(("number", "question"), list(enumerate(RIGHT)))
def test_relevance_means_the_same_in_small_and_large_vaults(
    sizes: dict[int, Vault], number: int, question: str
) -> None:
    right, wrong = [], []
    for vault in sizes.values():
        hits = vault.search(question, limit=20)
        right += [hit.relevance for hit in hits if hit.memory.path == f"right/memory-{number}.md"]
        wrong += [hit.relevance for hit in hits if hit.memory.path != f"right/memory-{number}.md"]

    assert len(right) == 3
    assert max(right) - min(right) < 0.25
    assert max(wrong, default=0) < min(right)


def test_min_relevance_drops_the_hits_of_off_topic_questions(sizes: dict[int, Vault], example: Vault) -> None:
    for vault in (*sizes.values(), example):
        answered = [question for question in CODING if vault.search(question, min_relevance=0.2)]

        assert len(answered) <= 2, answered


def test_a_single_shared_word_is_below_the_relevance_floor(vault: Vault) -> None:
    vault.add_many([{"text": text, "namespace": "/people"} for text in SENTENCES_ABOUT_PEOPLE])

    answered = [question for question in CODING if vault.search(question, min_relevance=0.2)]

    assert len(answered) <= 2, answered


def test_a_question_with_two_unknown_words_is_off_topic(vault: Vault, example: Vault) -> None:
    vault.add_many([{"text": text, "namespace": "/people"} for text in SENTENCES_ABOUT_PEOPLE])

    for searched in (vault, example):
        answered = [question for question in MORE_CODING if searched.search(question, min_relevance=0.2)]

        assert len(answered) <= len(MORE_CODING) / 10, answered
    assert example.search("does Bob drink espresso?", min_relevance=0.2)  # one such word may be another word for it


# --- hits ---------------------------------------------------------------------------------------------


def test_a_hit_has_title_date_and_a_snippet_with_the_words_marked(vault: Vault) -> None:
    body = "Filler words here. " * 40 + "Then the sushi place opens, with tuna." + " More filler." * 40
    vault.add(body, "n", title="Where to eat", created="2026-03-04")

    (hit,) = vault.search("tuna sushis")

    assert (hit.title, f"{hit.date:%Y-%m-%d}") == ("Where to eat", "2026-03-04")
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["sushi", "tuna"]
    assert len(hit.snippet) <= 202
    assert hit.snippet.startswith("…")
    assert "\n" not in hit.snippet


@pytest.mark.parametrize(
    ("body", "question", "marked"),
    [
        ("Zürich is far.", "zurich", ["Zürich"]),
        ("来週は東京に出張します。", "東京", ["東京"]),
        ("Peanuts, PEANUT butter.", "peanut", ["Peanuts", "PEANUT"]),
        ("“Peanuts” – he said – were tried.", "peanut try", ["Peanuts", "tried"]),
        ("Это вкусный Борщ, и много.", "борщ", ["Борщ"]),
        ("Ёлка и йогурт.", "елка йогурт", ["Ёлка", "йогурт"]),
        ("Chị Nguyễn và Łukasz ở İzmir.", "nguyen lukasz izmir", ["Nguyễn", "Łukasz", "İzmir"]),
        ("ＡＢＣ１２３ is wide.", "abc123", ["ＡＢＣ１２３"]),
        ("In der Hauptstraße, zu Fuß.", "Hauptstraße fuss", ["Hauptstraße", "Fuß"]),
        ("Der Æsir, a ﬁne œuvre.", "æsir fine oeuvre", ["Æsir", "ﬁne", "œuvre"]),
        ("An der Wasserstraße, eﬃzient.", "wasserstrasse effizient", ["Wasserstraße", "eﬃzient"]),
        ("Þórður og Guðrún.", "thordur gudrun", ["Þórður", "Guðrún"]),
        ("Əliyev saw Ɗan.", "aliyev dan", ["Əliyev", "Ɗan"]),
        ("राहुल को मसाला पसंद है।", "मसाला", ["मसाला"]),
        ("Yes 🦄, 🦄 it is.", "🦄", ["🦄", "🦄"]),
        ("snake_case words_here", "case", ["case"]),
        ("# Tea\n\nFirst tea.\nThen  tea.\n\nTeas, at last", "tea", ["Tea", "tea", "tea", "Teas"]),
        ("Tabs\tand tea,\r\n\r\n\r\n   teas", "tea", ["tea", "teas"]),
        ("Filler.\n\n" * 40 + "tea\n\nand tea" + "\n\nFiller." * 40, "tea", ["tea", "tea"]),
        ("The team drinks tea.", "tea team", ["team", "tea"]),
        ("Nothing is marked here.", "elsewhere", []),
    ],
)
def test_marks_are_the_offsets_of_the_words(vault: Vault, body: str, question: str, marked: list[str]) -> None:
    vault.add(body, "n", tags=["elsewhere"])

    (hit,) = vault.search(question)

    assert [hit.snippet[start:end] for start, end in hit.marks] == marked


@pytest.mark.parametrize("question", ["🦄", "what is 🦄?", '"🦄"', "🦄🦄"])
def test_an_emoji_is_found_by_a_question_without_words(vault: Vault, question: str) -> None:
    vault.add("She answers 🦄 to all.", "n")
    vault.add("She answers 🎂 to what is hers.", "n")

    assert vault.search(question)[0].memory.body == "She answers 🦄 to all."


@pytest.mark.parametrize(
    ("question", "body"),
    [("🇩🇪", "A trip to 🇩🇪."), ("👍🏽", "Fine 👍🏿 so."), ("🏭", "The 🏭 smokes."), ("👎", "Bad 👎 luck.")],
)
def test_an_emoji_finds_and_marks_only_itself(vault: Vault, question: str, body: str) -> None:
    for text in ("A trip to 🇩🇰 and 🇪🇸.", "Hello 👋🏽 there.", body):
        vault.add(text, "n")

    (hit,) = vault.search(question)

    assert (hit.memory.body, [hit.snippet[start:end] for start, end in hit.marks]) == (body, [question.rstrip("🏽")])


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_two_emoji_share_a_term_in_any_language(language: str) -> None:
    signs = [*map(chr, range(0x1F400, 0x1F500)), "🇩🇪", "🇪🇩"]

    assert len(set(Analyzer(language).terms(" ".join(signs)))) == len(signs)


def test_the_reasons_of_a_hit_show_an_emoji_as_it_is(vault: Vault) -> None:
    vault.add("Fine 👍 so.", "n")

    (hit,) = vault.search("👍 🎂", explain=True)

    assert [reason.text.partition(":")[0] for reason in hit.why][:2] == ["👍", "🎂"]


def test_an_emoji_changes_neither_a_phrase_nor_the_weights_of_words(vault: Vault) -> None:
    vault.add("Green 🍵 tea at five.", "n")

    assert vault.search('"green tea"')[0].relevance == 1
    assert vault.search("green tea? 😊") == vault.search("green tea?")


@pytest.mark.parametrize("key", ["title", '"\\u0074itle"'])
def test_the_title_of_the_header_wins_over_a_heading_in_the_body(vault: Vault, key: str) -> None:
    (vault.root / "n").mkdir()
    (vault.root / "n/a.md").write_text(
        f"---\n{key}: Tee\n---\n\n# Überschrift\n\nÄÖÜ: title, title.\n", encoding="utf-8"
    )
    (vault.root / "n/b.md").write_text("# Heading\n\ntitle: of a \\ body\n", encoding="utf-8")

    assert [vault.read(f"n/{name}.md").title for name in "ab"] == ["Tee", "Heading"]


def rank_from_reasons(hit: Hit) -> float:
    """Return the rank of a hit computed from its reasons: the share of the term weights, times the decay factor."""
    scored = [reason for reason in hit.why if reason.score]
    weight = sum(float(re.findall(r"weight ([\d.]+)", reason.text)[0]) for reason in scored)
    [factor] = [float(found[0]) for reason in hit.why if (found := re.findall(r"rank x ([\d.]+)", reason.text))]
    return float((sum(reason.score for reason in scored) / weight) ** RELEVANCE_EXPONENT * factor)


def test_explain_lists_the_weight_of_each_word(example: Vault) -> None:
    hit = example.search("peanut allergy", explain=True)[0]

    texts = [reason.text for reason in hit.why]
    assert any(text.startswith("peanut: ") for text in texts)
    assert rank_from_reasons(hit) == pytest.approx(hit.rank, rel=0.02)


@pytest.mark.parametrize(
    ("ref", "question", "options", "words"),
    [
        ("facts/bob/allergic-to-peanuts", "peanut", {}, "it is hit 1"),
        ("facts/bob/allergic-to-peanuts", "sailing", {}, "none of the words"),
        ("facts/bob/allergic-to-peanuts", "peanut", {"type": "preference"}, "type is 'fact'"),
        ("facts/bob/allergic-to-peanuts", "peanut", {"namespace": "/people"}, "not below /people"),
        ("facts/bob/allergic-to-peanuts", "???", {}, "no words"),
        ("facts/alice/atlas-deadline-october", "atlas", {}, "superseded"),
        ("facts/alice/climbing-hall-pass", "climbing", {}, "expired on 2026-09-30"),
        ("archive/facts/alice/learns-ukulele", "ukulele", {}, "forgotten"),
        ("people/emma", "alice birthday sushi mountains bicycle", {"min_relevance": 0.9}, "is below 0.90"),
        ("people/emma", "alice", {"limit": 1}, "it is hit "),
        ("people/emma", '"younger brother" alice', {"limit": 1}, "it is hit "),
        ("people/emma", '"product designer" alice', {}, "a phrase of the question is not in it"),
    ],
)
def test_explain_miss_returns_why_a_memory_is_not_a_hit(
    example: Vault, ref: str, question: str, options: dict[str, Any], words: str
) -> None:
    reasons = example.explain_miss(ref, question, **options)

    assert any(words in reason.text for reason in reasons), reasons


# --- scopes are isolated ------------------------------------------------------------------------------


def test_a_memory_outside_a_scope_supersedes_nothing_in_it(vault: Vault) -> None:
    mine = vault.add("The gate code is 1111.", "actors/alice")
    vault.add("My gate code.", "actors/bob", supersedes=["[[the-gate-code-is-1111]]", f"[[{mine.path}]]"])

    assert paths(vault.scope("/actors/alice"), "gate code") == [mine.path]
    assert mine.path not in paths(vault, "gate code")


def test_explain_miss_in_a_scope_does_not_reveal_words_outside(vault: Vault) -> None:
    mine = vault.add("A green boat.", "actors/alice")
    vault.add("A trip to Zanzibar.", "actors/bob")
    alice = vault.scope("/actors/alice")

    texts = [[reason.text for reason in alice.explain_miss(mine.id, word)] for word in ("zanzibar", "quux")]

    assert [text.replace("zanzibar", "quux") for text in texts[0]] == texts[1]


def test_a_scope_sees_a_move_across_its_border_as_a_creation_or_removal(vault: Vault) -> None:
    added = vault.add("A green boat.", "actors/alice")
    changes: list[Change] = []
    vault.scope("/actors/alice").subscribe(changes.append)
    other: list[Change] = []
    vault.scope("/actors/bob").subscribe(other.append)

    moved = vault.move(added.id, "/actors/bob")
    vault.search("boat")

    assert changes == [Change("removed", added.path)]
    assert other == [Change("created", moved.path)]


# --- ids ----------------------------------------------------------------------------------------------


def test_an_id_resolves_to_the_memory_and_not_its_conflict_copy_even_after_a_search(vault: Vault) -> None:
    added = vault.add("Tea.", "facts")
    copy = vault.root / added.path.replace(".md", ".conflict-20261117T010101Z.md")
    copy.write_bytes((vault.root / added.path).read_bytes())
    vault.sync()

    assert Vault(vault.root).read(added.id).path == added.path


@pytest.mark.parametrize("ref", ["\ud800x", "m-" + "0" * 26, "x" * 5000, "a=b"])
def test_an_unknown_reference_is_not_found_even_after_a_search(vault: Vault, ref: str) -> None:
    vault.add("Tea.", "facts")
    vault.search("tea")

    with pytest.raises(MemoryNotFoundError):
        vault.read(ref)


# --- prefixes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("published", [False, True])
def test_a_prefix_matches_many_words_and_stems_shorter_than_itself(vault: Vault, published: bool) -> None:
    vault.search("x")
    for number in range(100):
        vault.add(f"zz{number:03}q is here", "n")
    generation = vault.add("The next generation has a plan.", "n")
    if published:
        vault.sync()

    assert len(paths(vault, "zz*", limit=200)) == 100
    assert paths(vault, "planet*") == []
    assert paths(vault, "generati*") == [generation.path]
    (hit,) = vault.search("generat*", explain=True)
    assert rank_from_reasons(hit) == pytest.approx(hit.rank, rel=0.1)


def test_unpublished_memories_do_not_lower_the_relevance_of_a_hit(vault: Vault) -> None:
    vault.add("Alice likes tea.", namespace="/facts")
    vault.search("zebra")  # publishes an index of one memory
    for number in range(30):
        vault.add(f"Thing {number}.", namespace="/facts")

        assert vault.search("tea")[0].relevance > 0.9
        assert vault.search(f"thing {number}")[0].memory.body.strip() == f"Thing {number}."


@pytest.mark.parametrize("question", ["what does Alice eat?", '"Alice has"', "alice sush*", "where does Dan live"])
@pytest.mark.parametrize("published", [0, 1, 4, 8])
def test_relevance_is_the_same_before_and_after_changes_are_published(
    vault: Vault, published: int, question: str
) -> None:
    texts = [
        *("Alice is allergic to peanuts.", "Dan lives in Bern.", "Alice has a cat.", "Bob lives in Rome."),
        *("Alice likes sushi with tuna.", "Alice reads novels.", "Carol has a boat.", "Dan eats rice with Alice."),
        *("Eve paints walls and lives by the sea.", "Frank has sushi on Fridays."),
    ]

    def relevances() -> dict[str, float]:
        return {hit.memory.body: hit.relevance for hit in vault.search(question, limit=20)}

    for text in texts[:published]:
        vault.add(text, namespace="/facts")
    vault.sync()
    for text in texts[published:]:
        vault.add(text, namespace="/facts")
    pending = relevances()
    assert vault.status().pending == len(texts) - published
    vault.sync()
    assert vault.status().pending == 0
    assert pending == {body: pytest.approx(relevance, abs=0.06) for body, relevance in relevances().items()}


def test_an_edited_memory_counts_once_while_it_is_unpublished(tmp_path: Path) -> None:
    with Vault.init(tmp_path / "vault") as vault:
        vault.add_many(
            {"text": f"The lamp of room {number} is {'old' if number % 2 else 'new'}."} for number in range(40)
        )
        vault.sync()
        before = vault.search("old lamp", limit=1)[0].relevance
        for memory in list(vault.list())[:15]:
            vault.update(memory.path, body=memory.body + " Dusted.")

        assert vault.search("old lamp", limit=1)[0].relevance == pytest.approx(before, abs=0.02)
        assert vault.search("dusted", limit=40)[0].memory.body.endswith("Dusted.")
        assert vault.status().pending == 15
