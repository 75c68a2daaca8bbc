"""The index on Tantivy: tokenizing and keywords."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.index_rows import row

from memfs.index.document_builder import Document
from memfs.index.tantivy_analyzer import Analyzer
from memfs.index.tantivy_index import index_in_memory
from memfs.query.keyword_terms import join_keywords
from memfs.query.tokens import LANGUAGES


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_question_is_tokenized_in_every_language(language: str) -> None:
    assert Analyzer(language).question_terms("Kiwi42")


@given(
    st.lists(
        st.text(st.sampled_from("ab=% \t\n\f\r\x0b\x1c\x1f\x85\xa0\u2028sné日"), min_size=1), min_size=1, unique=True
    )
)
@example(["a b", "a", "b", "a\x1fsb", "a\tb", " ", "\x1f", "\x1fs"])
def test_a_keyword_stays_one_term_with_any_white_space(texts: list[str]) -> None:
    keywords = [f"x={text}" for text in texts]
    documents = [
        Document(row(f"{at}.md"), "tea", join_keywords(["tags=tea", one]), {}) for at, one in enumerate(keywords)
    ]

    index = index_in_memory([(None, document) for document in documents], "english")

    assert [index.rows_with_keyword(one) for one in keywords] == [[at] for at in range(len(keywords))]
    assert sorted(index.values("x")) == sorted(texts)
    assert sorted(index.values("x", without=keywords[:1])) == sorted(texts[1:])
