"""Texts and questions as words: what is done to a text before it is cut into terms. Pure."""

import re
import unicodedata
from typing import NamedTuple

MAX_QUESTION = 2000  # characters; what follows is not looked at
MAX_TERMS = 64
ENDINGS = (
    "",
    "s",
    "es",
    "ed",
    "ing",
    "on",
    "ion",
    "ng",
    "e",
    "y",
)  # with which a prefix becomes a word that has a stem
LANGUAGES = (
    "arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian",
    "norwegian", "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish",
)  # fmt: skip
STOP_WORDS = frozenset(
    """
    a about after again all also am an and any are as at be because been before being between both but by can
    could d did do does doing don down during each else ever few for from further had has have having he her here
    hers herself him himself his how i if in into is it its itself just ll m me more most my myself no nor not of
    off on once only or other our ours ourselves out over own please re s same she should so some such t tell than
    that the their theirs them themselves then there these they this those through to too under until up ve very
    was we were what when where which while who whom whose why will with would you your yours yourself
    """.split()
)
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_ACCENTS = re.compile("[\u0300-\u036f]")
_SIGNED = re.compile(r"(?<![^\W_])([^\W\d_])(\+\+|#)(?![^\W_])")
_SIGNS = {"++": "plusplus", "#": "sharp"}
_EMOJI = re.compile(  # a flag is two letters; a skin tone is none
    "[\U0001f1e6-\U0001f1ff]{2}|[\u231a-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
)
EMOJI = "emoji"  # begins the term that stands for one; digits follow, which no stemmer cuts off
_NAMED = re.compile(EMOJI + r"(\d{4,6})(\d{6})?")
_QUOTED = re.compile(r'"([^"]*)"|“([^”]*)”')
_PREFIX = re.compile(r"([^\W_]{2,})\*(?!\S)")


class Asked(NamedTuple):
    """A question, cut by its own small grammar: loose words, "phrases", and prefixes*."""

    words: str
    phrases: tuple[str, ...]
    prefixes: tuple[str, ...]


def is_loose(question: str) -> bool:
    """Tell whether a question is loose words and nothing else, as most are."""
    return '"' not in question and "*" not in question and "“" not in question


def ask(question: str) -> Asked:
    """Read a question; any text is one."""
    question = question[:MAX_QUESTION]
    phrases = tuple([first or second for first, second in _QUOTED.findall(question)])
    loose = _QUOTED.sub(" ", question) if phrases else question
    prefixes = tuple(_PREFIX.findall(loose)) if "*" in loose else ()
    return Asked(_PREFIX.sub(" ", loose) if prefixes else loose, phrases, prefixes)


def prepare(text: str, *, is_question: bool = False) -> str:
    """Fold a text so that it can be cut at what is no letter or digit.

    Accents go, C++ and C# become words, and scripts without spaces become pairs of characters; a text has
    single characters besides, for questions of one, and its emoji as words at the end, where they part no phrase.
    """
    if not text.isascii():
        if not is_question and (names := emoji(text)):
            text = f"{text} {names}"
        text = UNSPACED.sub(_pairs if is_question else _pairs_and_singles, fold(text))
    if "#" in text or ("+" in text and "++" in text):  # one character is found sooner than two
        text = _SIGNED.sub(lambda found: f"{found[1]} {found[1]}{_SIGNS[found[2]]}", text)
    return text


def fold(text: str) -> str:
    """A text without accents, and with plain letters for wide and joined ones."""
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


def emoji(text: str) -> str:
    """The emoji of a text as words, each once; cutting would drop them, for they are no letters."""
    signs = dict.fromkeys(_EMOJI.findall(text))
    return " ".join([EMOJI + "".join([str(ord(character)) for character in sign]) for sign in signs])


def emoji_of(term: str) -> str:
    """The emoji that a term stands for; nothing if it is a word like others."""
    found = _NAMED.fullmatch(term)
    return "".join([chr(int(number)) for number in found.groups("") if number]) if found else ""


def _pairs(run: re.Match[str]) -> str:
    text = run[0]
    pairs = [text[at : at + 2] for at in range(len(text) - 1)]
    return f" {' '.join(pairs) or text} "


def _pairs_and_singles(run: re.Match[str]) -> str:
    text = run[0]
    return f"{_pairs(run)}{' '.join(text)} " if len(text) > 1 else f" {text} "
