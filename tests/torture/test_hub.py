"""Nothing is lost between vaults: push and pull through PostgreSQL, with edits on both sides."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.people import facts
from support.postgres_server import Server
from support.vaults import data_by_path

from memfs import Vault
from memfs.hub import Hub, HubReport, pull, push

from .figures import figure

SMALL, FULL = 600, 10_000
TIMEOUT_SECONDS = 120
KILLED = """
import sys
from memfs import Vault, hub
act, root, url = sys.argv[1:]
with Vault(root) as vault:
    getattr(hub, act)(vault, url, progress=lambda done, total: print(done, flush=True))
"""


def fill(vault: Vault, number: int) -> list[str]:
    """Write memories without fsync, every second one with an id; return their paths."""
    paths = []
    for count, (actor, text) in enumerate(facts(number)):
        path = f"people/{actor}/fact-{count}.md"
        head = f"---\nid: m-{count}\n---\n\n" if count % 2 else ""
        (vault.root / path).parent.mkdir(parents=True, exist_ok=True)
        (vault.root / path).write_text(head + text, encoding="utf-8")
        paths.append(path)
    return paths


class Costs:
    """Measures seconds, statements and received rows of each push and pull."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.lines: list[str] = []

    def __call__(self, name: str, act: Callable[[], HubReport]) -> HubReport:
        database = self._hub.database
        before = database.statements_sent, database.rows_received
        report = act()
        statements, rows = database.statements_sent - before[0], database.rows_received - before[1]
        self.lines.append(f"{name} {report.seconds:.3f} s, {statements} statements, {rows} rows")
        return report


@pytest.mark.parametrize("number", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_two_vaults_that_were_both_edited_lose_nothing(
    tmp_path: Path, number: int, postgres: Server, postgres_url: str
) -> None:
    """A fifth of the memories is changed on each side, half of it on both: some are saved, others removed or moved."""
    tenth = number // 10
    with Hub(postgres_url) as hub, Vault.init(tmp_path / "desk") as desk, Vault.init(tmp_path / "laptop") as laptop:
        paths, cost = fill(desk, number), Costs(hub)
        assert len(cost(f"push of {number}", lambda: push(desk, hub)).created) == number
        assert len(cost(f"pull of {number}", lambda: pull(laptop, hub)).created) == number
        assert data_by_path(laptop) == data_by_path(desk)

        alive = edit(desk, "desk", paths[: 2 * tenth]) | edit(laptop, "laptop", paths[tenth : 3 * tenth])
        both = set(paths[tenth : tenth + tenth // 2])  # saved on both sides
        cost("push of the desk's edits", lambda: push(desk, hub))
        taken = cost("pull of them", lambda: pull(laptop, hub))
        cost("push of the laptop's edits", lambda: push(laptop, hub))
        cost("pull of them", lambda: pull(desk, hub))
        everything = set(data_by_path(desk, archived=True).values()) | set(data_by_path(laptop, archived=True).values())
        there = data_by_path(desk)
        assert there == data_by_path(laptop)
        assert alive <= everything
        assert both <= {conflict.path for conflict in taken.conflicts}
        assert all(conflict.copy in there for conflict in taken.conflicts if conflict.copy)

        push(laptop, hub)
        assert cost("idle pull", lambda: pull(laptop, hub)).changes == 0
        assert cost("idle push", lambda: push(laptop, hub)).changes == 0
        assert cost.lines[-2].endswith(", 1 statements, 1 rows")
        assert cost.lines[-1].endswith(", 1 statements, 1 rows")
    figure(
        "nothing is lost between vaults: edits on both sides",
        f"{number} memories, {len(alive)} edits saved: 0 lost, {len(taken.conflicts)} conflicts, all reported; "
        + "; ".join(cost.lines),
    )


@pytest.mark.parametrize("number", [pytest.param(2 * SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_pushes_and_pulls_that_are_killed_lose_nothing(
    tmp_path: Path, number: int, postgres: Server, postgres_url: str
) -> None:
    """Each is killed with SIGKILL when it has done one batch more than before, and restarted, until it completes."""
    with Vault.init(tmp_path / "desk") as desk, Vault.init(tmp_path / "laptop") as laptop:
        fill(desk, number)
        kills = {act: killed(act, vault, postgres_url) for act, vault in (("push", desk), ("pull", laptop))}

        assert data_by_path(laptop) == data_by_path(desk)
        assert len(data_by_path(desk)) == number
        assert push(laptop, postgres_url).changes == pull(desk, postgres_url).changes == 0
        assert laptop.check() == []
    assert all(kills.values())
    figure(
        "nothing is lost between vaults: kill -9",
        f"{number} memories, {kills['push']} pushes and {kills['pull']} pulls killed and restarted: 0 lost, "
        "both vaults equal, 0 conflicts",
    )


def killed(act: str, vault: Vault, url: str) -> int:
    """Kill and restart a push or pull until it completes; return the number of kills."""
    kills = 0
    while True:
        command = [sys.executable, "-c", KILLED, act, str(vault.root), url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            batches = [process.stdout.readline() for _ in range(kills + 1)]
            process.kill()  # in the middle of the next batch, if there is one
            process.wait(TIMEOUT_SECONDS)
        if not batches[-1]:
            return kills
        kills += 1


def edit(vault: Vault, name: str, paths: list[str]) -> set[bytes]:
    """Save, remove, move and add memories; return the texts that must exist in the end."""
    half, rest = paths[: len(paths) // 2], paths[len(paths) // 2 :]
    saved = [*half, *rest[: len(rest) // 2]]
    alive = set()
    for path in saved:
        target = vault.root / path
        target.write_bytes(target.read_bytes() + f"Seen by {name}.\n".encode())
        alive.add(target.read_bytes())
    others = rest[len(rest) // 2 :]
    for path in others[::3]:
        (vault.root / path).unlink()
    for path in others[1::3]:
        target = vault.root / "moved" / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        (vault.root / path).rename(target)
    for count, _ in enumerate(others[2::3]):
        alive.add(f"{name} adds {count}.\n".encode())
        vault.create(f"new/{name}-{count}.md", f"{name} adds {count}.\n")
    return alive
