"""A small vault, and every way in which its files change."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from memfs import Vault
from support.commands import Git
from support.files import by_hand
from support.processes import WorkerPool
from support.searching import (
    WATCH_SECONDS,
    Words,
    assert_right,
    assert_soon_right,
    found,
    searched,
    wait_for,
    write,
)

NONE: tuple[str, ...] = ()


def make(root: Path) -> Path:
    """Make a vault with an index, with memories written by memfs and by hand."""
    with Vault.init(root) as vault:
        vault.add("Alice drinks oolong.", "/facts/alice")
        for path, text in {
            "top.md": "At the top there is marzipan.",
            "facts/alice/home.md": "Alice lives in Porto.",
            "facts/alice/deep/er.md": "Alice hides a theremin.",
            "facts/bob/home.md": "Bob lives in Tromso.",
            "facts/bob/work.md": "Bob is a luthier.",
        }.items():
            by_hand(root, path, text)
        vault.sync()
    return root


class Scene(NamedTuple):
    """The scene of a change: the root of a vault, an open Vault, and a pool to start processes."""

    root: Path
    vault: Vault
    pool: WorkerPool

    def elsewhere(self, verb: str, *arguments: str) -> None:
        """Write in another process."""
        self.pool.start(write, str(self.root), verb, *arguments).finish()


def in_place(scene: Scene) -> None:
    with (scene.root / "top.md").open("r+", encoding="utf-8") as file:
        file.write("At the top there is halva now")
        file.truncate()


def by_rename(scene: Scene) -> None:
    by_hand(scene.root, ".top.md.swp", "At the top there is halva.")
    (scene.root / ".top.md.swp").replace(scene.root / "top.md")


def as_vim_does(scene: Scene) -> None:
    file = scene.root / "top.md"
    file.rename(f"{file}~")
    file.write_text("At the top there is halva.", encoding="utf-8")
    os.unlink(f"{file}~")


def by_vim(scene: Scene) -> None:
    if not shutil.which("vim"):
        as_vim_does(scene)
        return
    command = ["vim", "-es", "-u", "NONE", "-c", "set backup", "-c", "%s/marzipan/halva/", "-c", "wq", "top.md"]
    subprocess.run(command, cwd=scene.root, check=True, timeout=20)


def by_sed(scene: Scene) -> None:
    subprocess.run(["sed", "-i", "s/marzipan/halva/", "top.md"], cwd=scene.root, check=True)


def with_its_old_time(scene: Scene) -> None:
    file = scene.root / "top.md"
    status = file.stat()
    file.write_text("At the top there is macaroon.", encoding="utf-8")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def twice_within_a_moment(scene: Scene) -> None:
    for word in ("truffles", "macaroon"):
        in_the_same_size(scene.root, word)
        assert found(scene.vault, "marzipan") == set()
    in_the_same_size(scene.root, "lebkuken")


def in_the_same_size(root: Path, word: str) -> None:
    assert len(word) == len("marzipan")
    with (root / "top.md").open("r+", encoding="utf-8") as file:
        file.write(f"At the top there is {word}.")


def swap_a_directory_in(scene: Scene) -> None:
    (scene.root / "top.md").unlink()
    by_hand(scene.root, "top.md/inner.md", "Inside there is nougat.")


def swap_a_directory_in_and_out(scene: Scene) -> None:
    swap_a_directory_in(scene)
    found(scene.vault, "nougat")
    shutil.rmtree(scene.root / "top.md")
    by_hand(scene.root, "top.md", "At the top there is halva.")


def swap_a_symlink_in(scene: Scene) -> None:
    by_hand(scene.root.parent, "secret.md", "Outside there is plutonium.")
    (scene.root / "top.md").unlink()
    (scene.root / "top.md").symlink_to("../secret.md")


def swap_a_symlink_to_a_directory_in(scene: Scene) -> None:
    by_hand(scene.root.parent, "outside/home.md", "Outside there is plutonium.")
    shutil.rmtree(scene.root / "facts/bob")
    (scene.root / "facts/bob").symlink_to("../../outside")


def move_a_directory_in(scene: Scene) -> None:
    by_hand(scene.root.parent, "outside/a/one.md", "Carol plays koto.")
    by_hand(scene.root.parent, "outside/two.md", "Carol plays sitar.")
    (scene.root.parent / "outside").rename(scene.root / "facts/carol")


def move_a_directory_in_and_write_below(scene: Scene) -> None:
    move_a_directory_in(scene)
    found(scene.vault, "koto")
    by_hand(scene.root, "facts/carol/a/three.md", "Carol plays oud.")
    by_hand(scene.root, "facts/carol/a/b/four.md", "Carol plays lyre.")


def rename_a_directory_and_write_below(scene: Scene) -> None:
    (scene.root / "facts/alice").rename(scene.root / "facts/alicia")
    found(scene.vault, "theremin")
    by_hand(scene.root, "facts/alicia/deep/er.md", "Alicia plays oud.")


def write_in_a_vault_within(scene: Scene) -> None:
    with Vault.init(scene.root / "facts/inner") as inner:
        inner.add("Dora keeps axolotls.", "/pets")
        assert found(inner, "axolotl") == {"pets/dora-keeps-axolotls.md"}
        assert found(inner, "oolong") == set()


def remove_most(scene: Scene) -> None:
    """Remove so many memories that the removal is published only by `sync`."""
    for number in range(40):
        by_hand(scene.root, f"bulk/{number}.md", f"Bulk {number}.")
    scene.vault.sync()
    shutil.rmtree(scene.root / "bulk")
    shutil.rmtree(scene.root / "facts")


def use_odd_names(scene: Scene) -> None:
    for number, name in enumerate(ODD):
        by_hand(scene.root, name, f"Its name is odd{number}.")


def grow_and_shrink(scene: Scene) -> None:
    by_hand(scene.root, "top.md", "At the top there is halva. " + "x" * (9 << 20))
    assert found(scene.vault, "halva") == set()
    os.truncate(scene.root / "top.md", 26)


ODD = [
    "line\nbreak.md",
    "100%.md",
    "%41.md",
    "tab\there.md",
    "nün.md",
    "nu\u0308n.md",
    "a 'b' \"c\" .md",
    "x" * 250 + ".md",
]


OOLONG = "facts/alice/alice-drinks-oolong.md"


SWEET: Words = {"halva": ["top.md"], "marzipan": NONE}


CAROL: Words = {"koto": ["facts/carol/a/one.md"], "sitar": ["facts/carol/two.md"]}


CHANGES: dict[str, tuple[Callable[[Scene], object], Words]] = {
    "added here": (lambda s: s.vault.add("A kiwi.", "/facts"), {"kiwi": ["facts/a-kiwi.md"]}),
    "updated here": (lambda s: s.vault.update(OOLONG, body="Sencha."), {"sencha": [OOLONG]}),
    "appended here": (lambda s: s.vault.append(OOLONG, "And sencha."), {"sencha": [OOLONG]}),
    "forgotten here": (lambda s: s.vault.forget("top.md"), {"marzipan": NONE}),
    "removed here": (lambda s: s.vault.remove("top.md"), {"marzipan": NONE}),
    "moved here": (lambda s: s.vault.move("top.md", "/attic"), {"marzipan": ["attic/top.md"]}),
    "added elsewhere": (lambda s: s.elsewhere("add", "A kiwi.", "/new"), {"kiwi": ["new/a-kiwi.md"]}),
    "appended elsewhere": (lambda s: s.elsewhere("append", OOLONG, "And sencha."), {"sencha": [OOLONG]}),
    "forgotten elsewhere": (lambda s: s.elsewhere("forget", "top.md"), {"marzipan": NONE}),
    "removed elsewhere": (lambda s: s.elsewhere("remove", "top.md"), {"marzipan": NONE}),
    "moved elsewhere": (lambda s: s.elsewhere("move", "top.md", "/attic"), {"marzipan": ["attic/top.md"]}),
    "written in place": (in_place, SWEET),
    "saved by rename": (by_rename, SWEET),
    "saved as vim does": (as_vim_does, SWEET),
    "saved by vim": (by_vim, SWEET),
    "saved by sed": (by_sed, SWEET),
    "with its old time": (with_its_old_time, {"macaroon": ["top.md"], "marzipan": NONE}),
    "twice within a moment": (twice_within_a_moment, {"lebkuken": ["top.md"], "macaroon": NONE, "truffles": NONE}),
    "emptied": (lambda s: os.truncate(s.root / "top.md", 0), {"marzipan": NONE}),
    "deleted": (lambda s: (s.root / "top.md").unlink(), {"marzipan": NONE}),
    "another mode": (lambda s: (s.root / "top.md").chmod(0o600), {"marzipan": ["top.md"]}),
    "a time far away": (lambda s: os.utime(s.root / "top.md", (1.2e10, 1.2e10)), {"marzipan": ["top.md"]}),
    "odd names": (use_odd_names, {f"odd{number}": [name] for number, name in enumerate(ODD)}),
    "too large for a while": (grow_and_shrink, SWEET),
    "a directory in its place": (swap_a_directory_in, {"marzipan": NONE, "nougat": ["top.md/inner.md"]}),
    "a directory, and back": (swap_a_directory_in_and_out, {**SWEET, "nougat": NONE}),
    "a symlink in its place": (swap_a_symlink_in, {"marzipan": NONE, "plutonium": NONE}),
    "a symlink above it": (swap_a_symlink_to_a_directory_in, {"luthier": NONE, "tromso": NONE, "plutonium": NONE}),
    "moved elsewhere by hand": (
        lambda s: (s.root / "facts/bob/work.md").rename(s.root / "facts/alice/work.md"),
        {"luthier": ["facts/alice/work.md"]},
    ),
    "another case": (lambda s: (s.root / "top.md").rename(s.root / "Top.md"), {"marzipan": ["Top.md"]}),
    "a directory moved in": (move_a_directory_in, CAROL),
    "a directory moved in, and written": (
        move_a_directory_in_and_write_below,
        {**CAROL, "oud": ["facts/carol/a/three.md"], "lyre": ["facts/carol/a/b/four.md"]},
    ),
    "a directory moved out": (
        lambda s: (s.root / "facts/alice").rename(s.root.parent / "out"),
        {"oolong": NONE, "porto": NONE, "theremin": NONE},
    ),
    "a directory renamed": (
        lambda s: (s.root / "facts/alice").rename(s.root / "facts/alicia"),
        {"porto": ["facts/alicia/home.md"], "theremin": ["facts/alicia/deep/er.md"]},
    ),
    "a directory renamed, and written": (
        rename_a_directory_and_write_below,
        {"porto": ["facts/alicia/home.md"], "theremin": NONE, "oud": ["facts/alicia/deep/er.md"]},
    ),
    "a directory deleted": (lambda s: shutil.rmtree(s.root / "facts/bob"), {"tromso": NONE, "luthier": NONE}),
    "most of it deleted": (remove_most, {"oolong": NONE, "bulk": NONE, "marzipan": ["top.md"]}),
    "a vault within": (write_in_a_vault_within, {"axolotl": ["facts/inner/pets/dora-keeps-axolotls.md"]}),
    "the state deleted": (lambda s: shutil.rmtree(s.root / ".memfs"), {"marzipan": ["top.md"]}),
}


def write_both(root: Path, git: Git, number: int) -> set[str]:
    """Make a repository with two branches: all common files differ, and each has one of its own. Return their paths."""
    (root / ".gitattributes").unlink(missing_ok=True)
    git(root, "init")
    paths = {f"many/{count % 10}/{count}.md" for count in range(number)}
    for branch in ("main", "other"):
        if branch == "other":
            git(root, "checkout", "-b", "other")
            (root / "only-main.md").unlink()
        for path in paths:
            by_hand(root, path, f"It is {branch}branch with item{Path(path).stem}.")
        by_hand(root, f"only-{branch}.md", f"Alone on {branch}branch.")
        git(root, "add", "--all")
        git(root, "commit", "-m", branch)
    git(root, "checkout", "main")
    return paths


def stash(root: Path, git: Git) -> None:
    for path in (root / "many").glob("*/*.md"):
        path.write_text("It is otherbranch for a while.", encoding="utf-8")
    git(root, "stash")


VERBS: dict[str, tuple[Callable[[Path, Git], object], str]] = {
    "checkout": (lambda root, git: git(root, "checkout", "other"), "other"),
    "stash": (stash, "main"),
    "reset": (lambda root, git: git(root, "reset", "--hard", "other"), "other"),
}


def after_git(root: Path, git: Git, verb: str, number: int, *, is_watched: bool) -> float:
    """Change many files by git. Return the seconds until searches see them."""
    many = write_both(root, git, number)
    change, branch = VERBS[verb]
    with Vault(root, watch=is_watched) as here, searched(root) as vault:
        change(root, git)
        other = {"main": "other", "other": "main"}[branch]
        words: Words = {f"{other}branch": NONE, "item7": ["many/7/7.md"], "alone": [f"only-{branch}.md"]}
        took = assert_soon_right(vault, words, WATCH_SECONDS if is_watched else 0.0)
        for count in range(10):
            below = {path for path in many if path.startswith(f"many/{count}/")}
            assert found(vault, f"{branch}branch", f"/many/{count}") == below
        assert_right(Vault(root), words)
        assert_soon_right(here, words, WATCH_SECONDS if is_watched else 0.0)
    assert git(root, "status", "--porcelain") == ""
    return took


def has_found(vault: Vault, word: str, namespace: str, number: int) -> bool:
    return len(found(vault, word, namespace)) == number


def after_a_burst(root: Path, number: int, limit: float, *, is_watched: bool) -> tuple[float, float]:
    """Create many files at once, then remove them. Return the seconds until they are found, and until they are not."""
    with Vault(root, watch=is_watched) as here, searched(root) as vault:
        for count in range(number):
            by_hand(root, f"burst/{count % 20}/{count}.md", f"It came with the burst as item{count}.")
        last = number - 1
        came = assert_soon_right(vault, {f"item{last}": [f"burst/{last % 20}/{last}.md"]}, limit)
        for count in range(20):
            wait_for(partial(has_found, vault, "burst", f"/burst/{count}", number // 20), limit)
        shutil.rmtree(root / "burst")
        went = assert_soon_right(vault, {"burst": NONE, "marzipan": ["top.md"]}, limit)
        assert_soon_right(here, {"burst": NONE, "marzipan": ["top.md"]}, limit)
        assert here.doctor() == []
    return came, went


def in_a_fork(job: Callable[[], object], meanwhile: Callable[[], object] = lambda: None) -> int:
    """Run a function in a forked process. Return its exit status, -14 if it hung."""
    child = os.fork()
    if child == 0:
        status = 3
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            job()
            status = 0
        finally:
            os._exit(status)
    meanwhile()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
