"""Scan existing files of a vault, or files staged in git, for secrets and personal data. Files are never changed."""

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

MAX_FILE_BYTES = 256 * 1024 * 1024  # the same as for the log of a session
BINARY_CHECK_BYTES = 8192  # a zero byte among the first of a file means that it is binary
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
_PATH_VARIABLES = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY")


class ScannedFile(NamedTuple):
    """A file and its bytes; `data` is None, with a `reason`, if it cannot be scanned."""

    path: str
    data: bytes | None
    reason: str = ""


class ScanFinding(NamedTuple):
    """The kind of a secret or of personal data in a file, and its line."""

    path: str
    line: int
    kind: str


def scan_file(source: ScannedFile, policy: Policy | None = None) -> list[ScanFinding]:
    """Return the findings in a file whose kind the policy redacts or rejects; without a policy, all findings."""
    if source.data is None:
        return []
    text = _text(source.data)
    found: list[Finding] = scan_text(text) if policy is None else policy.findings(text)
    return list(dict.fromkeys(ScanFinding(source.path, one.line, one.kind) for one in found))


def paths_below(root: Path, path: str = "") -> list[str]:
    """Return the files at or below a path of a vault, sorted, without names that begin with a dot.

    A path that is not a directory is returned as it is, even if nothing exists there. A directory that cannot be listed
    is included, so that reading it reports the reason.
    """
    top = os.path.join(root, path)
    if not os.path.isdir(top) or os.path.islink(top):
        return [path]
    found: list[str] = []
    errors: list[OSError] = []
    for here, directories, names in os.walk(top, onerror=errors.append):
        directories[:] = [name for name in directories if not name.startswith(".")]
        found += [os.path.join(here, name) for name in names if not name.startswith(".")]
    found += [error.filename for error in errors]
    return sorted(os.path.relpath(one, root).replace(os.sep, "/") for one in found)


def resolve_path(root: Path, word: str) -> str:
    """Return the vault path of a file or directory, given as that path, a namespace, or a file system path.

    It is "" for the whole vault. Raise InvalidNamespaceError for a path outside, PlaceNotFoundError for a missing one.
    """
    absolute = os.path.abspath(word)
    inside = f"{root}{os.sep}"
    if absolute == str(root) or word.strip("/") == "":
        return ""
    if absolute.startswith(inside) and os.path.lexists(absolute):
        return absolute[len(inside) :].replace(os.sep, "/")
    plain = word.strip("/")
    for path in (plain, f"{plain}.md") if ".." not in plain.split("/") else ():
        if os.path.lexists(os.path.join(root, path)):
            return path
    if os.path.lexists(absolute) and not absolute.startswith(inside):
        error = InvalidNamespaceError(word, "outside the vault")
        error.hint = f"Name a path in {root}, or another vault with --vault DIR."
        raise error
    raise PlaceNotFoundError(word, "file, directory or namespace")


def read_files(root: Path, paths: Iterable[str]) -> Iterator[ScannedFile]:
    """Yield files of a vault one at a time; symlinks are not followed."""
    fd = open_root(root)
    try:
        for path in paths:
            yield _read_file(fd, path)
    finally:
        os.close(fd)


def _read_file(root: int, path: str) -> ScannedFile:
    try:
        *segments, name = path.split("/")
        with open_directory(root, tuple(segments)) as parent:
            return _check_text(path, read_file(parent, name, MAX_FILE_BYTES).data)
    except OSError as error:
        return ScannedFile(path, None, "a symlink" if error.errno == errno.ELOOP else (error.strerror or "unreadable"))
    except MemfsError as error:
        return ScannedFile(path, None, str(error))


def _check_text(path: str, data: bytes) -> ScannedFile:
    """Return a file to scan; one that is binary has no data, but a reason."""
    if b"\0" in data[:BINARY_CHECK_BYTES] and not data.startswith(_UTF16_BOMS):
        return ScannedFile(path, None, "not a text file")
    return ScannedFile(path, data)


def _text(data: bytes) -> str:
    """Decode the bytes of a file: UTF-16 with a byte order mark, else UTF-8, else Latin-1, which decodes any bytes."""
    if data.startswith(_UTF16_BOMS):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


# --- staged files --------------------------------------------------------------------------------------


def staged_files(root: Path) -> list[ScannedFile]:
    """Return the files of a vault that the next commit adds or changes, with their staged content."""
    _run_git(root, "rev-parse", "--git-dir")  # outside of a repository `git diff` would print its usage
    listed = _run_git(
        root, "diff", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "--diff-filter=d", "--relative"
    )
    parts = listed.split(b"\0")
    changed = [(status.split(b" "), os.fsdecode(path)) for status, path in zip(parts[::2], parts[1::2], strict=False)]
    blobs = [(status[3], path) for status, path in changed if status[1].startswith(b"100")]  # regular files
    contents = (
        _run_git(root, "cat-file", "--batch", stdin=b"".join(name + b"\n" for name, _ in blobs)) if blobs else b""
    )
    return [_check_text(path, data) for (_, path), data in zip(blobs, _split_batch(contents), strict=True)]


def _split_batch(contents: bytes) -> Iterator[bytes]:
    """Yield the files in `git cat-file --batch` output: a line that ends with the length, the bytes, a newline."""
    offset = 0
    while offset < len(contents):
        start = contents.index(b"\n", offset) + 1
        end = start + int(contents[offset:start].split()[-1])
        yield contents[start:end]
        offset = end + 1


def _run_git(root: Path, *words: str, stdin: bytes = b"") -> bytes:
    """Return the output of git; raise StorageError if it fails.

    In a git hook, the environment names the index of the commit that is being made, and git uses that.
    """
    try:
        done = subprocess.run(
            [*_GIT, *words], cwd=root, env=_environment(os.environ), input=stdin, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise StorageError("git", "is not installed").with_hint("Install it, or scan without --staged.") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        error = StorageError(str(root), f"git: {lines[-1] if lines else 'failed'}")
        raise error.with_hint("Run it in a vault that is in a git repository, or scan without --staged.")
    return done.stdout


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with git's paths made absolute, as git runs in another directory."""
    absolute = dict(environ)
    for name in _PATH_VARIABLES:
        with suppress(KeyError):
            absolute[name] = os.path.abspath(absolute[name])
    return absolute
