"""The events of both event sources, inotify and watchdog, on real files."""

import mmap
import os
import random
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from support.commands import Script
from watchdog.observers.api import EventEmitter

from memfs import Vault
from memfs.errors import InvalidNamespaceError
from memfs.freshness.event_source import EventSource, open_event_source
from memfs.freshness.file_events import FileEvents
from memfs.freshness.inotify_source import InotifySource
from memfs.freshness.network_mounts import has_remote_mount, is_remote
from memfs.freshness.watchdog_source import WatchdogSource
from memfs.fs.files import link_unnamed_file, open_root, walk
from memfs.fs.files import open_directory as open_below

DEADLINE = 20.0
Stamps = dict[str, tuple[int, ...]]
SOURCES: dict[str, Callable[[str], EventSource]] = {"kernel": InotifySource, "watchdog": WatchdogSource}

pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")  # watchdog's, of new directories


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a vault with memories at the root and two directories deep."""
    made = tmp_path / "vault"
    (made / "deep/er").mkdir(parents=True)
    for path in ("a.md", "deep/er/b.md", "deep/c.md"):
        (made / path).write_text("as it was\n")
    return made


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, root: Path) -> Iterator[EventSource]:
    """Return each kind of source, watching every directory."""
    made = SOURCES[request.param](str(root))
    list_and_watch(made, root)
    yield made
    made.close()


@pytest.fixture
def kernel(root: Path) -> Iterator[InotifySource]:
    made = InotifySource(str(root))
    list_and_watch(made, root)
    yield made
    made.close()


def list_and_watch(source: EventSource, root: Path, start: str = "") -> Stamps:
    """Return the stamps of all memories below a directory, which is watched before it is listed."""
    found: Stamps = {}
    waiting = [start]
    while waiting:
        place = waiting.pop()
        source.watch(place)
        with opened(root, place) as fd:
            for name in os.listdir(fd) if fd >= 0 else ():
                path = f"{place}/{name}" if place else name
                if name[0] in ".~#" or path in {"sessions", "README.md"}:
                    continue
                with suppress(FileNotFoundError):
                    if stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
                        waiting.append(path)
                    elif name.endswith(".md"):
                        found[path] = stamp(fd, name)
    return found


@contextmanager
def opened(root: Path, place: str) -> Iterator[int]:
    """Open a directory of the vault without following symlinks; -1 if there is none."""
    top = open_root(root)
    try:
        with (
            suppress(FileNotFoundError, InvalidNamespaceError),
            open_below(top, tuple(filter(None, place.split("/")))) as fd,
        ):
            yield fd
            return
        yield -1
    finally:
        os.close(top)


def stamp(fd: int, name: str) -> tuple[int, ...]:
    status = os.lstat(name, dir_fd=fd)
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def gather(source: EventSource, wanted: Callable[[FileEvents], bool]) -> FileEvents:
    """Poll until the events so far satisfy `wanted`. Return all of them."""
    collected = FileEvents(set(), set(), False)
    end = time.monotonic() + DEADLINE
    while not wanted(collected):
        source.wait(0.1)
        new = source.poll()
        collected = FileEvents(
            collected.paths | new.paths,
            collected.directories | new.directories,
            collected.is_incomplete or new.is_incomplete,
        )
        assert time.monotonic() < end, f"only {collected} was reported"
    return collected


def until_marked(source: EventSource, root: Path, mark: str = "deep/mark.md") -> FileEvents:
    """Return all events before those of a change that is made now: sources keep the order."""
    (root / mark).write_text("now\n")
    seen = gather(source, lambda events: mark in events.paths)
    return seen._replace(paths=seen.paths - {mark})


def watches(kernel: InotifySource) -> int:
    """Return the number of directories that the kernel watches."""
    return Path(f"/proc/self/fdinfo/{kernel.fileno()}").read_text().count("inotify wd:")


# --- files ----------------------------------------------------------------------------------------------


def write_in_place(root: Path, path: str) -> None:
    with (root / path).open("r+") as file:
        file.write("AS")


def write_without_closing(root: Path, path: str) -> None:
    held.append(os.open(root / path, os.O_WRONLY | os.O_APPEND))
    os.write(held[-1], b"more")


def write_through_a_map(root: Path, path: str) -> None:
    with (root / path).open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:2] = b"AS"


def rename_over(root: Path, path: str) -> None:
    temporary = (root / path).with_name(".tmp123")
    temporary.write_text("new\n")
    temporary.replace(root / path)


def save_as_vim_does(root: Path, path: str) -> None:
    file = root / path
    file.rename(f"{file}~")
    file.write_text("new\n")
    os.unlink(f"{file}~")


def move_aside_as_vim_does(root: Path, path: str) -> None:
    (root / path).rename(root / f"{path}~")


def edit_by_sed(root: Path, path: str) -> None:
    subprocess.run(["sed", "-i", "s/was/is/", path], cwd=root, check=True)


def link_a_nameless_file(root: Path, path: str) -> None:
    file = root / path
    file.unlink()
    parent = open_root(file.parent)
    fd = os.open(file.parent, os.O_TMPFILE | os.O_WRONLY, 0o644)
    os.write(fd, b"new\n")
    link_unnamed_file(fd, parent, file.name)
    os.close(fd)
    os.close(parent)


def replace_by_a_symlink(root: Path, path: str) -> None:
    (root / path).unlink()
    (root / path).symlink_to("elsewhere")


held: list[int] = []
CHANGES: dict[str, Callable[[Path, str], object]] = {
    "written in place": write_in_place,
    "written, not closed": write_without_closing,
    "written through a map": write_through_a_map,
    "truncated": lambda root, path: os.truncate(root / path, 3),
    "replaced": rename_over,
    "replaced by sed": edit_by_sed,
    "saved by vim": save_as_vim_does,
    "moved aside by vim": move_aside_as_vim_does,
    "deleted": lambda root, path: (root / path).unlink(),
    "linked": link_a_nameless_file,
    "made a symlink": replace_by_a_symlink,
    "made unreadable": lambda root, path: (root / path).chmod(0),
    "moved out": lambda root, path: (root / path).rename(root.parent / "out.md"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("path", ["a.md", "deep/er/b.md"])
def test_a_change_of_a_file_is_reported(source: EventSource, root: Path, path: str, change: str) -> None:
    CHANGES[change](root, path)

    seen = gather(source, lambda events: path in events.paths)

    assert seen == ({path}, set(), False)
    while held:
        os.close(held.pop())


@pytest.mark.parametrize("path", ["new.md", "deep/new.md", "deep/er/ünïcødé 猫.md", "archive.md"])
def test_a_new_file_is_reported(source: EventSource, root: Path, path: str) -> None:
    (root / path).write_text("new\n")

    assert gather(source, lambda events: path in events.paths) == ({path}, set(), False)


def test_a_renamed_file_is_reported_under_both_names(source: EventSource, root: Path) -> None:
    (root / "deep/er/b.md").rename(root / "deep/moved.md")

    seen = gather(source, lambda events: len(events.paths) == 2)

    assert seen == ({"deep/er/b.md", "deep/moved.md"}, set(), False)


def test_writes_of_the_vault_are_reported_without_its_state_directory(tmp_path: Path) -> None:
    vault = Vault.init(tmp_path / "made")
    source = InotifySource(str(vault.root))
    list_and_watch(source, vault.root)

    first = vault.add("Alice likes sushi.", namespace="/facts")
    second = vault.add("Bob likes tea.")
    vault.update(second.id, importance=3)

    assert source.poll() == ({second.path}, {"facts"}, False)
    assert first.path in list_and_watch(source, vault.root, "facts")
    vault.append(first.id, "And tuna.")
    vault.forget(second.id)
    assert source.poll() == ({first.path, second.path}, {"archive"}, False)
    source.close()


def test_writes_to_a_deleted_file_are_not_reported(kernel: InotifySource, root: Path) -> None:
    with (root / "a.md").open("a") as file:
        (root / "a.md").unlink()
        assert kernel.poll().paths == {"a.md"}
        file.write("into nothing\n")

    assert kernel.poll() == (set(), set(), False)


def test_files_that_are_no_memories_are_not_reported(source: EventSource, root: Path) -> None:
    for folder in (".memfs", ".git/objects", "sessions", "deep/.obsidian", "deep/~old", "#x"):
        (root / folder).mkdir(parents=True)
        source.watch(folder)
        (root / folder / "x.md").write_text("no\n")
        source.watch(folder)
        (root / folder / "y.md").write_text("no\n")
    for name in ("a.md~", ".a.md.swp", "#a.md#", "~a.md", "4913", "notes.txt", "README.md", "x.MD", "sub.md.part"):
        (root / name).write_text("no\n")
        (root / name).write_text("not either\n")
        (root / name).unlink()
    (root / "link").symlink_to("deep")
    with open(os.fsencode(root) + b"/\xff.md", "w") as file:
        file.write("no\n")
    shutil.rmtree(root / ".git")
    (root / "sessions").rename(root / ".sessions")
    assert (root / "a.md").read_text() == "as it was\n"
    assert len(os.listdir(root / "deep")) == 4

    assert until_marked(source, root) == (set(), set(), False)


# --- directories ----------------------------------------------------------------------------------------


def test_a_new_directory_with_files_is_reported(source: EventSource, root: Path) -> None:
    (root / "new/in").mkdir(parents=True)
    (root / "new/in/x.md").write_text("new\n")

    seen = gather(source, lambda events: "new" in events.directories)

    assert not seen.is_incomplete
    assert "new/in/x.md" in list_and_watch(source, root, "new")
    until_marked(source, root)
    (root / "new/in/x.md").write_text("edited\n")
    gather(source, lambda events: "new/in/x.md" in events.paths)


def test_a_directory_moved_in_is_reported(source: EventSource, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside/in").mkdir(parents=True)
    (tmp_path / "outside/in/x.md").write_text("new\n")
    (tmp_path / "outside").rename(root / "deep/came")

    gather(source, lambda events: "deep/came" in events.directories)

    assert "deep/came/in/x.md" in list_and_watch(source, root, "deep/came")


def test_an_edit_in_a_directory_moved_in_is_reported(kernel: InotifySource, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside/in").mkdir(parents=True)
    (tmp_path / "outside/in/x.md").write_text("new\n")
    (tmp_path / "outside").rename(root / "deep/came")
    assert kernel.poll() == (set(), {"deep/came"}, False)
    list_and_watch(kernel, root, "deep/came")

    (root / "deep/came/in/x.md").write_text("edited\n")

    assert kernel.poll() == ({"deep/came/in/x.md"}, set(), False)


def test_a_directory_moved_out_is_reported(source: EventSource, root: Path, tmp_path: Path) -> None:
    (root / "deep/er").rename(tmp_path / "gone")

    gather(source, lambda events: "deep/er" in events.directories)

    assert list_and_watch(source, root, "deep/er") == {}


def test_changes_in_a_directory_moved_out_are_not_reported(kernel: InotifySource, root: Path, tmp_path: Path) -> None:
    (root / "deep").rename(tmp_path / "gone")
    (tmp_path / "gone/er/b.md").write_text("elsewhere\n")
    (tmp_path / "gone/c.md").write_text("elsewhere\n")

    assert kernel.poll() == (set(), {"deep"}, False)
    (tmp_path / "gone/er/b.md").write_text("again\n")
    assert kernel.poll() == (set(), set(), False)
    assert watches(kernel) == 1


def test_an_edit_in_a_renamed_directory_is_reported_under_its_new_name(source: EventSource, root: Path) -> None:
    (root / "deep").rename(root / "renamed")
    seen = gather(source, lambda events: {"deep", "renamed"} <= events.directories)
    assert not seen.is_incomplete
    for folder in seen.directories:
        list_and_watch(source, root, folder)
    until_marked(source, root, "mark.md")

    (root / "renamed/er/b.md").write_text("edited\n")

    seen = gather(source, lambda events: "renamed/er/b.md" in events.paths)
    assert seen.paths <= {"renamed/er/b.md", "mark.md"}
    assert not seen.directories


def test_an_edit_before_the_rename_is_read_is_not_reported_under_the_old_name(
    kernel: InotifySource, root: Path
) -> None:
    (root / "deep").rename(root / "renamed")
    (root / "renamed/er/b.md").write_text("edited\n")

    assert kernel.poll() == (set(), {"deep", "renamed"}, False)


def test_a_directory_that_is_found_before_its_rename_is_read_keeps_its_new_name(
    kernel: InotifySource, root: Path
) -> None:
    (root / "deep").rename(root / "renamed")
    list_and_watch(kernel, root, "renamed")
    (root / "renamed/er/b.md").write_text("edited\n")

    assert kernel.poll() == ({"renamed/er/b.md"}, {"deep", "renamed"}, False)
    (root / "renamed/c.md").write_text("edited\n")
    assert kernel.poll() == ({"renamed/c.md"}, set(), False)


def test_a_directory_that_takes_the_name_of_one_moved_away_is_watched(kernel: InotifySource, root: Path) -> None:
    (root / "deep").rename(root / "old")
    (root / "deep").mkdir()
    list_and_watch(kernel, root)
    for folder in kernel.poll().directories:
        list_and_watch(kernel, root, folder)
    assert kernel.poll() == (set(), set(), False)

    (root / "deep/new.md").write_text("new\n")
    (root / "old/c.md").write_text("edited\n")

    assert kernel.poll() == ({"deep/new.md", "old/c.md"}, set(), False)


def test_directories_that_swap_names_are_followed(kernel: InotifySource, root: Path) -> None:
    (root / "other").mkdir()
    list_and_watch(kernel, root, "other")
    kernel.poll()
    (root / "deep").rename(root / "third")
    (root / "other").rename(root / "deep")
    (root / "third").rename(root / "other")

    for folder in kernel.poll().directories:
        list_and_watch(kernel, root, folder)
    (root / "deep/new.md").write_text("new\n")
    (root / "other/er/b.md").write_text("edited\n")

    assert kernel.poll() == ({"deep/new.md", "other/er/b.md"}, set(), False)


def test_a_directory_renamed_over_an_empty_one_is_watched(kernel: InotifySource, root: Path) -> None:
    (root / "empty").mkdir()
    list_and_watch(kernel, root, "empty")
    (root / "deep/er").rename(root / "empty")

    for folder in kernel.poll().directories:
        list_and_watch(kernel, root, folder)
    kernel.poll()
    (root / "empty/b.md").write_text("edited\n")

    assert kernel.poll() == ({"empty/b.md"}, set(), False)


def test_a_removed_tree_is_reported(source: EventSource, root: Path) -> None:
    subprocess.run(["rm", "-rf", root / "deep"], check=True)

    gather(source, lambda events: "deep" in events.directories and {"deep/c.md", "deep/er/b.md"} <= events.paths)

    (root / "deep").mkdir()
    gather(source, lambda events: "deep" in events.directories)
    list_and_watch(source, root, "deep")
    until_marked(source, root)


def test_removed_directories_leave_no_watches(kernel: InotifySource, root: Path) -> None:
    for _ in range(50):
        (root / "short").mkdir()
        list_and_watch(kernel, root, "short")
        (root / "short").rmdir()
        assert kernel.poll() == (set(), {"short"}, False)

    assert watches(kernel) == len(kernel.directories) == 3


def test_an_unmounted_file_system_is_reported(kernel: InotifySource, root: Path) -> None:
    (root / "disk").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", root / "disk"], check=True)
    (root / "disk/x.md").write_text("new\n")
    kernel.poll()
    assert list_and_watch(kernel, root, "disk").keys() == {"disk/x.md"}

    subprocess.run(["umount", root / "disk"], check=True)

    assert kernel.poll() == (set(), {"disk"}, False)
    assert kernel.is_alive
    list_and_watch(kernel, root, "disk")
    (root / "disk/y.md").write_text("new\n")
    assert kernel.poll() == ({"disk/y.md"}, set(), False)


def test_a_symlink_to_a_directory_is_not_watched(kernel: InotifySource, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/in").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    kernel.watch("link")
    kernel.watch("link/in")

    (tmp_path / "outside/x.md").write_text("elsewhere\n")
    (tmp_path / "outside/in/x.md").write_text("elsewhere\n")

    assert kernel.poll() == (set(), set(), False)
    assert kernel.is_alive


def test_a_root_that_is_a_symlink_is_watched_where_it_leads(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    source = InotifySource(str(tmp_path / "link"))
    list_and_watch(source, tmp_path / "link")

    (root / "deep/c.md").write_text("edited\n")
    assert source.poll() == ({"deep/c.md"}, set(), False)
    (tmp_path / "other").mkdir()
    (tmp_path / "new").symlink_to(tmp_path / "other")
    (tmp_path / "new").replace(tmp_path / "link")
    assert source.poll().is_incomplete


@pytest.mark.parametrize("place", ["", "deep", "deep/er"])
def test_a_directory_whose_mode_changes_is_reported(kernel: InotifySource, root: Path, place: str) -> None:
    (root / place).chmod(0o700)

    assert kernel.poll() == (set(), {place}, False)


def test_an_unreadable_directory_is_reported_when_it_becomes_readable(run_script: Script, public_path: Path) -> None:
    code = """
