"""Hostile files: good memories stay readable in bounded time and memory, nothing leaks, and nothing is rewritten."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.commands import Git, Script
from support.files import Snapshot
from support.hostile_files import ALIASES, BAD_NAMES, MERGES, QUIET, REPORTED, SECRET, header

from memfs import MemfsError, Vault
from memfs.errors import MalformedMemoryError

GOOD = 300
GIB = 1 << 30


@pytest.fixture(autouse=True)
def limited() -> Iterator[None]:
    """Fail a test that takes more than half a minute."""

    def stop(*_: object) -> None:
        raise TimeoutError("a hostile file took half a minute")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def hostile(traps: Path) -> Path:
    """Make a vault with 300 good memories among all kinds of hostile files."""
    for number in range(GOOD):
        (traps / f"good/m{number:03}.md").write_bytes(header(f"id: m-good-{number}\ntags:\n  - good"))
    for name, data in {**REPORTED, **QUIET}.items():
        (traps / "bad" / name).write_bytes(data)
    return traps


ALL_READS = """
vault = Vault(sys.argv[1])
memories = vault.list(archived=True)
said = []
for memory in memories:
    again = vault.read(memory.path)
    said.append([memory.path, memory.id, memory.title, memory.description, len(memory.body), str(memory.created)])
    said[-1].append(again.header.type + again.header.status + repr(again.header.tags) + str(again.header.importance))
for ref in ["m-good-7", "nothing", "fifo", "device", "away", "folder/secret", "sparse"]:
    try:
        said.append([vault.read(ref if ref[0] in "mn" else f"bad/{ref}.md").path])
    except errors.MemfsError as error:
        said.append([ref, type(error).__name__, str(error)])
