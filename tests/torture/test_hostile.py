"""Hostile files: good memories stay searchable in bounded time and memory; nothing leaks, nothing changes."""

import json
import os
import random
from pathlib import Path
from typing import NamedTuple

import pytest
from support.commands import Script
from support.files import Snapshot
from support.hostile_files import BAD_NAMES, QUIET, REPORTED, SECRET, header

from .figures import figure

GIB = 1 << 30
SPLICES = (b"---\n", b"\0", b"\xff\xfe", b"[" * 200, b"&a *a ", b"!!python/object/apply:os.system ", b"\r", b"- " * 50)
SCRIPT = """
import time
vault, numbers = Vault(sys.argv[1]), range(0, int(sys.argv[2]), max(1, int(sys.argv[2]) // 200))
began = time.monotonic()
paths = [memory.path for memory in vault.list(archived=True)]
problems = [str(problem) for problem in vault.check()]
right = sum([hit.memory.path for hit in vault.search(f"goodword{n}")] == [f"good/m{n}.md"] for n in numbers)
odd = [hit.snippet for word in ("body", "secret", "root", "token", "name") for hit in vault.search(word, limit=200)]
doctor = [str(problem) for problem in vault.doctor()]
vault.close()
print(json.dumps({"paths": paths, "problems": len(problems), "right": right, "searched": len(numbers), "odd": str(odd),
    "doctor": doctor, "seconds": time.monotonic() - began, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""


class Scale(NamedTuple):
    """Numbers of good memories and of hostile files with some bytes changed."""

    good: int
    mutants: int


SMALL, FULL = Scale(200, 100), Scale(10_000, 5_000)


@pytest.mark.parametrize("scale", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_good_memories_are_found_among_hostile_files(
    traps: Path, run_script: Script, snapshot: Snapshot, scale: Scale
) -> None:
    odd = {*REPORTED, *QUIET, *_mutants(traps / "bad", scale.mutants)}
    for name, data in {**REPORTED, **QUIET}.items():
        (traps / "bad" / name).write_bytes(data)
    for number in range(scale.good):
        (traps / f"good/m{number}.md").write_bytes(header(f"id: m-g{number}") + f"goodword{number}\n".encode())
    (traps / "good/m001.md").unlink()
    before = snapshot(traps.parent, "vault/.memfs")

    done = run_script(SCRIPT, traps, scale.good, memory=4 * GIB, timeout=300)

    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    assert result["right"] == result["searched"]
    assert set(result["paths"]) == {f"good/m{number}.md" for number in range(scale.good)} | {f"bad/{n}" for n in odd}
    assert result["doctor"] == []
    assert SECRET not in done.stdout
    assert "root:" not in done.stdout
    assert snapshot(traps.parent, "vault/.memfs") == before
    figure(
        "hostile files",
        f"{scale.good} good memories among {len(odd)} hostile files and {len(BAD_NAMES)} that are not files: listed, "
        f"checked ({result['problems']} problems), indexed and searched in {result['seconds']:.0f} s with "
        f"{result['peak'] >> 10} MiB; {result['right']} of {result['searched']} good ones found, 0 bytes changed",
    )


def _mutants(place: Path, number: int) -> list[str]:
    """Write hostile files with bytes changed, removed, inserted, or mixed with others; return their names."""
    rng, sources, names = random.Random(number), [*REPORTED.values(), *QUIET.values()], []
    small = [data for data in sources if len(data) < 200_000]
    for count in range(number):
        data = bytearray(rng.choice(small if count % 50 else sources))
        for _ in range(rng.randint(1, 5)):
            at = rng.randrange(len(data) + 1) if rng.random() < 0.5 else rng.randrange(min(len(data), 200) + 1)
            drop = rng.choice([0, 0, 1, 3, 40])
            data[at : at + drop] = rng.choice([*SPLICES, os.urandom(3), rng.choice(small)[:80]])
        names.append(f"mutant-{count}.md")
        (place / names[-1]).write_bytes(data)
    return names