from memfs.freshness.inotify_source import InotifySource
root = sys.argv[1]
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
os.makedirs(f"{root}/vault/closed")
os.chmod(f"{root}/vault/closed", 0)
source = InotifySource(f"{root}/vault")
source.watch("closed")
assert source.is_alive and source.poll() == (set(), set(), False)
os.chmod(f"{root}/vault/closed", 0o755)
print(source.poll())
"""
    public_path.chmod(0o777)
    done = run_script(code, public_path)

    assert done.stdout == "FileEvents(paths=set(), directories={'closed'}, is_incomplete=False)\n", done.stderr


# --- failures --------------------------------------------------------------------------------------------


def test_an_overflowing_queue_reports_lost_events_and_continues(
    kernel: InotifySource, root: Path, tmp_path: Path
) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(limit + 2):
        os.truncate(root / ("a.md" if number % 2 else "deep/c.md"), number)
    (root / "deep/er").rename(tmp_path / "gone")

    assert kernel.poll() == (set(), set(), True)
    assert kernel.is_alive
    assert list_and_watch(kernel, root).keys() == {"a.md", "deep/c.md"}
    (root / "deep/c.md").write_text("edited\n")
    (tmp_path / "gone/b.md").write_text("elsewhere\n")
    assert kernel.poll() == ({"deep/c.md"}, set(), False)


def replace_root(root: Path) -> None:
    root.rename(root.with_name("old"))
    shutil.copytree(root.with_name("old"), root)


def rename_parent(root: Path) -> None:
    root.parent.rename(root.parent.with_name("renamed"))


@pytest.mark.parametrize("change", [replace_root, rename_parent, shutil.rmtree, lambda root: root.rename(f"{root}2")])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_removed_or_replaced_root_ends_the_source(
    kind: str, change: Callable[[Path], object], tmp_path: Path
) -> None:
    root = tmp_path / "parent/vault"
    (root / "deep").mkdir(parents=True)
    source = SOURCES[kind](str(root))
    list_and_watch(source, root)

    change(root)

    assert gather(source, lambda events: events.is_incomplete).is_incomplete
    assert not source.is_alive
    assert source.poll().is_incomplete
    assert source.wait(DEADLINE)
    source.watch("deep")
    source.close()
    assert source.poll().is_incomplete


@pytest.mark.parametrize("kind", SOURCES)
def test_a_forked_process_takes_no_events_from_its_parent(run_script: Script, root: Path, kind: str) -> None:
    code = """