problems = [str(problem) for problem in vault.check()]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"paths": [memory.path for memory in memories], "said": said, "problems": problems, "peak": peak}))
"""


def test_listing_reading_and_checking_are_bounded_complete_and_leak_nothing(
    hostile: Path, run_script: Script, snapshot: Snapshot
) -> None:
    before = snapshot(hostile.parent)

    done = run_script(ALL_READS, hostile, memory=GIB, timeout=20)

    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout)
    assert [path for path in answer["paths"] if path.startswith("good/")] == [f"good/m{n:03}.md" for n in range(GOOD)]
    odd = [
        name for name in os.listdir(hostile / "bad") if name.endswith(".md") and name not in [*BAD_NAMES, "folder.md"]
    ]
    assert [path for path in answer["paths"] if path.startswith("bad/")] == sorted(f"bad/{name}" for name in odd)
    assert SECRET not in done.stdout
    assert "root:" not in done.stdout
    assert snapshot(hostile.parent) == before
    assert not Path("/tmp/memfs-was-here").exists()


def test_every_hostile_file_is_a_problem_and_nothing_else_is(hostile: Path) -> None:
    problems = Vault(hostile).check()

    assert {problem.path for problem in problems} == {f"bad/{name}" for name in [*REPORTED, *BAD_NAMES]}
    assert all(problem.reason and problem.line >= 1 for problem in problems)
    assert all(len(str(problem)) < 1000 for problem in problems)


@pytest.mark.parametrize("name", [*REPORTED, *QUIET])
def test_an_update_is_minimal_or_refused_and_never_loses_a_byte_of_the_body(tmp_path: Path, name: str) -> None:
    file = tmp_path / "bad" / name
    file.parent.mkdir()
    data = {**REPORTED, **QUIET}[name]
    file.write_bytes(data)
    with Vault(tmp_path) as vault:
        body = vault.read(f"bad/{name}").body
        try:
            vault.update(f"bad/{name}", importance=7)
        except MalformedMemoryError:
            assert file.read_bytes() == data
            return

        new = file.read_bytes()
        assert vault.read(f"bad/{name}").header.importance == 7
        assert vault.read(f"bad/{name}").body == body
        fence = b"---\r\n---\r\n\r\n" if b"\r\n" in data else b"---\n---\n\n"
        bom = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
        minimal = (less_importance(data), bom + fence + data.removeprefix(bom))
        assert less_importance(new).rstrip(b"\n") in [text.rstrip(b"\n") for text in minimal]


def less_importance(data: bytes) -> bytes:
    return b"".join(line for line in data.splitlines(keepends=True) if not line.startswith(b"importance:"))


@pytest.mark.parametrize("name", sorted(set(REPORTED) - {"conflict.md", "bad-values.md", "long-number.md"}))
def test_a_file_that_cannot_be_parsed_is_not_rewritten(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(REPORTED[name])
    with Vault(tmp_path) as vault, pytest.raises(MalformedMemoryError) as caught:
        vault.update(name, importance=7)

    assert caught.value.path == name
    assert file.read_bytes() == REPORTED[name]


@pytest.mark.parametrize("name", [*BAD_NAMES, "folder/secret.md", "self/good/m001.md", "folder.md"])
@pytest.mark.parametrize("verb", ["read", "update", "append", "forget", "remove", "move", "replace"])
def test_entries_that_are_no_regular_files_of_the_vault_are_refused(
    traps: Path, snapshot: Snapshot, verb: str, name: str
) -> None:
    arguments = {"append": ("More.",), "move": ("good",)}.get(verb, ())
    before = snapshot(traps.parent, "vault/.memfs", "vault/good")

    with Vault(traps) as vault:
        if verb == "replace":
            with pytest.raises(MemfsError):
                vault.replace(f"bad/{name}", "New.", seen=vault.read("good/m001.md").stamp)
        else:
            with pytest.raises(MemfsError):
                getattr(vault, verb)(f"bad/{name}", *arguments)
    assert snapshot(traps.parent, "vault/.memfs", "vault/good") == before


def test_a_namespace_of_hostile_files_takes_new_memories(hostile: Path) -> None:
    with Vault(hostile) as vault:
        added = vault.add("Body of it, and more.", "bad", title="fifo")

        assert added.path == "bad/fifo-2.md"
        assert vault.add("Body of it, and more.", "bad").outcome == "duplicate"
        assert vault.forget(added.id).path == "archive/bad/fifo-2.md"


def test_another_name_of_a_hard_linked_file_keeps_its_bytes(vault: Vault, tmp_path: Path) -> None:
    added = vault.add("Tea.", "n")
    (vault.root / "n/second.md").hardlink_to(vault.root / added.path)
    (tmp_path / "outside.md").hardlink_to(vault.root / added.path)
    before = (vault.root / added.path).read_bytes()

    vault.update(added.path, importance=5)
    vault.append(added.path, "More.")
    vault.remove(added.path)

    assert (tmp_path / "outside.md").read_bytes() == before
    assert (vault.root / "n/second.md").read_bytes() == before


UNREADABLE = """
vault = Vault(sys.argv[1])
said = {"paths": [memory.path for memory in vault.list()], "problems": [str(problem) for problem in vault.check()]}
for name, attempt in {
    "read": lambda: vault.read("n/locked.md"),
    "update": lambda: vault.update("n/locked.md", importance=2),
    "below": lambda: vault.read("shut/a.md"),
    "list": lambda: vault.list("shut"),
    "check": lambda: vault.check("shut"),
    "add": lambda: vault.add("More.", "shut"),
    "id": lambda: vault.read("nothing"),
}.items():
    try:
        said[name] = repr(attempt())
    except errors.MemfsError as error:
        said[name] = type(error).__name__
