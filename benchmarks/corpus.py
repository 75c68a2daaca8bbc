"""Synthetic memories like those of agents, and questions about them: made-up words with natural frequencies.

A text depends only on its number, so any memory can be generated without those before it.
"""

import random
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

HEADER = """\
id: m-01k9zq6d0m2p3q4r5s{number:08d}
type: {type}
tags:
  - {tags[0]}
  - {tags[1]}
created: 2026-{month:02d}-{day:02d}T10:41:12Z
importance: {importance}
"""
TYPES = ("fact", "preference", "episode", "procedure")
ACTORS = 400  # namespaces of a large vault
_STOP = """
the of and to a in is it that for was on with as he be at by i this had not are but from or have an they which you were
her she all their we him been has when who will no more if out so what up its about into than them can only other some
could these then do any my over such your our me after most also did before through too would where while because those
how does here just there why until under very his
"""
_COMMON = """
know say like plan need ask prefer remember talk want find buy choose keep use visit
"""
STOP = _STOP.split()  # the most frequent first
_WORDS = 20_000
_STOP_SHARE = 0.42  # of the words of a text
_OFFSET = 30  # flattens the head: the most frequent content word is in every fifth memory
_QUESTIONS = (
    "what does {name} know about {0}?",
    "when did {name} talk about {0} and {1}?",
    "which {0} was it that we needed for the {1}?",
    "do you remember the {0} of {name}?",
    "where is the {0} for {1} and {2}?",
    "how did {name} choose the {0}, and why not {1}?",
    "what about {0}?",
)


class Sample(NamedTuple):
    """A memory of the corpus."""

    path: str
    type: str
    header: str
    body: str
    name: str  # of the actor it is about

    @property
    def text(self) -> str:
        """Return the text of the file, in the layout of memfs."""
        return f"---\n{self.header}---\n\n{self.body}\n"

    @property
    def tags(self) -> list[str]:
        return [line.removeprefix("  - ") for line in self.header.splitlines() if line.startswith("  - ")]


class Question(NamedTuple):
    """A natural question, and the memory it was generated from."""

    text: str
    about: Sample

    @property
    def typed(self) -> list[str]:
        """Return all words of the question."""
        return self.text.replace(",", "").rstrip("?").split()

    @property
    def words(self) -> list[str]:
        """Return the words without stop words."""
        return [word for word in self.typed if word not in STOP]

    @property
    def namespace(self) -> str:
        return "/" + self.about.path.rpartition("/")[0]


def word(number: int) -> str:
    """Return a pronounceable word, a different one for every number."""
    number += 600  # two syllables at least
    last = "nkmtpgbx"[number % 8]  # none that a stemmer removes as an ending
    number //= 8
    syllables = []
    while True:
        number, rest = divmod(number, 75)
        syllables.append("bdfgklmnprstvwz"[rest // 5] + "aeiou"[rest % 5])
        if not number:
            return "".join(syllables) + last


def _vocabulary() -> tuple[list[str], list[float]]:
    """Return the words and their cumulative frequencies: Zipf's law, for stop words and for the others."""
    content = [word(number) for number in range(_WORDS)]
    common = _COMMON.split()
    content[50 : 50 + len(common)] = common
    weights = [*_zipf(len(STOP), 2, _STOP_SHARE), *_zipf(_WORDS, _OFFSET, 1 - _STOP_SHARE)]
    return STOP + content, list(accumulate(weights))


def _zipf(words: int, offset: int, share: float) -> list[float]:
    weights = [1 / (rank + offset) for rank in range(words)]
    scale = share / sum(weights)
    return [weight * scale for weight in weights]


_VOCABULARY, _FREQUENCIES = _vocabulary()


def actors(memories: int) -> int:
    """Return the number of namespaces of a vault of that many memories."""
    return min(ACTORS, memories // 25 or 1)


def sample(number: int, memories: int) -> Sample:
    """Return one memory of a vault of that size: 300 to 800 bytes, with one or two rare words."""
    rng = random.Random(number)
    actor = number * actors(memories) // memories
    name = word(200_000 + actor).title()
    words = rng.choices(_VOCABULARY, cum_weights=_FREQUENCIES, k=rng.randint(30, 115))
    for rare in (300_000 + number // 3, 600_000 + number)[: rng.randint(1, 2)]:
        words[rng.randrange(len(words))] = word(rare)
    kind = TYPES[number % len(TYPES)]
    header = HEADER.format(
        number=number,
        type=kind,
        tags=rng.sample(_VOCABULARY[200:240], 2),
        month=number % 11 + 1,
        day=number % 28 + 1,
        importance=number % 5 + 1,
    )
    path = f"facts/actor-{actor}/{'-'.join(words[:5])}-{number}.md"
    return Sample(path, kind, header, _sentences(name, words), name)


def _sentences(name: str, words: list[str]) -> str:
    lines = [f"{name} {' '.join(words[:11])}."]
    lines += [f"{' '.join(words[start : start + 12]).capitalize()}." for start in range(11, len(words), 12)]
    return f"{lines[0]}\n\n" + "\n".join(lines[1:])


def samples(memories: int) -> Iterator[Sample]:
    """Return the memories of a vault."""
    return (sample(number, memories) for number in range(memories))


def questions(memories: int, number: int) -> list[Question]:
    """Return questions with two to four content words, rare and frequent, about memories all over the vault."""
    return [_question(index, (index * memories // number + index) % memories, memories) for index in range(number)]


def _question(index: int, number: int, memories: int) -> Question:
    about = sample(number, memories)
    words = sorted({text for text in about.body.lower().replace(".", "").split()[1:] if text not in STOP})
    chosen = random.Random(index).sample(words, 3)
    return Question(_QUESTIONS[index % len(_QUESTIONS)].format(*chosen, name=about.name), about)


def texts(seed: int) -> Iterator[str]:
    """Yield different texts for ever, the same for the same seed."""
    number = seed * 10_000_000
    while True:
        number += 1
        yield f"{sample(number, 1).body}\nNote {seed}-{number}."
