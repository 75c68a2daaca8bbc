"""Text analysis with Tantivy: tokenizing, stop words and stemming, the same for indexed texts and for questions."""

import tantivy
from tantivy import Filter as TokenFilter

from memfs.query.tokens import PREFIX_ENDINGS, STOP_WORDS, emoji_terms, normalize_text

MAX_TERM_BYTES = 80  # a longer word is not indexed
TOKENIZER = "memfs"  # the name under which an index finds the analyzer


class Analyzer:
    """Splits texts and questions into terms, in the same way as the index of this language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._full = text_analyzer(language)
        self._without_stop_words = text_analyzer(language, without_stop_words=True)

    def register(self, index: tantivy.Index) -> None:
        """Register the analyzer of indexed texts with an open index."""
        index.register_tokenizer(TOKENIZER, self._full)

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text, in order."""
        return self._full.analyze(normalize_text(text))

    def question_terms(self, question: str) -> list[str]:
        """Return the terms of a question: its words without stop words, else its emoji, else its stop words."""
        text = normalize_text(question, is_question=True)
        return self._without_stop_words.analyze(text) or self._full.analyze(emoji_terms(question) or text)

    def prefix_stems(self, prefix: str) -> set[str]:
        """Return the probable stems of words that start with a prefix, found with common endings."""
        return {
            term
            for ending in PREFIX_ENDINGS
            for term in self._full.analyze(normalize_text(prefix + ending, is_question=True))
        }

    def phrase_terms(self, text: str) -> tuple[str, ...]:
        """Return the terms of a phrase, including stop words; its emoji if it has no words."""
        terms = self._full.analyze(normalize_text(text, is_question=True))
        return tuple(terms or self._full.analyze(emoji_terms(text)))


def text_analyzer(language: str, *, without_stop_words: bool = False) -> tantivy.TextAnalyzer:
    """Return Tantivy's analyzer for a language; it keeps stop words if Tantivy does not know those of the language."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(TokenFilter.remove_long(MAX_TERM_BYTES)).filter(TokenFilter.lowercase())
    if without_stop_words and language == "english":
        builder = builder.filter(TokenFilter.custom_stopword(sorted(STOP_WORDS)))
    elif without_stop_words:
        try:
            builder = builder.filter(TokenFilter.stopword(language))
        except ValueError:  # Tantivy has no stop words for some languages, and this builder cannot be used again
            return text_analyzer(language)
    return builder.filter(TokenFilter.ascii_fold()).filter(TokenFilter.stemmer(language)).build()