print(json.dumps(said))
"""


def test_an_unreadable_file_or_directory_hides_no_other(public_path: Path, run_script: Script) -> None:
    for path in ("n/a.md", "n/locked.md", "n/z.md", "shut/a.md"):
        (public_path / path).parent.mkdir(exist_ok=True)
        (public_path / path).write_text("Text.")
    subprocess.run(["chmod", "-R", "a+rwX", public_path], check=True)
    (public_path / "n/locked.md").chmod(0)
    (public_path / "shut").chmod(0)

    done = run_script(UNREADABLE, public_path, ordinary=True)

    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["paths"] == ["n/a.md", "n/z.md"]
    assert sorted(problem.partition(":")[0] for problem in said["problems"]) == ["n/locked.md", "shut"]
    assert all("ermission denied" in problem for problem in said["problems"])
    assert (said["read"], said["id"]) == ("MalformedMemoryError", "MemoryNotFoundError")
    assert all(said[name].endswith("Error") for name in ("update", "below", "add"))


def test_a_very_deep_directory_is_listed_or_reported(tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("Good.")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/good.md").write_text("Good.")
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("deep.md", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)

    vault = Vault(tmp_path)
    assert {"good.md", "other/good.md"} <= {memory.path for memory in vault.list()}
    assert vault.read("other/good.md").body == "Good."
    vault.check()
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


def test_a_time_stamp_beyond_the_calendar_is_no_error(mount_tmpfs: Callable[[str], Path]) -> None:
    root = mount_tmpfs("size=1m")
    for name, seconds in {"late": 10**12, "early": -(10**12)}.items():
        (root / f"{name}.md").write_text("Text.")
        os.utime(root / f"{name}.md", (seconds, seconds))

    assert [memory.created.tzinfo is not None for memory in Vault(root).list()] == [True, True]


# --- a malicious clone ----------------------------------------------------------------------------------

PLANTED = [
    ".memfs", ".memfs/tmp", ".memfs/late", ".memfs/locks", ".memfs/history", ".memfs/.gitignore", "memfs.yaml",
    ".gitignore", ".gitattributes", "archive", "facts", "archive/facts",
]  # fmt: skip


def use(root: Path) -> None:
    """Call every operation of a vault; errors of memfs are fine."""
    with suppress(MemfsError):
        Vault.init(root)
    with suppress(MemfsError), Vault(root) as vault:
        for step in range(2):
            with suppress(MemfsError):
                added = vault.add(f"Text {step}.", "facts")
                vault.update(added.id, importance=2)
                vault.append(added.id, "More.")
                vault.versions(added.id)
                vault.restore(added.id)
                vault.move(added.id, f"facts/moved-{step}.md")
                vault.forget(added.id)
                vault.remove(added.id)
            with suppress(MemfsError):
                vault.update("notes/mine.md", importance=step + 5)
            with suppress(MemfsError):
                vault.restore("notes/mine.md")
            with suppress(MemfsError):
                vault.check()
            vault.list(archived=True)


@pytest.mark.parametrize("place", PLANTED)
@pytest.mark.parametrize("target", ["full", "empty", "file", "missing"])
@pytest.mark.parametrize("in_git", [True, False], ids=["git", "plain"])
def test_a_link_planted_in_a_clone_is_not_followed_out_of_the_vault(
    tmp_path: Path, git: Git, snapshot: Snapshot, place: str, target: str, in_git: bool
) -> None:
    outside = tmp_path / "outside"
    for directory in ("full/tmp/1-ab", "full/late", "full/locks", "full/history", "empty"):
        (outside / directory).mkdir(parents=True)
    (outside / "full/tmp/1-ab/1.1.part").write_text("Not yours.")
    (outside / "full/late/1.dead.notes%2Fmine.md").write_text("Not yours.")
    (outside / "full/a.md").write_text(SECRET)
    (outside / "file").write_text("version: 1\n")
    origin = tmp_path / "origin"
    (origin / "notes").mkdir(parents=True)
    (origin / "notes/mine.md").write_text("Mine.\n")
    (origin / place).parent.mkdir(exist_ok=True)
    (origin / place).symlink_to(outside / target)
    clone = tmp_path / "clone"
    if in_git:
        git(origin, "init")
        git(origin, "add", "-f", "-A")
        git(origin, "commit", "-m", "planted")
        git(tmp_path, "clone", "-q", "origin", "clone")
    else:
        shutil.copytree(origin, clone, symlinks=True)
    before = snapshot(outside)

    use(clone)

    assert snapshot(outside) == before
    assert (clone / place).is_symlink()
    assert "Mine." in (clone / "notes/mine.md").read_text()
    assert not any(SECRET in file.read_text() for file in clone.rglob("*.md") if not file.is_symlink())


ESCAPES = ["%2E%2E%2F%2E%2E%2Foutside%2Fx.md", "..%2F..%2Foutside%2Fx.md", "%2Ftmp%2Fx.md", ".git%2Fx.md", "%2E%2E.md"]


@pytest.mark.parametrize("name", [f"{start}.{escape}" for start in ("1.1.dead", "1.dead") for escape in ESCAPES])
@pytest.mark.parametrize("directory", ["tmp/1-ab", "late", "history", "history/ab", "locks"])
def test_a_file_planted_in_the_state_writes_nothing_elsewhere(
    tmp_path: Path, snapshot: Snapshot, directory: str, name: str
) -> None:
    root = tmp_path / "deep/er/vault"
    for folder in (root / ".memfs" / directory, root / "notes", root / ".git", tmp_path / "outside"):
        folder.mkdir(parents=True)
    (root / ".memfs" / directory / name).write_text("Planted.")
    (root / "notes/mine.md").write_text("Mine.\n")
    before = snapshot(tmp_path, "deep/er/vault")

    use(root)

    assert snapshot(tmp_path, "deep/er/vault") == before
    assert [path.name for path in (root / ".git").iterdir()] in ([], ["memfs"])
    assert "Mine." in (root / "notes/mine.md").read_text()


@pytest.mark.parametrize("name", ["x", "a.b", "1", "..", "1.1.1", "\n", "x" * 200, "1.dead.", ".", "%", "0.0.%ff.md"])
@pytest.mark.parametrize("kind", ["file", "directory", "link", "fifo", "large"])
@pytest.mark.parametrize("directory", ["tmp", "tmp/1-ab", "late", "history", "locks"])
def test_no_planted_entry_of_the_state_stops_the_vault(
    tmp_path: Path, run_script: Script, directory: str, kind: str, name: str
) -> None:
    place = tmp_path / ".memfs" / directory
    place.mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/mine.md").write_text("Mine.\n")
    if name in (".", ".."):
        name = f"1.dead.{name}"
    entry = place / name
    plant(entry, kind)

    with Vault(tmp_path) as vault:
        added = vault.add("Tea.", "n")
        assert vault.update(added.id, importance=2).outcome == "updated"
        assert vault.update("notes/mine.md", importance=2).outcome == "updated"
        assert len(vault.versions(added.id)) == 2
        assert vault.check() == []


def plant(entry: Path, kind: str) -> None:
    if kind == "file":
        entry.write_text("Planted.")
    elif kind == "empty":
        entry.touch()
    elif kind == "dangling":
        entry.symlink_to(entry.parent.parent / "nowhere")
    elif kind == "directory":
        entry.mkdir()
        (entry / "x").write_text("Planted.")
    elif kind == "link":
        entry.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(entry)
    else:
        entry.touch()
        os.truncate(entry, 1 << 33)


@pytest.mark.parametrize("kind", ["file", "empty", "directory", "link", "dangling", "fifo", "large"])
@pytest.mark.parametrize("in_git", [True, False], ids=["git", "plain"])
def test_no_file_of_a_real_state_swapped_for_another_stops_the_vault(
    tmp_path: Path, git: Git, in_git: bool, kind: str
) -> None:
    """Lock queues and versions are expendable: an entry in their place may cost them, but no memory."""
    root = tmp_path / "vault"
    root.mkdir()
    if in_git:
        git(root, "init")
    with Vault(root) as vault:
        added = vault.add("Tea.", "n")
        vault.update(added.id, importance=2)
    state = [*(root / ".memfs").rglob("*"), *(root / ".git/memfs").rglob("*")]
    for file in [file for file in state if file.is_file() and file.name != ".gitignore"]:
        before = snapshot_of_passwd()
        file.unlink()
        plant(file, kind)

        use(root)
        with Vault(root) as vault:
            assert vault.read(added.id).body == "Tea."
            with suppress(MemfsError):
                vault.update(added.id, importance=3)
            assert vault.list()
        assert snapshot_of_passwd() == before
        shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink(missing_ok=True)


def snapshot_of_passwd() -> tuple[bytes, int]:
    return Path("/etc/passwd").read_bytes(), os.stat("/etc/passwd").st_mtime_ns


WORDS = [
    b"null",
    b'"x"',
    b"1e400",
    b"-1",
    b"[]",
    b"{}",
    b"9" * 30,
    b"true",
    b"0",
    b"NaN",
    b'"\\ud800"',
    b'"../../x"',
    b"",
    b"\n",
]


def mutated(data: bytes, pick: random.Random) -> bytes:
    """Return the bytes of a state file with words swapped, bytes flipped, or a part lost or doubled."""
    for _ in range(pick.randint(1, 3)):
        start, end = sorted((pick.randrange(len(data) + 1), pick.randrange(len(data) + 1)))
        kind = pick.random()
        if kind < 0.6 and (found := list(re.finditer(rb'"[^"\n]*"|-?\d+', data))):
            start, end = pick.choice(found).span()
            data = data[:start] + pick.choice(WORDS) + data[end:]
        elif kind < 0.8:
            data = data[:start] + pick.choice([b"", pick.randbytes(3), data[start:end] * 2]) + data[end:]
        else:
            data = data[:start] + pick.choice([b"\n", b"\x1e", b"\0", b"[", b"@"]) * 2 + data[start:]
    return data


@pytest.mark.parametrize("seed", range(6))
def test_no_byte_of_a_state_file_makes_the_vault_raise(tmp_path: Path, seed: int) -> None:
    with Vault(tmp_path) as vault:
        added = vault.add("Tea.", "n")
        vault.update(added.id, importance=2)
        vault.forget(vault.add("Coffee.", "n").id)
    files = {file: file.read_bytes() for file in (tmp_path / ".memfs").rglob("*") if file.is_file()}
    pick = random.Random(seed)
    for _ in range(40):
        for file, data in files.items():
            file.write_bytes(mutated(data, pick))

        with Vault(tmp_path) as vault:
            vault.check()
            assert all(version.size >= 0 for version in vault.versions(added.path))
            vault.update(added.path, importance=pick.randint(1, 10))
            with suppress(MemfsError):
                vault.restore(added.path)
            assert vault.read(added.path).body == "Tea."


def test_a_state_file_of_one_repeated_byte_is_read_in_bounded_time(vault: Vault) -> None:
    added = vault.add("Tea.", "n")
    vault.update(added.id, importance=2)
    vault.close()
    for start in (b"\x1e", b"[", b"{", b"\n", b"0", b'"'):
        for file in [file for file in (vault.root / ".memfs").rglob("*") if file.is_file()]:
            file.write_bytes(start * 1_000_000 + b"\n")

        assert vault.versions(added.path) == []
        assert vault.read(added.id).body == "Tea."


def test_the_versions_of_a_memory_are_never_read_through_a_link(tmp_path: Path, git: Git) -> None:
    """Every file of a real history is replaced by a link to a secret, which no call may return."""
    (tmp_path / "secret").write_text(SECRET)
    for in_git in (True, False):
        root = tmp_path / f"vault-{in_git}"
        root.mkdir()
        if in_git:
            git(root, "init")
        with Vault(root) as vault:
            added = vault.add("Tea.", "n")
            vault.update(added.id, importance=2)
        history = root / (".git/memfs" if in_git else ".memfs/history")
        kept = [file for file in history.rglob("*") if file.is_file()]
        assert kept
        for file in kept:
            file.unlink()
            file.symlink_to(tmp_path / "secret")

        with Vault(root) as vault:
            with suppress(MemfsError):
                vault.restore(added.path)
            (root / added.path).unlink()
            with suppress(MemfsError):
                vault.restore(added.path)
        assert not any(SECRET in file.read_text() for file in root.rglob("*.md"))
        assert (tmp_path / "secret").read_text() == SECRET


def test_a_state_directory_replaced_by_a_link_while_a_vault_is_open_is_not_followed(
    vault: Vault, tmp_path: Path, snapshot: Snapshot
) -> None:
    added = vault.add("Tea.", "n")
    outside = tmp_path / "outside"
    shutil.copytree(vault.root / ".memfs", outside)
    shutil.rmtree(vault.root / ".memfs")
    (vault.root / ".memfs").symlink_to(outside)
    before = snapshot(outside)

    with pytest.raises(MemfsError):
        vault.add("Coffee.", "m")
    with pytest.raises(MemfsError):
        vault.update(added.id, importance=2)
    assert snapshot(outside) == before


def test_settings_that_expand_exponentially_are_an_error_at_once(tmp_path: Path, run_script: Script) -> None:
    for text in (
        ALIASES,
        MERGES,
        "a: " + "[" * 50_000,
        "namespaces: " + "{a: " * 12_000,
        "actor: !!python/name:os.system",
    ):
        (tmp_path / "memfs.yaml").write_text(text)

        done = run_script("Vault(sys.argv[1])", tmp_path, memory=GIB, timeout=10)

        assert "SettingsError: memfs.yaml:" in done.stderr
