"""Kept versions: every acknowledged one of each memory, outside the work tree, for `restore`.

They are appended to a few logs in `.git/memfs/` where the vault is a git work tree, so that `git clean` and
`git reset` spare them, else in `.memfs/history/`. A record is a line of facts and the bytes of the version; a
new file a version would cost as much as the write itself.
"""

import errno
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from memfs.after_fork import Mutex
from memfs.data_types import Version
from memfs.errors import VersionNotFoundError
from memfs.fs.files import STATE_DIR, digest, open_directory, raw_digest, write, write_all
from memfs.fs.handle_cache import HandleCache
from memfs.fs.locks import release, try_lock

KEEP = 20
KEEP_DAYS = 30
LOGS = 16
MAX_LOG = 1 << 30
MAX_LINE = 1 << 14
COMPACT = 1 << 20  # bytes; a log is compacted when it has doubled since, and is larger than this
_LOG = os.O_RDWR | os.O_CREAT | os.O_APPEND
_MARK = b"\x1e"
Revise = Callable[[str, bytes], bytes | None]  # the path and the bytes of a version -> what becomes of it
log = logging.getLogger("memfs")


class Record(NamedTuple):
    """One version in a log."""

    path: str
    time_ns: int
    hash: str
    data: bytes

    def __bytes__(self) -> bytes:
        facts = f'[{json.dumps(self.path)}, {self.time_ns}, "{self.hash}", {len(self.data)}]'
        return b"%b%b\n%b\n" % (_MARK, facts.encode(), self.data)


