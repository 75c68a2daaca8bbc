"""Re-ranking of memories from conversations: by the messages around them, the question before them and the speaker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memfs import Vault
from memfs.index.conversation_position import conversation_keywords, conversation_position
from memfs.search.conversation.rerank import FEATURE_WEIGHTS, NO_FEATURES, ConversationContext, RerankCandidate, rerank

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
            add_message(vault, text, number)
        if request.param == "published":
            vault.sync()
        yield vault


def _words() -> Iterator[tuple[int, str]]:
    return ((at, word) for at, word in enumerate(["roof", "door", "lamp", "gate", "sail"] * 6))


def add_message(
    vault: Vault, text: str, number: int, session: str = "s-1", namespace: str = "/chat", **header: str
) -> str:
    return vault.add(text, namespace, source=f"session {session}, message {number}", header=header).path


def bodies(vault: Vault, question: str, **options: object) -> list[str]:
    return [hit.memory.body for hit in vault.search(question, **options)]  # type: ignore[arg-type]


def test_an_answer_without_any_word_of_the_query_is_found_by_the_question_before_it(chat: Vault) -> None:
    found = bodies(chat, "what was painted at the pottery workshop?", limit=2)

    assert found == [CHAT[2], CHAT[3]]


def test_messages_of_a_speaker_whom_the_query_names_come_first(chat: Vault) -> None:
    add_message(chat, "Caroline: I adore jazz.", 20)
    add_message(chat, "Melanie: I adore jazz, too.", 40)

    assert bodies(chat, "does Melanie adore jazz?", limit=1) == ["Melanie: I adore jazz, too."]
    assert bodies(chat, "does Caroline adore jazz?", limit=1) == ["Caroline: I adore jazz."]


def test_the_speaker_may_be_in_the_header(chat: Vault) -> None:
    add_message(chat, "Jazz is the best.", 20, speaker="Caroline")
    add_message(chat, "Jazz is the best of all.", 40, speaker="Zoë Müller")

    assert bodies(chat, "what does Zoë think of jazz?", limit=1) == ["Jazz is the best of all."]


@pytest.mark.parametrize("other", [{"session": "s-2"}, {"namespace": "/chat/other"}])
def test_a_message_of_another_session_or_namespace_is_not_a_neighbour(chat: Vault, other: dict[str, str]) -> None:
    add_message(chat, "Melanie: Nothing of importance.", 4, **other)

    assert "Melanie: Nothing of importance." not in bodies(chat, "what was painted at the pottery workshop?")


def test_filters_apply_to_neighbouring_messages(chat: Vault) -> None:
    assert CHAT[3] not in bodies(chat, "pottery workshop", where={"source": "session s-1, message 3"})
    assert CHAT[3] in bodies(chat, "pottery workshop", type="note")
    assert bodies(chat.scope("/notes"), "pottery workshop") == []


def test_a_neighbour_has_some_relevance_but_less_than_a_memory_with_the_words(chat: Vault) -> None:
    question, answer = chat.search("pottery workshop", limit=2)

    assert (question.memory.body, answer.memory.body) == (CHAT[2], CHAT[3])
    assert 0.2 < answer.relevance < question.relevance
    assert bodies(chat, "pottery workshop", min_relevance=0.9) == [CHAT[2]]


def test_a_memory_without_any_word_of_the_query_that_answers_nothing_is_no_hit(chat: Vault) -> None:
    found = bodies(chat, "pottery workshop", limit=40)

    assert found == [CHAT[2], CHAT[3]]
    assert bodies(chat, "who is hunting for a flat?", min_relevance=0.2)[:2] == [CHAT[5], CHAT[6]]


def test_facts_of_one_message_do_not_support_each_other(tmp_path: Path) -> None:
    with Vault.init(tmp_path / "vault") as vault:
        facts = ["The pump is a Grundfos.", "Onions are in the shed.", "Chess is on Friday.", "The key is blue."]
        for fact in facts:
            add_message(vault, fact, 4)

        assert bodies(vault, "which pump is it?") == facts[:1]


@pytest.mark.parametrize("outside", [{"type": "draft-note"}, {"status": "deprecated"}])
def test_unpublished_memories_that_the_filter_excludes_support_no_other(chat: Vault, outside: dict[str, str]) -> None:
    add_message(chat, "Zoë: When is the dentist open?", 90, **outside)
    add_message(chat, "Melanie: On Mondays.", 91)

    assert bodies(chat, "when is the dentist open?", type="note") == []


def test_unpublished_memories_outside_a_scope_do_not_crowd_out_those_in_it(chat: Vault) -> None:
    add_message(chat, "Caroline: Which colour has the roof of the mill?", 90)
    add_message(chat, "Melanie: Green.", 91)
    chat.sync()
    before = bodies(chat.scope("/chat"), "which colour has the mill?", limit=3)
    for number in range(40):
        add_message(chat, f"Bob: The mill has colour {number}, the mill, the mill.", number, namespace="/other")

    assert bodies(chat.scope("/chat"), "which colour has the mill?", limit=3) == before
    assert "Melanie: Green." in before


def test_consecutive_pages_hold_consecutive_hits(chat: Vault) -> None:
    question = "green roof, or a painted flat of the landlord?"
    pages = [body for offset in range(0, 40, 5) for body in bodies(chat, question, limit=5, offset=offset)]

    assert pages == bodies(chat, question, limit=40)
    assert len(pages) == len(set(pages))


def test_explain_lists_the_features_of_a_hit(chat: Vault) -> None:
    _, answer = chat.search("pottery workshop", limit=2, explain=True)
    why = [reason.text for reason in answer.why]

    assert "words of the question right before it: 100% of the question" in why
    assert "words in messages around it: 100% of the question" in why
    *_, last, fading = chat.search("green roof", limit=1, explain=True)[0].why
    assert last.text.startswith("roof")
    assert fading.text == "retention 100%: rank x 0.90"


def test_memories_without_a_conversation_are_ordered_by_their_scores(chat: Vault) -> None:
    hits = chat.search("green roof door", limit=20)

    assert [str(hit.memory.namespace) for hit in hits] == ["/notes"] * 20
    assert [hit.rank for hit in hits] == sorted((hit.rank for hit in hits), reverse=True)
    assert len({hit.relevance for hit in hits}) > 1
    assert [hit.relevance for hit in hits] == sorted((hit.relevance for hit in hits), reverse=True)


def test_a_phrase_is_still_required(chat: Vault) -> None:
    assert bodies(chat, '"pottery workshop"') == [CHAT[2]]


def test_a_deleted_message_supports_no_other(chat: Vault) -> None:
    question = chat.search("pottery workshop", limit=1)[0].memory
    (chat.root / question.path).unlink()

    assert bodies(chat, "pottery workshop") == []


def test_an_edited_message_supports_others_with_its_new_words(chat: Vault) -> None:
    question = chat.search("pottery workshop", limit=1)[0].memory
    (chat.root / question.path).write_text(question.data.decode().replace("pottery workshop", "glass studio"))

    assert set(bodies(chat, "glass studio", limit=2)) == {
        CHAT[2].replace("pottery workshop", "glass studio"),
        CHAT[3],
    }
    assert bodies(chat, "pottery workshop", min_relevance=0.9)[1:] == []


def test_many_memories_at_one_position_hide_no_match(tmp_path: Path) -> None:
    with Vault.init(tmp_path / "vault") as vault:
        source = "session import, message 1"
        items = [{"text": f"Nobody of room {at} sails a boat.", "source": source} for at in range(1_200)]
        vault.add_many([*items, {"text": "Walter collects stamps, and sails.", "source": source}])
        vault.sync()

        assert bodies(vault, "who sails and collects stamps?", limit=1) == ["Walter collects stamps, and sails."]
        assert len(bodies(vault, "nobody sails a boat", limit=1000)) == 1000


# --- pure functions


@pytest.mark.parametrize(
    ("source", "has_position"),
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
def test_a_position_is_read_from_the_source(source: object, has_position: bool) -> None:
    assert (conversation_position("chat/x.md", {"source": source}) is not None) is has_position


def test_positions_of_a_session_are_consecutive() -> None:
    positions = [
        conversation_position("chat/x.md", {"source": f"session s-1, message {number}"}) for number in (1, 2, 999_999)
    ]

    assert positions[0] is not None
    assert positions == [positions[0], positions[0] + 1, positions[0] + 999_998]
    assert conversation_position("other/x.md", {"source": "session s-1, message 1"}) != positions[0]


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
def test_the_speaker_and_whether_it_is_a_question_are_read_from_the_text(body: str, keywords: list[str]) -> None:
    assert conversation_keywords({}, body) == ["%placed", *keywords]


def candidate(
    path: str, score: float, position: int | None, term_bits: int, size: int = 100, *, is_question: bool = False
) -> RerankCandidate:
    stamp = (0, 0, size, 0)
    return RerankCandidate(path, stamp, score, position, term_bits, is_speaker_named=False, is_question=is_question)


def test_terms_of_neighbours_count_once_and_only_if_the_memory_lacks_them() -> None:
    found = [candidate("a", 2.0, 10, 0b01), candidate("b", 0.0, 11, 0b11), candidate("c", 0.0, 14, 0b11)]
    features = ConversationContext(found, [1.0, 3.0], 4.0).features

    assert features(found[0]).nearby == 0.75
    assert features(found[1]).nearby == 0.0
    assert features(candidate("d", 0.0, 17, 0)).nearby == 0.0
    assert features(candidate("e", 0.0, None, 0)) == NO_FEATURES


def test_the_longer_a_memory_the_less_its_conversation_counts() -> None:
    context = ConversationContext([candidate("q", 1.0, 1, 1, is_question=True)], [1.0], 1.0)
    features = [context.features(candidate("a", 0.0, 2, 0, size)) for size in (100, 600, 1200, 60_000)]

    assert features[0] == features[1] != NO_FEATURES
    assert [one.nearby for one in features] == sorted((one.nearby for one in features), reverse=True)
    assert features[2].nearby == features[0].nearby / 4
    assert features[3].answered < 0.001


def test_a_memory_without_a_position_keeps_its_score_and_equal_ranks_are_sorted_by_path() -> None:
    found = rerank(
        [candidate("b", 2.0, None, 1), candidate("a", 2.0, None, 1), candidate("c", 3.0, None, 0)], [1.0], 1.0
    )

    assert [(one.candidate.path, one.rank, one.score) for one in found] == [
        ("c", 3.0, 3.0),
        ("a", 2.0, 2.0),
        ("b", 2.0, 2.0),
    ]
    assert all(weight > 0 for weight in FEATURE_WEIGHTS[:-1])
    assert FEATURE_WEIGHTS.is_question < 0
