"""Exposure: where files that are there hold what should not be kept. They are read, and never changed."""

import errno
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from memfs.errors import InvalidNamespaceError, MemfsError, PlaceNotFoundError, StorageError
from memfs.fs.files import open_directory, open_root
from memfs.fs.files import read as read_file
from memfs.privacy.detectors import Finding
from memfs.privacy.policy import Policy, scan_text

LARGEST = 256 * 1024 * 1024  # bytes of a file that is looked at: as many as a log of a session may have
BINARY = 8192  # bytes at the start of a file in which a zero tells that it is no text
_MARKS = (b"\xff\xfe", b"\xfe\xff")  # begin a text in UTF-16
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
_PLACES = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


class Source(NamedTuple):
    """A file and its bytes; None, and why, if it is not looked at."""

    path: str
    data: bytes | None
    reason: str = ""


class Exposed(NamedTuple):
    """What kind of thing a file holds on which line."""

    path: str
    line: int
    kind: str


def exposed(source: Source, policy: Policy | None = None) -> list[Exposed]:
    """What a file holds that a policy does not leave alone; without one, all that is known."""
    if source.data is None:
        return []
    text = _text(source.data)
    found: list[Finding] = scan_text(text) if policy is None else policy.findings(text)
    return list(dict.fromkeys(Exposed(source.path, one.line, one.kind) for one in found))


def paths_below(root: Path, place: str = "") -> list[str]:
    """The files at a place of a vault, or below it, but for those whose names begin with a dot; sorted.

    A directory that cannot be listed is among them: who reads it is told why.
    """
    top = os.path.join(root, place)
    if not os.path.isdir(top) or os.path.islink(top):
        return [place]
    found: list[str] = []
    refused: list[OSError] = []
    for here, folders, names in os.walk(top, onerror=refused.append):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [os.path.join(here, name) for name in names if not name.startswith(".")]
    found += [error.filename for error in refused]
    return sorted(os.path.relpath(path, root).replace(os.sep, "/") for path in found)


def place_of(root: Path, word: str) -> str:
    """A file or a directory of a vault by its path there, as a namespace, or as a path of the file system."""
    here = os.path.abspath(word)
    inside = f"{root}{os.sep}"
    if here == str(root) or word.strip("/") == "":
        return ""
    if here.startswith(inside) and os.path.lexists(here):
        return here[len(inside) :].replace(os.sep, "/")
    plain = word.strip("/")
    for path in (plain, f"{plain}.md") if ".." not in plain.split("/") else ():
        if os.path.lexists(os.path.join(root, path)):
            return path
    if os.path.lexists(here) and not here.startswith(inside):
        error = InvalidNamespaceError(word, "outside the vault")
        error.hint = f"Name what lies in {root}, or another vault with --vault DIR."
        raise error
    raise PlaceNotFoundError(word, "file, directory or namespace")


def read(root: Path, paths: Iterable[str]) -> Iterator[Source]:
    """Files of a vault, one at a time; no symlink is followed."""
    fd = open_root(root)
    try:
        for path in paths:
            yield _source(fd, path)
    finally:
        os.close(fd)


def _source(root: int, path: str) -> Source:
    try:
        *segments, name = path.split("/")
        with open_directory(root, tuple(segments)) as parent:
            return _readable(path, read_file(parent, name, LARGEST).data)
    except OSError as error:
        return Source(path, None, "a symlink" if error.errno == errno.ELOOP else (error.strerror or "unreadable"))
    except MemfsError as error:
        return Source(path, None, str(error))


def _readable(path: str, data: bytes) -> Source:
    if b"\0" in data[:BINARY] and not data.startswith(_MARKS):
        return Source(path, None, "not a text")
    return Source(path, data)


def _text(data: bytes) -> str:
    if data.startswith(_MARKS):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


# --- what is about to be committed ----------------------------------------------------------------------


def staged(root: Path) -> list[Source]:
    """The files of a vault as the next commit will have them, where it changes or adds them."""
    _git(root, "rev-parse", "--git-dir")  # outside of a repository, `git diff` answers with its whole usage
    listed = _git(
        root, "diff", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "--diff-filter=d", "--relative"
    )
    parts = listed.split(b"\0")
    changed = [(about.split(b" "), os.fsdecode(path)) for about, path in zip(parts[::2], parts[1::2], strict=False)]
    blobs = [(about[3], path) for about, path in changed if about[1].startswith(b"100")]
    contents = _git(root, "cat-file", "--batch", said=b"".join(name + b"\n" for name, _ in blobs)) if blobs else b""
    return [_readable(path, data) for (_, path), data in zip(blobs, _each(contents), strict=True)]


def _each(contents: bytes) -> Iterator[bytes]:
    """The files in what `git cat-file --batch` says: a line that ends with the length, the bytes, a line end."""
    at = 0
    while at < len(contents):
        start = contents.index(b"\n", at) + 1
        end = start + int(contents[at:start].split()[-1])
        yield contents[start:end]
        at = end + 1


def _git(root: Path, *words: str, said: bytes = b"") -> bytes:
    """What git says; the index of the commit under way, which a hook is told of, is the one it looks at."""
    try:
        done = subprocess.run(
            [*_GIT, *words], cwd=root, env=_environment(os.environ), input=said, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise StorageError("git", "is not installed").with_hint("Install it, or scan without --staged.") from None
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().splitlines()
        error = StorageError(str(root), f"git: {why[-1] if why else 'failed'}")
        raise error.with_hint("Run it in a vault that git keeps, or scan without --staged.")
    return done.stdout


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """An environment whose paths are good in any directory."""
    known = dict(given)
    for name in _PLACES:
        with suppress(KeyError):
            known[name] = os.path.abspath(known[name])
    return known
