"""The index as a whole: built, looked through for changes, on disk and in memory."""

import json
import shutil
import subprocess

from benchmarks.floors import Raw
from benchmarks.measure import Row, Times, interleaved
from benchmarks.place import STATE, Place, bytes_below
from benchmarks.processes import CHILD, spent
from benchmarks.serving import LIMIT
from memfs import Vault

BUILD_GOAL = 1.6
SCAN_GOAL = 2.0
MEMORY = 300e6
FLOOR = "reading, and tantivy of body and path"
STATUS = "git status --porcelain"
OPENED = "git status, tantivy opened, 5 bodies and snippets"
QUESTIONS = 20  # asked before memory is looked at


def rows(place: Place) -> list[Row]:
    """A cold build, a scan that finds nothing, and the room that it all takes."""
    return [*_builds(place), *_scans(place), *_room(place)]


def _builds(place: Place) -> list[Row]:
    """In processes of their own; the time is that of the build, without the start of python."""
    root, target = place.root, place.folder / "raw"
    ours: list[dict[str, float]] = []
    floor: list[dict[str, float]] = []
    subprocess.run(["grep", "-rqs", "no such text", str(root / "facts")], check=False)  # the files are in memory now
    for _ in range(place.size.builds):
        shutil.rmtree(root / STATE, ignore_errors=True)
        ours.append(json.loads(spent([*CHILD, "build", str(root)]).output))
        shutil.rmtree(target, ignore_errors=True)
        floor.append(json.loads(spent([*CHILD, "build_raw", str(root), str(target)]).output))
    return [
        Row(
            f"cold build, {name}",
            Times([one[key] for one in ours]),
            FLOOR,
            Times([one[key] for one in floor]),
            goal,
        )
        for key, name, goal in (("wall", "wall", BUILD_GOAL), ("cpu", "CPU", None))
    ]


def _scans(place: Place) -> list[Row]:
    root, raw, question = place.indexed, place.raw, place.questions[0].text
    if not (root / ".git").exists():
        place.notes.append("scan with nothing changed: skipped: the vault is not in git")
        return []

    def sync() -> None:
        with Vault(root) as vault:
            vault.sync()

    def ask() -> None:
        with Vault(root) as vault:
            vault.search(question, limit=LIMIT)

    def status() -> None:
        subprocess.run(["git", "status", "--porcelain"], cwd=root, check=True, stdout=subprocess.DEVNULL)

    def opened() -> None:
        status()
        Raw(raw).ask(question)

    subjects = {"sync": sync, "floor": status, "ask": ask, "opened": opened}
    for subject in subjects.values():
        subject()
    times = interleaved(subjects, 2 * place.size.builds, block=1)
    return [
        Row("new Vault, sync with nothing changed", times["sync"], STATUS, times["floor"], SCAN_GOAL),
        Row("warm open, new Vault until its first answer", times["ask"], OPENED, times["opened"]),
    ]


def _room(place: Place) -> list[Row]:
    questions = [question.text for question in place.questions[:QUESTIONS]]
    memory = {
        name: Times([float(spent([*CHILD, name, str(where), *questions]).output)])
        for name, where in (("hold", place.indexed), ("hold_raw", place.raw))
    }
    disk = [Times([bytes_below(folder) / place.size.memories]) for folder in (place.root / STATE / "index", place.raw)]
    return [
        Row("index on disk, a memory", disk[0], "tantivy, bodies stored", disk[1], unit="bytes"),
        Row(
            "memory of a process that has searched",
            memory["hold"],
            "tantivy, bodies stored",
            memory["hold_raw"],
            limit=MEMORY,
            unit="bytes",
        ),
    ]
