"""Hostile names at full scale: what is refused or encoded, and what must not be touched."""

import random
import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from test_namespace import HOSTILE, Snapshot, assert_inside, attempts, build, outside

from memfs import MemfsError, Vault

from .figures import figure

NAMES, A_WORLD = 300, 20  # names, and how many of them meet the same vault
CHANGES: list[Callable[[str, random.Random], str]] = [
    lambda name, _: quote(name.encode(errors="replace"), safe=""),
    lambda name, _: quote(quote(name.encode(errors="replace"), safe=""), safe=""),
    lambda name, _: unicodedata.normalize("NFD", name),
    lambda name, _: name.upper(),
    lambda name, _: name.replace("/", "\\"),
    lambda name, _: name.replace("/", "\u2215"),
    lambda name, _: name.replace("a", "а"),  # of another alphabet
    lambda name, pick: name + pick.choice(["\0", ".md", "/", " ", ".", "\n", "%00.md", "/..", ":x", "~1"]),
    lambda name, pick: pick.choice(HOSTILE) + "/" + name,
    lambda name, pick: name[: pick.randint(0, len(name))] + chr(pick.randrange(0x11000)) + name,
]


@pytest.mark.torture
def test_no_hostile_name_reaches_anything_outside(mount_tmpfs: Callable[[str], Path], snapshot: Snapshot) -> None:
    """Each name goes to every verb of a scope handle on /actors/alice."""
    disk, pick, outcomes = mount_tmpfs("size=256m"), random.Random(NAMES), Counter[str]()
    names = [pick.choice(CHANGES)(pick.choice(HOSTILE), pick) for _ in range(NAMES)]
    for first in range(0, NAMES, A_WORLD):
        root = build(disk / f"{first}" / "vault")
        before = outside(snapshot, root)
        with Vault(root) as vault:
            alice = vault.scope("/actors/alice")
            for name in names[first : first + A_WORLD]:
                for attempt in attempts(alice, name):
                    try:
                        assert_inside(attempt())
                        outcomes["answered"] += 1
                    except MemfsError:
                        outcomes["refused"] += 1
        assert outside(snapshot, root) == before, names[first : first + A_WORLD]
        shutil.rmtree(root.parent)
    figure(
        "hostile names",
        f"{NAMES} names, {outcomes.total()} calls of a scope handle: {outcomes['refused']} refused, "
        f"{outcomes['answered']} answered from its own subtree; 0 bytes outside touched, none of /actors/alice2 seen",
    )
