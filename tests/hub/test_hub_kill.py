"""A push or a pull that is killed (SIGKILL) at any point and run again has the same result as without the kill."""

import itertools
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memfs
from memfs import Vault
from memfs.hub import Hub, HubReport, pull, push

KILL_POINTS = 9
MEMFS_DIR = str(Path(memfs.__file__).parent)
Files = dict[str, bytes]


@pytest.fixture
def hub(postgres_url: str) -> Iterator[Hub]:
    with Hub(postgres_url) as made:
        yield made


def files(root: Path) -> Files:
    """Return the bytes of every file of a vault except `.memfs`."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".memfs" not in path.parts
    }


def rows(hub: Hub) -> list[Any]:
    return hub.database.rows("SELECT key, path, hash, id, data FROM memfs.files ORDER BY key")


class Saved:
    """A copy of the rows of a hub, to start from again."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        hub.database.rows("DROP TABLE IF EXISTS memfs.saved_files, memfs.saved_hubs")
        hub.database.rows("CREATE TABLE memfs.saved_files AS TABLE memfs.files")
        hub.database.rows("CREATE TABLE memfs.saved_hubs AS TABLE memfs.hubs")

    def restore(self) -> None:
        for table in ("files", "hubs"):
            self._hub.database.rows(f"DELETE FROM memfs.{table}")
            self._hub.database.rows(f"INSERT INTO memfs.{table} TABLE memfs.saved_{table}")


def two_vaults(tmp_path: Path, hub: Hub) -> tuple[Path, Path]:
    """Create two vaults that shared 60 memories and were both changed since. Return their roots."""
    desk, laptop = Vault.init(tmp_path / "desk"), Vault.init(tmp_path / "laptop")
    for number in range(60):
        header = f"---\nid: m-{number}\n---\n\n" if number % 2 else ""
        desk.create(f"facts/{number % 7}/{number}.md", f"{header}Fact {number}.\n")
    push(desk, hub)
    pull(laptop, hub)
    for number in range(8):
        (desk.root / f"facts/{number % 7}/{number}.md").write_text(f"Desk says {number}.\n")
    for number in range(8, 12):
        desk.remove(f"facts/{number % 7}/{number}.md")
    for number in range(13, 19, 2):
        desk.move(f"facts/{number % 7}/{number}.md", f"moved/{number}.md")
        desk.append(f"moved/{number}.md", "And more.")
    desk.move("facts/6/20.md", "moved/20.md")
    for number in range(10):
        desk.create(f"new/{number}.md", f"New {number}.\n")
    desk.create("new/latin.md", b"caf\xe9\n")
    for number in (1, 2, 9, 13):  # changed on both sides, removed on the hub, moved on the hub
        laptop.append(f"facts/{number % 7}/{number}.md", "Laptop, too.")
    laptop.remove("facts/3/3.md")
    laptop.move("facts/4/4.md", "moved/4.md")
    laptop.create("new/5.md", "Another five.\n")
    for vault in (desk, laptop):
        vault.close()
    return desk.root, laptop.root


def run_in_child(act: Callable[[], object], last: int | None) -> int:
    """Run in a child process that is killed at this call of a memfs function. Return the number of calls; 0 if killed.

    Thread timing varies, so the last numbers may not be reached.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            numbers = itertools.count(1)

            def count(frame: Any, event: str, _: object) -> None:
                if event == "call" and frame.f_code.co_filename.startswith(MEMFS_DIR) and next(numbers) == last:
                    os.kill(os.getpid(), signal.SIGKILL)

            threading.setprofile(count)
            sys.setprofile(count)
            act()
            sys.setprofile(None)
            os.write(writer, str(next(numbers)).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with open(reader, encoding="ascii") as end:
        calls = end.read()
    status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) == (0 if calls else -signal.SIGKILL)
    return int(calls or 0)


def kill_points(act: Callable[[], object]) -> list[int]:
    """Return call numbers, evenly distributed from the first to the last."""
    total = run_in_child(act, None)
    return sorted({1, *(total * number // KILL_POINTS for number in range(1, KILL_POINTS)), total - 20})


def kill_and_repeat(
    root: Path, url: str, saved: Saved, act: Callable[[Vault, str], HubReport], result: Callable[[], object]
) -> None:
    copy = root.parent / "killed"

    def begin() -> None:
        saved.restore()
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(root, copy)

    def run() -> HubReport:
        with Vault(copy) as vault:
            return act(vault, url)

    begin()
    run()
    expected = files(copy), result()
    begin()
    kills = 0
    for last in kill_points(run):
        begin()
        kills += not run_in_child(run, last)
        run()
        differing = set(files(copy).items()) ^ set(expected[0].items())
        assert not differing, f"killed at call {last}"
        assert result() == expected[1], f"killed at call {last}"
        again = run()
        assert (again.changes, again.problems) == (0, ())
    assert kills >= KILL_POINTS - 1


def test_a_killed_push_can_be_repeated(hub: Hub, tmp_path: Path, postgres_url: str) -> None:
    desk, _ = two_vaults(tmp_path, hub)

    kill_and_repeat(desk, postgres_url, Saved(hub), push, lambda: rows(hub))


def test_a_killed_pull_can_be_repeated(hub: Hub, tmp_path: Path, postgres_url: str) -> None:
    desk, laptop = two_vaults(tmp_path, hub)
    push(Vault(desk), hub)

    kill_and_repeat(laptop, postgres_url, Saved(hub), pull, lambda: rows(hub))
