"""Memories from conversations: what was said around them, what they answer and who said them counts for their order."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs import Vault
from memfs.index.conversation_position import conversation_keywords, conversation_position
from memfs.search.conversation.rerank import NONE, WEIGHTS, Conversation, Witness, ranked

CHAT = (
    "Caroline: Good morning, did you sleep well?",
    "Melanie: Like a stone.",
    "Caroline: What did you paint at the pottery workshop?",
    "Melanie: A blue whale with a hat, it took me the whole evening.",
    "Caroline: Lovely!",
    "Melanie: And you, still hunting for a flat?",
    "Caroline: Yes, the landlord never calls back.",
    "Melanie: Courage.",
)


@pytest.fixture(params=["published", "pending"])
def chat(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Vault]:
    """A conversation of eight turns, and thirty ordinary memories."""
    with Vault.init(tmp_path / "vault") as vault:
        vault.add_many({"text": f"The {word} of number {at} is green.", "namespace": "/notes"} for at, word in _words())
        vault.sync()
        for number, text in enumerate(CHAT, 1):
            said(vault, text, number)
        if request.param == "published":
            vault.sync()
        yield vault


def _words() -> Iterator[tuple[int, str]]:
    return ((at, word) for at, word in enumerate(["roof", "door", "lamp", "gate", "sail"] * 6))


def said(vault: Vault, text: str, number: int, session: str = "s-1", namespace: str = "/chat", **header: str) -> str:
    return vault.add(text, namespace, source=f"session {session}, message {number}", header=header).path


def bodies(vault: Vault, question: str, **options: object) -> list[str]:
    return [hit.memory.body for hit in vault.search(question, **options)]  # type: ignore[arg-type]


def test_an_answer_without_a_word_of_the_question_is_found_by_what_was_asked_before_it(chat: Vault) -> None:
    found = bodies(chat, "what was painted at the pottery workshop?", limit=2)

    assert found == [CHAT[2], CHAT[3]]


def test_what_was_said_by_whom_the_question_names_comes_first(chat: Vault) -> None:
    said(chat, "Caroline: I adore jazz.", 20)
    said(chat, "Melanie: I adore jazz, too.", 40)

    assert bodies(chat, "does Melanie adore jazz?", limit=1) == ["Melanie: I adore jazz, too."]
    assert bodies(chat, "does Caroline adore jazz?", limit=1) == ["Caroline: I adore jazz."]


def test_who_said_it_may_stand_in_the_header(chat: Vault) -> None:
    said(chat, "Jazz is the best.", 20, speaker="Caroline")
    said(chat, "Jazz is the best of all.", 40, speaker="Zoë Müller")

    assert bodies(chat, "what does Zoë think of jazz?", limit=1) == ["Jazz is the best of all."]


@pytest.mark.parametrize("other", [{"session": "s-2"}, {"namespace": "/chat/other"}])
def test_another_session_or_namespace_is_not_around(chat: Vault, other: dict[str, str]) -> None:
    said(chat, "Melanie: Nothing of importance.", 4, **other)

    assert "Melanie: Nothing of importance." not in bodies(chat, "what was painted at the pottery workshop?")


def test_filters_hold_for_what_is_around(chat: Vault) -> None:
    assert CHAT[3] not in bodies(chat, "pottery workshop", where={"source": "session s-1, message 3"})
    assert CHAT[3] in bodies(chat, "pottery workshop", type="note")
    assert bodies(chat.scope("/notes"), "pottery workshop") == []


def test_what_is_around_has_some_relevance_and_less_than_what_has_the_words(chat: Vault) -> None:
    asked, answer = chat.search("pottery workshop", limit=2)

    assert (asked.memory.body, answer.memory.body) == (CHAT[2], CHAT[3])
    assert 0.2 < answer.relevance < asked.relevance
    assert bodies(chat, "pottery workshop", min_relevance=0.9) == [CHAT[2]]


def test_what_has_no_word_of_a_question_and_does_not_answer_it_is_no_hit(chat: Vault) -> None:
    found = bodies(chat, "pottery workshop", limit=40)

    assert found == [CHAT[2], CHAT[3]]
    assert bodies(chat, "who is hunting for a flat?", min_relevance=0.2)[:2] == [CHAT[5], CHAT[6]]


def test_facts_of_one_message_do_not_speak_for_each_other(tmp_path: Path) -> None:
    with Vault.init(tmp_path / "vault") as vault:
        facts = ["The pump is a Grundfos.", "Onions are in the shed.", "Chess is on Friday.", "The key is blue."]
        for fact in facts:
            said(vault, fact, 4)

        assert bodies(vault, "which pump is it?") == facts[:1]


@pytest.mark.parametrize("outside", [{"type": "draft-note"}, {"status": "deprecated"}])
def test_pending_memories_that_a_search_may_not_return_speak_for_nobody(chat: Vault, outside: dict[str, str]) -> None:
    said(chat, "Zoë: When is the dentist open?", 90, **outside)
    said(chat, "Melanie: On Mondays.", 91)

    assert bodies(chat, "when is the dentist open?", type="note") == []


def test_what_waits_outside_of_a_scope_takes_no_place_in_it(chat: Vault) -> None:
    said(chat, "Caroline: Which colour has the roof of the mill?", 90)
    said(chat, "Melanie: Green.", 91)
    chat.sync()
    before = bodies(chat.scope("/chat"), "which colour has the mill?", limit=3)
    for number in range(40):
        said(chat, f"Bob: The mill has colour {number}, the mill, the mill.", number, namespace="/other")

    assert bodies(chat.scope("/chat"), "which colour has the mill?", limit=3) == before
    assert "Melanie: Green." in before


def test_pages_follow_each_other(chat: Vault) -> None:
    question = "green roof, or a painted flat of the landlord?"
    pages = [body for offset in range(0, 40, 5) for body in bodies(chat, question, limit=5, offset=offset)]

    assert pages == bodies(chat, question, limit=40)
    assert len(pages) == len(set(pages))


def test_it_is_told_what_spoke_for_a_memory(chat: Vault) -> None:
    _, answer = chat.search("pottery workshop", limit=2, explain=True)
    why = [reason.text for reason in answer.why]

    assert "asked right before it: 100% of the question" in why
    assert "said around it: 100% of the question" in why
    *_, last, fading = chat.search("green roof", limit=1, explain=True)[0].why
    assert last.text.startswith("roof")
    assert fading.text == "100% of it is left: rank x 0.90"


def test_ordinary_memories_are_in_the_order_of_their_scores(chat: Vault) -> None:
    hits = chat.search("green roof door", limit=20)

    assert [str(hit.memory.namespace) for hit in hits] == ["/notes"] * 20
    assert [hit.rank for hit in hits] == sorted((hit.rank for hit in hits), reverse=True)
    assert len({hit.relevance for hit in hits}) > 1
    assert [hit.relevance for hit in hits] == sorted((hit.relevance for hit in hits), reverse=True)


def test_a_phrase_is_still_required(chat: Vault) -> None:
    assert bodies(chat, '"pottery workshop"') == [CHAT[2]]


def test_a_turn_that_is_gone_speaks_for_nobody(chat: Vault) -> None:
    asked = chat.search("pottery workshop", limit=1)[0].memory
    (chat.root / asked.path).unlink()

    assert bodies(chat, "pottery workshop") == []


def test_an_edited_turn_speaks_with_its_new_words(chat: Vault) -> None:
    asked = chat.search("pottery workshop", limit=1)[0].memory
    (chat.root / asked.path).write_text(asked.data.decode().replace("pottery workshop", "glass studio"))

    assert set(bodies(chat, "glass studio", limit=2)) == {
        CHAT[2].replace("pottery workshop", "glass studio"),
        CHAT[3],
    }
    assert bodies(chat, "pottery workshop", min_relevance=0.9)[1:] == []


def test_a_crowd_at_one_place_hides_nobody(tmp_path: Path) -> None:
    with Vault.init(tmp_path / "vault") as vault:
        source = "session import, message 1"
        items = [{"text": f"Nobody of room {at} sails a boat.", "source": source} for at in range(1_200)]
        vault.add_many([*items, {"text": "Walter collects stamps, and sails.", "source": source}])
        vault.sync()

        assert bodies(vault, "who sails and collects stamps?", limit=1) == ["Walter collects stamps, and sails."]
        assert len(bodies(vault, "nobody sails a boat", limit=1000)) == 1000


# --- the pure parts


@pytest.mark.parametrize(
    ("source", "has_place"),
    [
        ("session s-2026-11-15, message 4", True),
        ("session a b c, messages 4-7", True),
        ("session s-1", False),
        ("session s-1, message 1234567", False),
        ("https://example.org/session 1, message 2", False),
        ("session , message 3", False),
        (7, False),
        (None, False),
    ],
)
def test_a_place_is_read_from_the_source(source: object, has_place: bool) -> None:
    assert (conversation_position("chat/x.md", {"source": source}) is not None) is has_place


def test_places_of_a_session_follow_each_other() -> None:
    places = [
        conversation_position("chat/x.md", {"source": f"session s-1, message {number}"}) for number in (1, 2, 999_999)
    ]

    assert places[0] is not None
    assert places == [places[0], places[0] + 1, places[0] + 999_998]
    assert conversation_position("other/x.md", {"source": "session s-1, message 1"}) != places[0]


@pytest.mark.parametrize(
    ("body", "keywords"),
    [
        ("Caroline: Hello.", ["%by=caroline"]),
        ("Caroline, 1:56 pm on 8 May, 2023: Hello.", ["%by=caroline"]),
        ("**Zoë Müller** (Tuesday): Hello?", ["%asks", "%by=zoë", "%by=müller"]),
        ("How are you? [a photo of a lighthouse]", ["%asks"]),
        ("お元気ですか？", ["%asks"]),
        ("No name here.", []),
        ("http://example.org/a: a link", []),
        ("A: one.\n\nB: two.", []),
        ("", []),
    ],
)
def test_who_said_something_and_whether_it_asks_is_read_from_the_text(body: str, keywords: list[str]) -> None:
    assert conversation_keywords({}, body) == ["%placed", *keywords]


def witness(name: str, score: float, place: int | None, has: int, size: int = 100, *, asks: bool = False) -> Witness:
    return Witness(name, (0, 0, size, 0), score, place, has, is_named=False, asks=asks)


def test_words_of_neighbours_count_once_and_only_those_that_it_has_not() -> None:
    both = [witness("a", 2.0, 10, 0b01), witness("b", 0.0, 11, 0b11), witness("c", 0.0, 14, 0b11)]
    support = Conversation(both, [1.0, 3.0], 4.0).support

    assert support(both[0]).near == 0.75
    assert support(both[1]).near == 0.0
    assert support(witness("d", 0.0, 17, 0)).near == 0.0
    assert support(witness("e", 0.0, None, 0)) == NONE


def test_the_longer_a_memory_the_less_it_needs_others() -> None:
    near = [
        Conversation([witness("q", 1.0, 1, 1, asks=True)], [1.0], 1.0).support(witness("a", 0.0, 2, 0, size))
        for size in (100, 600, 1200, 60_000)
    ]

    assert near[0] == near[1] != NONE
    assert [one.near for one in near] == sorted((one.near for one in near), reverse=True)
    assert near[2].near == near[0].near / 4
    assert near[3].answered < 0.001


def test_a_memory_that_has_no_place_keeps_its_score_and_those_of_equal_rank_their_order() -> None:
    found = ranked([witness("b", 2.0, None, 1), witness("a", 2.0, None, 1), witness("c", 3.0, None, 0)], [1.0], 1.0)

    assert [(one.witness.path, one.rank, one.score) for one in found] == [
        ("c", 3.0, 3.0),
        ("a", 2.0, 2.0),
        ("b", 2.0, 2.0),
    ]
    assert all(weight > 0 for weight in WEIGHTS[:-1])
    assert WEIGHTS.asks < 0