from memfs.freshness.inotify_source import InotifySource
from memfs.freshness.watchdog_source import WatchdogSource
import threading, watchdog.events, watchdog.observers
root, kind = sys.argv[1:]
locks, new_lock = [], threading.Lock
threading.Lock = lambda: locks.append(new_lock()) or locks[-1]
source = {"kernel": InotifySource, "watchdog": WatchdogSource}[kind](root)
threading.Lock = new_lock
source.watch("")
source.watch("deep")
open(f"{root}/before.md", "w").close()
locks[0].acquire()  # as another thread of the parent may hold the lock of the source
child = os.fork()
if not child:
    source.watch("deep/er")
    dead = not source.is_alive and source.poll().is_incomplete and source.poll().is_incomplete and source.wait(60)
    source.close()
    source.close()
    del source
    os._exit(0 if dead else 1)
locks[0].release()
assert os.waitpid(child, 0)[1] == 0
open(f"{root}/deep/after.md", "w").close()
seen = set()
while seen != {"before.md", "deep/after.md"}:
    assert source.wait(20) and source.is_alive
    seen |= source.poll().paths
source.close()
print("both")
"""
    assert run_script(code, root, kind).stdout == "both\n"


def test_reaching_the_limit_of_watches_ends_the_source(run_script: Script, root: Path) -> None:
    code = """
