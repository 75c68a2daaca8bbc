"""Texts like those agents keep: a first line that makes a name, and 300 to 800 bytes in all."""

import random
from collections.abc import Iterator

HEADER = """\
id: m-01k9zq6d0m2p3q4r5s{number:08d}
type: fact
tags:
  - food
  - work
created: 2026-11-15T10:41:12Z
importance: 3
"""

_SENTENCES = """
Alice prefers green tea before the early meeting on Monday and coffee after it
Bob asked about the budget review of project Atlas and cancelled the train ticket to Berlin
Carol planned a quiet holiday in spring with seven friends and a small blue bicycle
The customer in Tokyo needs the release before October but remembers the deadline of forty days
The doctor wrote about the peanut allergy and bought sushi for the school garden kitchen
"""
_WORDS = _SENTENCES.split()


def texts(seed: int) -> Iterator[str]:
    """An endless stream of different texts, the same for the same seed."""
    chance = random.Random(seed)
    number = 0
    while True:
        number += 1
        words = chance.choices(_WORDS, k=chance.randint(50, 130))
        lines = [" ".join(words[start : start + 12]) for start in range(0, len(words), 12)]
        yield f"{lines[0]}.\n\n" + ".\n".join(lines[1:]) + f".\nNote {seed}-{number}."


def memory(number: int, text: str) -> str:
    """A memory file as memfs lays it out."""
    return f"---\n{HEADER.format(number=number)}---\n\n{text}\n"
