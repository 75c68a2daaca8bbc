"""The whole index: build time, scan for changes, size on disk and in memory."""

import json
import shutil
import subprocess

from benchmarks.baselines import PlainTantivy
from benchmarks.bench_run import STATE, BenchRun, bytes_below
from benchmarks.measure import Row, Times, interleaved
from benchmarks.processes import CHILD, run_measured
from benchmarks.serving import HIT_LIMIT
from memfs import Vault

BUILD_GOAL = 1.6
SCAN_GOAL = 2.0
MEMORY_LIMIT_BYTES = 300e6
BASELINE = "reading files, tantivy index of body and path"
STATUS = "git status --porcelain"
OPENED = "git status, tantivy opened, 5 bodies and snippets"
QUESTIONS = 20  # before memory is measured


def rows(run: BenchRun) -> list[Row]:
    """Return the rows of a cold build, a scan without changes, and disk space and memory."""
    return [*_builds(run), *_scans(run), *_space(run)]


def _builds(run: BenchRun) -> list[Row]:
    """Build in new processes; the start of Python is not timed."""
    root, target = run.root, run.folder / "raw"
    memfs_builds: list[dict[str, float]] = []
    baseline: list[dict[str, float]] = []
    subprocess.run(["grep", "-rqs", "no such text", str(root / "facts")], check=False)  # fills the page cache
    for _ in range(run.size.builds):
        shutil.rmtree(root / STATE, ignore_errors=True)
        memfs_builds.append(json.loads(run_measured([*CHILD, "build", str(root)]).output))
        shutil.rmtree(target, ignore_errors=True)
        baseline.append(json.loads(run_measured([*CHILD, "build_raw", str(root), str(target)]).output))
    return [
        Row(
            f"cold build, {name}",
            Times([one[key] for one in memfs_builds]),
            BASELINE,
            Times([one[key] for one in baseline]),
            goal,
        )
        for key, name, goal in (("wall", "wall", BUILD_GOAL), ("cpu", "CPU", None))
    ]


def _scans(run: BenchRun) -> list[Row]:
    root, raw, question = run.indexed, run.raw, run.questions[0].text
    if not (root / ".git").exists():
        run.notes.append("scan with nothing changed: skipped: the vault is not in git")
        return []

    def sync() -> None:
        with Vault(root) as vault:
            vault.sync()

    def search() -> None:
        with Vault(root) as vault:
            vault.search(question, limit=HIT_LIMIT)

    def status() -> None:
        subprocess.run(["git", "status", "--porcelain"], cwd=root, check=True, stdout=subprocess.DEVNULL)

    def opened() -> None:
        status()
        PlainTantivy(raw).ask(question)

    subjects = {"sync": sync, "baseline": status, "search": search, "opened": opened}
    for subject in subjects.values():
        subject()
    times = interleaved(subjects, 2 * run.size.builds, block=1)
    return [
        Row("new Vault, sync with nothing changed", times["sync"], STATUS, times["baseline"], SCAN_GOAL),
        Row("warm open, new Vault and its first search", times["search"], OPENED, times["opened"]),
    ]


def _space(run: BenchRun) -> list[Row]:
    questions = [question.text for question in run.questions[:QUESTIONS]]
    memory = {
        name: Times([float(run_measured([*CHILD, name, str(where), *questions]).output)])
        for name, where in (("hold", run.indexed), ("hold_raw", run.raw))
    }
    disk = [Times([bytes_below(folder) / run.size.memories]) for folder in (run.root / STATE / "index", run.raw)]
    return [
        Row("index on disk, per memory", disk[0], "tantivy, bodies stored", disk[1], unit="bytes"),
        Row(
            "memory of a process after searches",
            memory["hold"],
            "tantivy, bodies stored",
            memory["hold_raw"],
            limit=MEMORY_LIMIT_BYTES,
            unit="bytes",
        ),
    ]