import ctypes
from memfs.freshness.event_source import open_event_source
from memfs.freshness.inotify_source import InotifySource
root = sys.argv[1]
assert ctypes.CDLL(None).unshare(0x10000000) == 0  # a user namespace, which has limits of its own
def limit(what, count):
    with open(f"/proc/sys/user/max_inotify_{what}", "w") as file:
        file.write(str(count))
limit("watches", 2)
source = open_event_source(root)
source.watch("deep")
assert source.is_alive and source.poll() == (set(), set(), False)
source.watch("deep/er")
assert not source.is_alive and source.poll().is_incomplete and source.poll().is_incomplete and source.wait(60)
assert open_event_source(root) is not None  # what was held is given back
limit("watches", 0)
assert open_event_source(root) is None
limit("watches", 9)
limit("instances", 0)
assert open_event_source(root) is None
print("held")
"""
    done = run_script(code, root)
    assert done.stdout == "held\n", done.stderr


def test_the_events_of_a_dead_watchdog_are_incomplete(root: Path) -> None:
    before = set(threading.enumerate())
    source = WatchdogSource(str(root))
    next(thread for thread in threading.enumerate() if thread not in before and isinstance(thread, EventEmitter)).stop()

    assert gather(source, lambda events: events.is_incomplete).is_incomplete
    assert not source.is_alive
    assert source.poll().is_incomplete
    source.close()


# --- waiting and closing --------------------------------------------------------------------------------


def test_wait_returns_after_a_change_or_its_timeout(source: EventSource, root: Path) -> None:
    assert not source.wait(0)
    assert not source.wait(0.01)
    writer = threading.Timer(0.05, lambda: (root / "a.md").write_text("edited\n"))
    writer.start()

    started = time.monotonic()
    assert source.wait(DEADLINE)
    assert time.monotonic() - started < DEADLINE / 2
    writer.join()
    assert gather(source, lambda events: bool(events.paths)).paths == {"a.md"}


def test_close_wakes_a_waiting_thread(source: EventSource) -> None:
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(source.wait(DEADLINE)))
    waiting.start()
    waiting.join(0.2)  # it waits by now; the result is the same if not

    source.close()
    waiting.join(DEADLINE / 2)

    assert answers == [True]
    assert not source.is_alive
    assert source.poll().is_incomplete
    source.close()


def test_moving_the_root_wakes_a_waiting_thread(kernel: InotifySource, root: Path) -> None:
    root.rename(root.with_name("moved"))

    assert kernel.wait(0)
    root.with_name("moved").rename(root)
    assert kernel.poll().is_incomplete
    assert not kernel.is_alive


@pytest.mark.parametrize("kind", SOURCES)
def test_a_closed_source_leaves_no_thread_and_no_descriptor(root: Path, kind: str) -> None:
    SOURCES[kind](str(root)).close()
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))

    for _ in range(3):
        SOURCES[kind](str(root)).close()

    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, descriptors)


def test_a_garbage_collected_inotify_source_closes_its_queue(root: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))

    for _ in range(200):  # more instances than a user may have
        InotifySource(str(root))

    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize("kind", SOURCES)
def test_a_missing_root_cannot_be_watched(tmp_path: Path, kind: str) -> None:
    threads = threading.active_count()

    with pytest.raises(OSError, match=r"."):
        SOURCES[kind](str(tmp_path / "nowhere"))

    assert open_event_source(str(tmp_path / "nowhere")) is None
    assert threading.active_count() == threads


# --- remote file systems ----------------------------------------------------------------------------------

MOUNTS = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
40 27 0:50 / /home rw,relatime shared:1 master:2 - nfs4 server:/home rw,vers=4.2
41 40 0:51 / /home/alice/my\040disk rw - btrfs /dev/sdb rw
42 27 0:52 / /mnt/c\134d rw - 9p drvfs rw
43 27 0:53 / /mnt/tab\011 rw - fuse.sshfs me@host: rw
44 27 0:54 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw,lowerdir=/a - b
45 27 0:55 / /over rw - cifs //server/share rw
46 45 0:56 / /over rw - ext4 /dev/sdc rw
47 27 0:57 / /data/vault/shared rw - virtiofs tag rw
48 27 0:58 / /media/stick rw - fuseblk /dev/sdd rw
""".strip().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("root", "remote"),
    [
        ("/", True),
        ("/srv/vault", False),
        ("/home", True),
        ("/home/alice/vault", True),
        ("/homes/vault", False),
        ("/home/alice/my disk/vault", False),
        ("/home/alice/my disk", False),
        ("/home/alice/my diskette", True),
        ("/mnt/c\\d/vault", True),
        ("/mnt/tab\t/vault", True),
        ("/mnt/tab", False),
        ("/var/lib/docker/overlay2/x/merged/vault", False),
        ("/over/vault", False),
        ("/data/vault", True),
        ("/data/vault/mine", False),
        ("/media/stick/vault", False),
    ],
)
def test_remote_file_systems_are_recognised_by_their_mounts(root: str, remote: bool) -> None:
    assert has_remote_mount(MOUNTS, root) is remote


