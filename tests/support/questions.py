"""Questions of every kind, and the time that their search takes."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

from memfs import Vault
from support.people import fill

ODD = {  # questions as people type them, and what they are about
    "where is 10:30 o'clock meeting?": "The stand-up is at 10:30 in room four.",
    "What's Bob's e-mail? bob.stone@example.com": "Reach Bob Stone at bob.stone@example.com on weekdays.",
    "https://wiki.example.org/atlas/setup?tab=2#ports": "Setup: https://wiki.example.org/atlas/setup lists the ports.",
    "/etc/nginx/sites-enabled/default.conf": "The proxy is set up in /etc/nginx/sites-enabled/default.conf on web3.",
    "C++": "Greta writes the decoder in C++ and nothing else.",
    "who codes in C#?": "Henrik does the desktop client in C# these days.",
    "東京": "来週は東京に出張します。",
    "東京に行く": "春に東京に行く予定です。",
    "zurich hotel": "In Zürich the hotel Löwen keeps a room for us.",
    "Zürich airport": "The airport of Zürich closes its gates at eleven.",
    "naïve café": "The naïve painter's café opens at noon.",
    "title:secret OR body:secret": "The secret of the sauce is anchovies.",
    "NOT vegan AND (glutenfree OR nutfree)": "Ida is vegan; her cake was glutenfree and nutfree.",
    "(((unbalanced": "An unbalanced wheel shook the van.",
    'he said "open sesame" twice': 'The vault opens with "open sesame", said twice.',
    '"exactly this phrase"': "We agreed on exactly this phrase for the sign.",
    'a single " quote about lighthouse': "The lighthouse keeper left a note.",
    "budget:2027": "The budget of 2027 is 40,000 euros.",
    "+jazz -rock": "Karl collects jazz records.",
    "wild*": "Wildlife photographs hang in the corridor.",
    "fuzzy~2 matching^4": "Fuzzy matching of names is off by default.",
    "[a TO z] range": "The range of the kiln is 900 to 1,300 degrees.",
    "50% discount!": "The choir gets a 50% discount at the hall.",
    "$HOME/.ssh/config": "Jump hosts are listed in $HOME/.ssh/config of the build machine.",
    "item #4711-B": "Spare part #4711-B is on the top shelf.",
    "SELECT * FROM users; --": "The users table was renamed in spring, so SELECT statements changed.",
    "<script>alert(1)</script>": "A script alert woke the night shift.",
    "Ωmega-3 oil": "Omega-3 oil, Ωmega as Nikos writes it, stands in the fridge.",
    "what is the capital of Ålesund municipality?": "Ålesund municipality moved its archive.",
    "don't you know who's coming on Wednesday?": "Wednesday: the chimney sweep is coming at eight.",
}


def crowd(root: Path) -> Path:
    fill(root, 300)
    (root / "odd").mkdir()
    for number, text in enumerate(ODD.values()):
        (root / "odd" / f"memory-{number}.md").write_text(text + "\n", encoding="utf-8")
    return root


PIECES = [
    *"()[]{}\"'*?~^:+-!|&/\\<>=#@$%.,;`", "AND", "OR", "NOT", "TO", "body:", "title:", "\x00", "\ud800", "\u202e",
    "é", "東京", "🍣", "a" * 300, "NOT " * 50, "(" * 100, "alice", "Porto", "the", "ß", "İ", "\n", "\t", "”", "“",
    "0", "1e9",
]  # fmt: skip


def odd_questions(number: int, seed: int) -> Iterator[str]:
    """Texts of signs, operators and words, in any order."""
    pick = random.Random(seed)
    for _ in range(number):
        yield "".join(pick.choice(PIECES) + pick.choice(["", " "]) for _ in range(pick.randint(0, 12)))


def slowest_answer(vault: Vault, number: int, seed: int) -> float:
    """Search for odd questions; return the seconds of the slowest search."""
    slowest = 0.0
    for question in odd_questions(number, seed):
        started = time.monotonic()
        hits = vault.search(question, limit=3)
        slowest = max(slowest, time.monotonic() - started)
        assert all(0 <= hit.relevance <= 1 for hit in hits)
    return slowest


HUGE = ["(" * 3000, "NOT " * 20_000, "x" * 1_000_000, '"' * 10_001, "a* " * 5000, "東" * 50_000, "word " * 50_000]
