"""Changes that are not published yet: counting and scoring."""

import os
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memfs.data_types import Memory
from memfs.format.frontmatter import parse_file
from memfs.index.unpublished_changes import UnpublishedChange, UnpublishedChanges
from memfs.query.question import Weights

_WORDS = st.sampled_from("abcde")


@given(
    edits=st.lists(
        st.tuples(st.integers(0, 4), st.lists(_WORDS, max_size=8), st.booleans(), st.booleans()), max_size=20
    ),
    groups=st.lists(st.lists(_WORDS, min_size=1, max_size=3, unique=True), max_size=4),
)
def test_unpublished_changes_are_counted_and_scored_as_they_are_now(
    edits: list[tuple[int, list[str], bool, bool]], groups: list[list[str]]
) -> None:
    unpublished, now = UnpublishedChanges(), dict[str, UnpublishedChange]()
    for number, terms, is_new, is_published in edits:
        path = f"facts/{number}.md"
        memory = Memory(path, " ".join(terms).encode(), os.stat(__file__), parse_file)
        if is_published:
            unpublished.drop(path)
            now.pop(path, None)
        else:
            now[path] = UnpublishedChange(memory, terms, is_new=is_new) if terms else UnpublishedChange(None)
            unpublished.put(path, now[path])
    having = {word: [change for change in now.values() if word in change.terms] for word in "abcde"}
    weights = Weights({"a": 1.0, "b": 2.0, "c": 0.5, "d": 3.0}, 6.5, groups)  # no memory in the index has the term e

    assert unpublished.entries == now
    for word, those in having.items():
        assert unpublished.document_frequency(word) == len(those)
        assert unpublished.combined_frequency(0, word) == len(those)
        assert unpublished.combined_frequency(7, word) == 7 + sum(change.is_new for change in those)
    scores = unpublished.scores(weights.groups, weights.by_term, 4.0)
    whole = {path: weights.score(Counter(one.terms), len(one.terms), 4.0) for path, one in now.items()}
    assert scores == pytest.approx({path: score for path, score in whole.items() if score})