@pytest.mark.parametrize(
    "kind",
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "9p",
        "fuse",
        "fuse.sshfs",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
        "virtiofs",
        "vboxsf",
    ],
)
def test_network_file_systems_are_remote(kind: str) -> None:
    assert has_remote_mount([f"27 1 254:0 / / rw - {kind} x rw\n"], "/vault")


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "f2fs", "fuseblk", "nfsd"])
def test_local_file_systems_are_not_remote(kind: str) -> None:
    assert not has_remote_mount([f"27 1 254:0 / / rw - {kind} x rw\n"], "/vault")


def test_a_vault_on_a_local_disk_uses_inotify(root: Path) -> None:
    source = open_event_source(str(root))

    assert not is_remote(str(root))
    assert source
    assert source.kind == "kernel"
    source.close()


# --- everything at once ---------------------------------------------------------------------------------


class EventFollower:
    """Keeps the stamps of a vault's memories, and checks only the paths of events."""

    def __init__(self, source: EventSource, root: Path) -> None:
        self.source, self.root = source, root
        self.known = list_and_watch(source, root)

    def catch_up(self) -> None:
        events = self.source.poll()
        assert not events.is_incomplete
        for path in events.paths:
            self.known.pop(path, None)
            place, _, name = path.rpartition("/")
            with opened(self.root, place) as fd, suppress(FileNotFoundError):
                if fd >= 0 and not stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
                    self.known[path] = stamp(fd, name)
        for path in events.directories:
            self.check_below(path)

    def check_below(self, folder: str) -> None:
        found = list_and_watch(self.source, self.root, folder)
        self.known = {path: mark for path, mark in self.known.items() if not path.startswith(f"{folder}/")} | found


