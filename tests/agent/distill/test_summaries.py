"""The text of summaries: merging sections, keeping the edits of people, and highlights."""

from hypothesis import given
from hypothesis import strategies as st

from memfs.agent.distill.summaries import (
    MAX_HIGHLIGHTS,
    Section,
    highlights,
    make_section,
    merge_sections,
    parse_sections,
)
from memfs.agent.messages import Message

WORDS = "Atlas is due in November and Bob leads it with great care for details of every kind".split()
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(lambda words: " ".join(words) + ".")
turns = st.lists(st.builds(lambda role, text: {"role": role, "content": text},
                           st.sampled_from(["user", "assistant", "tool"]), sentences), max_size=25)  # fmt: skip
titles = st.sampled_from(["Lunch", "lunch", "Work", "Trips", "Ünter uns"])
texts = st.sampled_from(["One.", "Two.\n\nThree.", "- a\n- b", "```\n## no topic\n```", "~~~\nnever closed", "x"])
topics = st.lists(st.builds(make_section, titles, texts), max_size=5)


def text(*parts: Section) -> str:
    return merge_sections("# Summary\n\n", parts, {})[0]


def test_a_heading_in_fenced_code_does_not_start_a_section() -> None:
    intro, found = parse_sections("# S\n\n## A\n\n```\n## B\n```\n\n~~~\n```\n## C\n~~~\n## D\n")

    assert [one.title for one in found] == ["A", "D"]
    assert intro == "# S\n\n"


def test_an_unclosed_code_fence_does_not_swallow_the_next_section() -> None:
    body, marks = merge_sections("", [make_section("A", "```\ncode"), make_section("B", "two")], {})

    assert [one.title for one in parse_sections(body)[1]] == ["A", "B"]
    assert merge_sections(body, [make_section("B", "three")], marks)[0] == "## A\n\n```\ncode\n```\n\n## B\n\nthree\n"


def test_a_repeated_topic_is_replaced_in_place() -> None:
    body, marks = merge_sections("# Summary\n\n", [make_section("A", "one"), make_section("B", "two")], {})

    assert merge_sections(body, [make_section("a", "three")], marks)[0] == "# Summary\n\n## a\n\nthree\n\n## B\n\ntwo\n"


def test_two_sections_with_the_same_title_both_stay() -> None:
    body = "## A\n\nmine\n\n## A\n\nmine too\n"

    assert merge_sections(body, [make_section("A", "ours")], {})[0] == "## A\n\nmine\n\nours\n\n## A\n\nmine too\n"


def test_a_section_whose_title_was_edited_is_kept() -> None:
    body, marks = merge_sections("", [make_section("Trips", "Porto.")], {})
    renamed = body.replace("## Trips", "## TRIPS")

    assert merge_sections(renamed, [make_section("Trips", "Rome.")], marks)[0] == "## TRIPS\n\nPorto.\n\nRome.\n"


def test_new_lines_are_appended_to_an_edited_list() -> None:
    body = "## A\n\n- one\n- two, by hand\n\nand after\n\n## B\n"

    assert merge_sections(body.replace("\nand after\n", ""), [make_section("A", "- one\n- three")], {})[0] == (
        "## A\n\n- one\n- two, by hand\n- three\n\n## B\n"
    )


@given(topics, topics, topics)
def test_sections_of_a_person_are_kept_byte_for_byte(
    own: list[Section], one: list[Section], two: list[Section]
) -> None:
    written, marks = merge_sections("# Summary\n\n", one, {})
    by_hand = written + "\n" + "\n".join(f"## Own {at}\n\n{each.text}\n" for at, each in enumerate(own))
    after, _ = merge_sections(by_hand, two, marks)

    for at, each in enumerate(own):
        assert f"## Own {at}\n\n{each.text}\n" in after
    assert after.startswith("# Summary\n\n")


@given(topics, topics)
def test_merging_the_same_sections_again_changes_nothing(one: list[Section], two: list[Section]) -> None:
    once = merge_sections(*_swapped(merge_sections("# Summary\n\n", one, {}), two))
    twice = merge_sections(*_swapped(once, two[-1:]))

    assert twice == once


def _swapped(done: tuple[str, dict[str, str]], news: list[Section]) -> tuple[str, list[Section], dict[str, str]]:
    return done[0], news, done[1]


# --- highlights


def _lines(*batches: list[Message]) -> str:
    found = ""
    for batch in batches:
        found = highlights(batch, found).text
    return found


def test_highlights_are_the_weightiest_sentences_in_their_order() -> None:
    messages: list[Message] = [
        {"role": "user", "content": "Hi! I like sushi with tuna.\nHow are you today, my dear old friend?"},
        {"role": "assistant", "content": "ok. Fine, thank you."},
        {"role": "assistant", "content": "[calls search with a long list of things to look for]"},
        {"role": "user", "content": "Project Atlas is due on 25 November 2026. 我喜欢吃金枪鱼寿司。"},
    ]

    assert highlights(messages).text.splitlines()[:4] == [
        "- user: I like sushi with tuna.",
        "- user: How are you today, my dear old friend?",
        "- assistant: Fine, thank you.",
        "- user: Project Atlas is due on 25 November 2026.",
    ]


@given(turns, st.integers(0, 25))
def test_highlights_do_not_depend_on_how_a_session_is_split(messages: list[Message], cut: int) -> None:
    whole = _lines(messages)

    assert _lines(messages[:cut], messages[cut:]) == whole
    assert _lines(messages, messages) == whole
    assert len(whole.splitlines()) <= MAX_HIGHLIGHTS
