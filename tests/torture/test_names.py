"""Hostile names at full scale: they are refused or encoded, and touch nothing outside the scope."""

import random
import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from support.files import Snapshot
from support.hostile_namespaces import HOSTILE, assert_inside, attempts, build, outside

from memfs import MemfsError, Vault

from .figures import figure

NAMES, NAMES_PER_VAULT = 300, 20
CHANGES: list[Callable[[str, random.Random], str]] = [
    lambda name, _: quote(name.encode(errors="replace"), safe=""),
    lambda name, _: quote(quote(name.encode(errors="replace"), safe=""), safe=""),
    lambda name, _: unicodedata.normalize("NFD", name),
    lambda name, _: name.upper(),
    lambda name, _: name.replace("/", "\\"),
    lambda name, _: name.replace("/", "\u2215"),
    lambda name, _: name.replace("a", "а"),  # a letter of another alphabet
    lambda name, rng: name + rng.choice(["\0", ".md", "/", " ", ".", "\n", "%00.md", "/..", ":x", "~1"]),
    lambda name, rng: rng.choice(HOSTILE) + "/" + name,
    lambda name, rng: name[: rng.randint(0, len(name))] + chr(rng.randrange(0x11000)) + name,
]


@pytest.mark.torture
def test_no_hostile_name_reaches_anything_outside(mount_tmpfs: Callable[[str], Path], snapshot: Snapshot) -> None:
    """Each name is passed to every method of a scope handle on /actors/alice."""
    disk, rng, outcomes = mount_tmpfs("size=256m"), random.Random(NAMES), Counter[str]()
    names = [rng.choice(CHANGES)(rng.choice(HOSTILE), rng) for _ in range(NAMES)]
    for first in range(0, NAMES, NAMES_PER_VAULT):
        root = build(disk / f"{first}" / "vault")
        before = outside(snapshot, root)
        with Vault(root) as vault:
            alice = vault.scope("/actors/alice")
            for name in names[first : first + NAMES_PER_VAULT]:
                for attempt in attempts(alice, name):
                    try:
                        assert_inside(attempt())
                        outcomes["accepted"] += 1
                    except MemfsError:
                        outcomes["refused"] += 1
        assert outside(snapshot, root) == before, names[first : first + NAMES_PER_VAULT]
        shutil.rmtree(root.parent)
    figure(
        "hostile names",
        f"{NAMES} names, {outcomes.total()} calls of a scope handle: {outcomes['refused']} refused, "
        f"{outcomes['accepted']} accepted within its own subtree; 0 bytes outside touched, none of /actors/alice2 read",
    )