class RandomChanger:
    """Makes random changes to the files of a vault, by a seed."""

    NAMES = ("a", "b", "c.md", "d")

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.chance = root, random.Random(seed)
        self.outside = root.with_name("outside")
        self.outside.mkdir(exist_ok=True)

    def folder(self) -> Path:
        folder = self.root
        for _ in range(self.chance.randrange(4)):
            below = folder / self.chance.choice(self.NAMES)
            folder = below if below.is_dir() and not below.is_symlink() else folder
        return folder

    def subfolder(self) -> Path:
        folder = self.folder()
        if folder == self.root:
            raise FileNotFoundError
        return folder

    def file(self) -> Path:
        return self.folder() / f"{self.chance.choice('vwxyzc')}.md"

    def act(self, times: int = 1) -> None:
        acts = [act for act in dir(self) if act.startswith("do_")]
        for _ in range(times):
            with suppress(OSError):  # an impossible change is skipped
                getattr(self, self.chance.choice(acts))()

    def do_write(self) -> None:
        self.file().write_text("x" * self.chance.randrange(9))

    def do_write_again(self) -> None:
        self.do_write()

    def do_append(self) -> None:
        with self.file().open("r+") as file:
            file.seek(0, os.SEEK_END)
            file.write("more")

    def do_replace(self) -> None:
        file = self.file()
        temporary = file.with_name(".new")
        temporary.write_text("new")
        temporary.replace(file)

    def do_delete(self) -> None:
        self.file().unlink()

    def do_chmod(self) -> None:
        self.file().chmod(self.chance.choice([0o600, 0o644]))

    def do_rename(self) -> None:
        self.file().rename(self.file())

    def do_link(self) -> None:
        self.file().symlink_to("x.md")

    def do_make_folder(self) -> None:
        (self.folder() / self.chance.choice(self.NAMES)).mkdir()

    def do_make_folders(self) -> None:
        deep = self.folder() / self.chance.choice(self.NAMES) / self.chance.choice(self.NAMES)
        deep.mkdir(parents=True)
        (deep / "x.md").write_text("in it")

    def do_link_folder(self) -> None:
        (self.folder() / self.chance.choice(self.NAMES)).symlink_to(self.folder())

    def do_unlink_folder(self) -> None:
        (self.folder() / self.chance.choice(self.NAMES)).unlink()

    def do_rename_folder(self) -> None:
        self.subfolder().rename(self.folder() / self.chance.choice(self.NAMES))

    def do_rename_back_and_forth(self) -> None:
        one, other = self.subfolder(), self.folder() / self.chance.choice(self.NAMES)
        one.rename(other)
        (other / "z.md").write_text("between")
        other.rename(one)

    def do_swap_folders(self) -> None:
        one, other, third = self.subfolder(), self.subfolder(), self.root / "third"
        one.rename(third)
        other.rename(one)
        third.rename(other)

    def do_move_out(self) -> None:
        self.subfolder().rename(self.outside / f"{self.chance.randrange(5)}")

    def do_move_in(self) -> None:
        (self.outside / f"{self.chance.randrange(5)}").rename(self.folder() / self.chance.choice(self.NAMES))

    def do_write_outside(self) -> None:
        (self.outside / f"{self.chance.randrange(5)}/x.md").write_text("outside")

    def do_remove_tree(self) -> None:
        shutil.rmtree(self.subfolder())

    def do_hide(self) -> None:
        self.subfolder().rename(self.root / f".{self.chance.choice(self.NAMES)}")

    def do_show(self) -> None:
        (self.root / f".{self.chance.choice(self.NAMES)}").rename(self.folder() / self.chance.choice(self.NAMES))