class Versions:
    """The versions of one vault's memories. Thread-safe."""

    def __init__(self, root: str, *, lock_timeout: float) -> None:
        self._timeout = lock_timeout
        self._mutex = Mutex()
        git = f"{root}/.git"
        is_git = os.path.isdir(git) and not os.path.islink(git)
        history = HandleCache(STATE_DIR, "history")
        self._place = HandleCache(".git", "memfs") if is_git else history
        self._former = history if is_git else None  # where versions are that were kept before it was one
        self._last: dict[str, str] = {}  # path -> hash of the version we kept last

    def keep(self, root: int, path: str, data: bytes) -> None:
        """Keep a version; a disk without room for it does not undo the write it belongs to."""
        record = Record(path, time.time_ns(), digest(data), data)
        try:
            self._append(root, path, [record])
        except OSError as error:
            log.warning("%s: this version is not kept: %s", path, error.strerror)
        if len(self._last) > 10_000:
            self._last.clear()
        self._last[path] = record.hash

    def keep_once(self, root: int, path: str, data: bytes) -> None:
        """Keep a version, unless it is the one we kept last."""
        if self._last.get(path) != digest(data):
            self.keep(root, path, data)

    def of(self, root: int, path: str) -> list[Version]:
        """The versions of a memory, newest first, each content once."""
        found: dict[str, Version] = {}
        for record in reversed(self._records(root, path)):
            moment = datetime.fromtimestamp(record.time_ns // 1000 / 1e6, UTC)
            found.setdefault(record.hash, Version(moment, record.hash, len(record.data)))
        return list(found.values())[:KEEP]

    def read(self, root: int, path: str, version: Version) -> bytes:
        """The content of one version."""
        for record in reversed(self._records(root, path)):
            if record.hash == version.hash == digest(record.data):
                return record.data
        raise VersionNotFoundError(path, version.hash)

    def move(self, root: int, path: str, to: str) -> None:
        """Follow a memory to its new path."""
        if records := self._records(root, path):
            with suppress(OSError):
                self._append(root, to, [record._replace(path=to) for record in records])
                self.purge(root, path)

    def purge(self, root: int, path: str) -> None:
        """Forget every version of a memory."""
        self._last.pop(path, None)
        if self._records(root, path):
            self._rewrite(root, self._log(path), lambda records: [one for one in records if one.path != path])

    def revise(self, root: int, change: Revise) -> None:
        """Have `change` say what each version of any memory is from now on; None drops it.

        Versions that were kept before the vault became a git work tree are among them.
        """
        self._last.clear()
        for place in (self._place, self._former) if self._former else (self._place,):
            for name in [f"{number:02d}.log" for number in range(LOGS)]:
                with suppress(FileNotFoundError):
                    with self._open(root, name, place) as fd:
                        data = _read(fd)
                    records = [*_parse(data)]
                    is_torn = len(data) - len(_head(data)) != sum(len(bytes(record)) for record in records)
                    if is_torn or _revised(change, records) != records:
                        self._rewrite(root, name, partial(_revised, change), place)

    def _records(self, root: int, path: str) -> list[Record]:
        try:
            with self._open(root, self._log(path)) as fd:
                return [record for record in _parse(_read(fd)) if record.path == path]
        except OSError:
            return []

    def close(self) -> None:
        self._place.close()
        if self._former:
            self._former.close()

    def _append(self, root: int, path: str, records: list[Record]) -> None:
        name = self._log(path)
        with self._open(root, name, create=True) as fd:
            write_all(fd, b"".join(map(bytes, records)), durable=False)
            size = os.lseek(fd, 0, os.SEEK_CUR)
            due = size > COMPACT and size > 2 * _compacted_size(fd)
        if due:
            self._rewrite(root, name, _recent)

    def _rewrite(
        self,
        root: int,
        name: str,
        choose: Callable[[list[Record]], list[Record]],
        place: HandleCache | None = None,
    ) -> None:
        """Write a log anew with the records that are chosen of it; what is torn in it goes."""
        place = place or self._place
        with self._open(root, name, place, create=True) as fd, open_directory(root, place.segments) as parent:
            kept = [bytes(record) for record in choose([*_parse(_read(fd))])]
            data = b"".join([b"%d\n" % sum(map(len, kept)), *kept])
            with suppress(FileNotFoundError):
                os.unlink(name + ".new", dir_fd=parent)
            write(parent, name + ".new", data)
            os.rename(name + ".new", name, src_dir_fd=parent, dst_dir_fd=parent)

    def _log(self, path: str) -> str:
        return f"{raw_digest(path.encode(errors='surrogatepass'))[-1] % LOGS:02d}.log"

    @contextmanager
    def _open(self, root: int, name: str, place: HandleCache | None = None, *, create: bool = False) -> Iterator[int]:
        """Have a log open and locked, against other processes and threads."""
        deadline = time.monotonic() + self._timeout
        with self._mutex:
            while True:
                fd = (place or self._place).open(root, name, _LOG if create else _LOG & ~os.O_CREAT)
                while not try_lock(fd):
                    if time.monotonic() > deadline:
                        raise OSError(errno.ETIMEDOUT, "another process holds the log of versions")
                    time.sleep(0.001)
                if os.fstat(fd).st_nlink:
                    break  # else it was compacted meanwhile
            try:
                yield fd
            finally:
                release(fd)


def _recent(records: list[Record]) -> list[Record]:
    """The versions that are kept: a number of each memory's, up to an age."""
    seen: dict[str, set[str]] = {}
    oldest = time.time_ns() - KEEP_DAYS * 86400 * 10**9
    kept = []
    for record in reversed(records):
        known = seen.setdefault(record.path, set())
        if record.hash not in known and len(known) < KEEP and (not known or record.time_ns > oldest):
            kept.append(record)
        known.add(record.hash)
    return kept[::-1]


def _revised(change: Revise, records: list[Record]) -> list[Record]:
    """The versions as `change` has them."""
    changed = [(record, change(record.path, record.data)) for record in records]
    return [record._replace(hash=digest(data), data=data) for record, data in changed if data is not None]


def _read(fd: int) -> bytes:
    """The bytes of a log; one that is beyond all measure is not ours to read."""
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0) if size <= MAX_LOG else b""


def _compacted_size(fd: int) -> int:
    """The size of a log after it was last compacted: its first line."""
    return int(_head(os.pread(fd, 20, 0)) or 0)


def _head(data: bytes) -> bytes:
    """The first line of a log that was compacted once."""
    line, end, _ = data[:20].partition(b"\n")
    return line + end if line.isdigit() else b""


def _parse(data: bytes) -> Iterator[Record]:
    """The whole records of a log; what is torn is passed over."""
    start = data.find(_MARK)
    while start >= 0:
        line = data.find(b"\n", start, start + MAX_LINE)
        facts = _facts(data[start + 1 : line]) if line > 0 else None
        end = line + 1 + facts[3] if facts else 0
        if facts and data[end : end + 1] == b"\n":
            yield Record(*facts[:3], data[line + 1 : end])
            start = data.find(_MARK, end)
        else:
            start = data.find(_MARK, start + 1)


def _facts(line: bytes) -> tuple[str, int, str, int] | None:
    """Path, time, hash and size, as `Record` writes them."""
    try:
        path, time_ns, code, size = json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return None
    if type(path) is str and type(time_ns) is int and type(code) is str and type(size) is int:
        return (path, time_ns, code, size) if size >= 0 and 0 <= time_ns < 1 << 62 else None
    return None
