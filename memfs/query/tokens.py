"""Text normalization before tokenizing, the syntax of questions, stop words and languages. Pure."""

import re
import unicodedata
from typing import NamedTuple

MAX_QUESTION_CHARS = 2000  # the rest of a longer question is ignored
MAX_TERMS = 64
PREFIX_ENDINGS = ("", "s", "es", "ed", "ing", "on", "ion", "ng", "e", "y")  # make words of a prefix, for the stemmer
LANGUAGES = (
    "arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian",
    "norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish",
)  # fmt: skip
STOP_WORDS = frozenset({  # English
    "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because",
    "been", "before", "being", "between", "both", "but", "by", "can", "could", "d", "did", "do", "does", "doing",
    "don", "down", "during", "each", "else", "ever", "few", "for", "from", "further", "had", "has", "have", "having",
    "he", "her", "here", "hers", "herself", "him", "himself", "his", "how", "i", "if", "in", "into", "is", "it",
    "its", "itself", "just", "ll", "m", "me", "more", "most", "my", "myself", "no", "nor", "not", "of", "off", "on",
    "once", "only", "or", "other", "our", "ours", "ourselves", "out", "over", "own", "please", "re", "s", "same",
    "she", "should", "so", "some", "such", "t", "tell", "than", "that", "the", "their", "theirs", "them",
    "themselves", "then", "there", "these", "they", "this", "those", "through", "to", "too", "under", "until", "up",
    "ve", "very", "was", "we", "were", "what", "when", "where", "which", "while", "who", "whom", "whose", "why",
    "will", "with", "would", "you", "your", "yours", "yourself",
})  # fmt: skip
UNSPACED = re.compile(  # runs of scripts that put no spaces between words
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_ACCENTS = re.compile("[\u0300-\u036f]")
_SIGNED = re.compile(r"(?<![^\W_])([^\W\d_])(\+\+|#)(?![^\W_])")  # a single letter with ++ or #, such as C++ and F#
_SIGNS = {"++": "plusplus", "#": "sharp"}
_EMOJI = re.compile(  # a flag is two letters; a skin tone is not matched
    "[\U0001f1e6-\U0001f1ff]{2}|[\u231a-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
)
EMOJI_PREFIX = "emoji"  # starts the term of an emoji; digits follow, which no stemmer cuts off
_EMOJI_TERM = re.compile(EMOJI_PREFIX + r"(\d{4,6})(\d{6})?")
_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”')
_PREFIX = re.compile(r"([^\W_]{2,})\*(?!\S)")


class QuestionParts(NamedTuple):
    """A question split by its syntax: plain words, "phrases" and prefixes*."""

    words: str
    phrases: tuple[str, ...]
    prefixes: tuple[str, ...]


def is_plain_question(question: str) -> bool:
    """Return whether a question has none of the characters that mark phrases and prefixes."""
    return '"' not in question and "*" not in question and "“" not in question


def split_question(question: str) -> QuestionParts:
    """Split a question, cut to its maximum length, by its syntax; any text is a valid question."""
    question = question[:MAX_QUESTION_CHARS]
    phrases = tuple([first or second for first, second in _QUOTED.findall(question)])
    words = _QUOTED.sub(" ", question) if phrases else question
    prefixes = tuple(_PREFIX.findall(words)) if "*" in words else ()
    return QuestionParts(_PREFIX.sub(" ", words) if prefixes else words, phrases, prefixes)


def normalize_text(text: str, *, is_question: bool = False) -> str:
    """Return a text that a tokenizer can split at every character that is neither letter nor digit.

    Accents are removed, C++ and C# become words, and runs of scripts without spaces become overlapping pairs of
    characters. To the text of a memory, the single characters of such runs are added, for questions of one character,
    and its emoji as words, at the end, where they separate no words of a phrase.
    """
    if not text.isascii():
        if not is_question and (names := emoji_terms(text)):
            text = f"{text} {names}"
        text = UNSPACED.sub(_pairs if is_question else _pairs_and_singles, strip_accents(text))
    if "#" in text or ("+" in text and "++" in text):  # searching one character is faster than two
        text = _SIGNED.sub(lambda match: f"{match[1]} {match[1]}{_SIGNS[match[2]]}", text)
    return text


def strip_accents(text: str) -> str:
    """Return a text without accents, and with plain letters in place of wide letters and ligatures."""
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def emoji_terms(text: str) -> str:
    """Return the emoji of a text as words, each once: a tokenizer drops the emoji themselves, which are not letters."""
    found = dict.fromkeys(_EMOJI.findall(text))
    return " ".join([EMOJI_PREFIX + "".join([str(ord(character)) for character in emoji]) for emoji in found])


def emoji_from_term(term: str) -> str:
    """Return the emoji of a term that `emoji_terms` made, empty for any other term."""
    found = _EMOJI_TERM.fullmatch(term)
    return "".join([chr(int(number)) for number in found.groups("") if number]) if found else ""


def _pairs(run: re.Match[str]) -> str:
    text = run[0]
    pairs = [text[start : start + 2] for start in range(len(text) - 1)]
    return f" {' '.join(pairs) or text} "


def _pairs_and_singles(run: re.Match[str]) -> str:
    text = run[0]
    return f"{_pairs(run)}{' '.join(text)} " if len(text) > 1 else f" {text} "