def truth(root: Path) -> Stamps:
    """Return the stamps of all memories, as the vault's own walk finds them."""
    found: Stamps = {}
    top = open_root(root)
    for listing in walk(top, archived=True):
        odd = [path.removeprefix(listing.prefix) for path, _ in listing.unreadable]
        found |= {listing.prefix + name: stamp(listing.fd, name) for name in [*listing.names, *odd]}
    os.close(top)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_checking_the_paths_of_events_finds_every_change(tmp_path: Path, seed: int) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    vandal = RandomChanger(root, seed)
    caller = EventFollower(InotifySource(str(root)), root)
    chance = random.Random(seed)

    for number in range(300):
        vandal.act()
        if chance.random() < 0.1:  # a check without an event, before the queue is read
            caller.check_below(vandal.folder().relative_to(root).as_posix().removeprefix("."))
        if chance.random() < 0.2:
            caller.catch_up()
            assert caller.known == truth(root), f"after {number + 1} of seed {seed}"

    caller.source.close()


def test_checking_while_files_change_finds_every_change_in_the_end(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    root.mkdir()
    vandal = RandomChanger(root, 1)
    caller = EventFollower(InotifySource(str(root)), root)
    writing = threading.Thread(target=vandal.act, args=[2000])
    writing.start()

    while writing.is_alive():
        caller.catch_up()
    caller.catch_up()

    assert caller.known == truth(root)
    caller.source.close()


def test_threads_share_a_source(source: EventSource, root: Path) -> None:
    seen: list[Set[str]] = []
    wanted = {f"deep/{name}-{number}.md" for name in "ab" for number in range(300)}
    writing = [threading.Thread(target=lambda name=name: write_many(root, name)) for name in "ab"]

    def poll_often() -> None:
        end = time.monotonic() + DEADLINE
        while not wanted <= set().union(*seen) and time.monotonic() < end:
            source.watch("deep")
            events = source.poll()
            assert not events.is_incomplete
            seen.append(events.paths)

    pollers = [threading.Thread(target=poll_often) for _ in range(3)]
    for thread in [*writing, *pollers]:
        thread.start()
    for thread in [*writing, *pollers]:
        thread.join()

    assert set().union(*seen) == wanted


def write_many(root: Path, name: str) -> None:
    for number in range(300):
        (root / f"deep/{name}-{number}.md").write_text("new\n")
