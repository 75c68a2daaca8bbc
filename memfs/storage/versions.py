"""Kept versions of memories, for `restore`: every version that memfs wrote or replaced, up to some number and age.

They are appended to LOG_COUNT logs, in `.git/memfs/` if the vault is a git work tree (`git clean` and `git reset` leave
that directory alone), else in `.memfs/history/`. A record is a header line and the bytes of the version. One file per
version would cost as much as the write itself.
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
from memfs.errors import NewerSchemaError, VersionNotFoundError
from memfs.fs.files import STATE_DIR, digest, open_directory, raw_digest, write, write_all
from memfs.fs.handle_cache import HandleCache
from memfs.fs.locks import release, try_lock
from memfs.storage.part_formats import format_check, log_once

GIT_DIR = (".git", "memfs")
MAX_VERSIONS = 20  # kept per memory
MAX_AGE_DAYS = 30  # the newest version of a memory is kept at any age
LOG_COUNT = 16
MAX_LOG_BYTES = 1 << 30  # a larger log counts as empty
MAX_HEADER_BYTES = 1 << 14
COMPACT_BYTES = 1 << 20  # a larger log is compacted once it has doubled since the last compaction
_LOG_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND
_RECORD_START = b"\x1e"
Revise = Callable[[str, bytes], bytes | None]  # maps the path and the content of a version to its new content
log = logging.getLogger("memfs")


class Record(NamedTuple):
    """One version in a log."""

    path: str
    time_ns: int
    hash: str
    data: bytes

    def __bytes__(self) -> bytes:
        """Return the record as it is written to a log."""
        header = f'[{json.dumps(self.path)}, {self.time_ns}, "{self.hash}", {len(self.data)}]'
        return b"%b%b\n%b\n" % (_RECORD_START, header.encode(), self.data)


class Versions:
    """The versions of one vault's memories. Thread-safe."""

    def __init__(self, root: str, *, lock_timeout: float) -> None:
        self._timeout = lock_timeout
        self._mutex = Mutex()
        git = f"{root}/.git"
        is_git = os.path.isdir(git) and not os.path.islink(git)
        history = HandleCache(STATE_DIR, "history", check=format_check("history"))
        self._logs = HandleCache(*GIT_DIR, check=format_check("history", *GIT_DIR)) if is_git else history
        self._earlier_logs = history if is_git else None  # from before `git init`: revised, but never read
        self._last_hashes: dict[str, str] = {}  # path -> hash of the version that this process kept last

    def keep(self, root: int, path: str, data: bytes) -> None:
        """Keep a version. Log a warning if that fails, for example on a full disk: the memory itself is written."""
        record = Record(path, time.time_ns(), digest(data), data)
        try:
            self._append(root, path, [record])
        except OSError as error:
            log.warning("%s: this version was not kept: %s", path, error.strerror)
        except NewerSchemaError as error:
            log_once(error, "versions are neither kept nor listed")
        if len(self._last_hashes) > 10_000:
            self._last_hashes.clear()
        self._last_hashes[path] = record.hash

    def keep_once(self, root: int, path: str, data: bytes) -> None:
        """Keep a version, unless this process kept the same content of this memory last."""
        if self._last_hashes.get(path) != digest(data):
            self.keep(root, path, data)

    def list_versions(self, root: int, path: str) -> list[Version]:
        """Return the versions of a memory, newest first, each content once; none if a later memfs wrote them."""
        found: dict[str, Version] = {}
        try:
            records = self._records(root, path)
        except NewerSchemaError as error:
            log_once(error, "versions are neither kept nor listed")
            return []
        for record in reversed(records):
            moment = datetime.fromtimestamp(record.time_ns // 1000 / 1e6, UTC)
            found.setdefault(record.hash, Version(moment, record.hash, len(record.data)))
        return list(found.values())[:MAX_VERSIONS]

    def read(self, root: int, path: str, version: Version) -> bytes:
        """Return the content of one version. Raise VersionNotFoundError if it is not kept or damaged."""
        for record in reversed(self._records(root, path)):
            if record.hash == version.hash == digest(record.data):
                return record.data
        raise VersionNotFoundError(path, version.hash)

    def move(self, root: int, path: str, to: str) -> None:
        """Move the versions of a memory to its new path. Errors are ignored: they then stay at the old one."""
        with suppress(OSError, NewerSchemaError):
            if records := self._records(root, path):
                self._append(root, to, [record._replace(path=to) for record in records])
                self.purge(root, path)

    def check_format(self, root: int) -> None:
        """Raise NewerSchemaError if a later memfs wrote the kept versions, which then cannot be deleted."""
        for logs in (self._logs, self._earlier_logs) if self._earlier_logs else (self._logs,):
            logs.check(root)

    def purge(self, root: int, path: str) -> None:
        """Delete the versions of a memory, except those kept before the vault became a git work tree."""
        self._last_hashes.pop(path, None)
        if self._records(root, path):
            self._rewrite(
                root, self._log_name(path), lambda records: [record for record in records if record.path != path]
            )

    def revise(self, root: int, change: Revise) -> None:
        """Replace each version of every memory by the result of `change`; None deletes it.

        This includes versions kept before the vault became a git work tree.
        """
        self._last_hashes.clear()
        for logs in (self._logs, self._earlier_logs) if self._earlier_logs else (self._logs,):
            for name in [f"{number:02d}.log" for number in range(LOG_COUNT)]:
                with suppress(FileNotFoundError):
                    with self._open(root, name, logs) as fd:
                        data = _read(fd)
                    records = [*_parse(data)]
                    is_torn = len(data) - len(_size_line(data)) != sum(len(bytes(record)) for record in records)
                    if is_torn or _revised(change, records) != records:
                        self._rewrite(root, name, partial(_revised, change), logs)

    def _records(self, root: int, path: str) -> list[Record]:
        """Return the records of a memory, oldest first; none if the log is missing, locked too long, or unreadable."""
        try:
            with self._open(root, self._log_name(path)) as fd:
                return [record for record in _parse(_read(fd)) if record.path == path]
        except OSError:
            return []

    def close(self) -> None:
        """Close the logs; the next use opens them again."""
        self._logs.close()
        if self._earlier_logs:
            self._earlier_logs.close()

    def _append(self, root: int, path: str, records: list[Record]) -> None:
        name = self._log_name(path)
        with self._open(root, name, create=True) as fd:
            write_all(fd, b"".join(map(bytes, records)), durable=False)
            size = os.lseek(fd, 0, os.SEEK_CUR)
            is_due = size > COMPACT_BYTES and size > 2 * _compacted_size(fd)
        if is_due:
            self._rewrite(root, name, _recent)

    def _rewrite(
        self,
        root: int,
        name: str,
        choose: Callable[[list[Record]], list[Record]],
        logs: HandleCache | None = None,
    ) -> None:
        """Rewrite a log with the records that `choose` returns for its complete records."""
        logs = logs or self._logs
        with self._open(root, name, logs, create=True) as fd, open_directory(root, logs.segments) as parent:
            kept_versions = [bytes(record) for record in choose([*_parse(_read(fd))])]
            data = b"".join([b"%d\n" % sum(map(len, kept_versions)), *kept_versions])
            with suppress(FileNotFoundError):
                os.unlink(name + ".new", dir_fd=parent)
            write(parent, name + ".new", data)
            os.rename(name + ".new", name, src_dir_fd=parent, dst_dir_fd=parent)

    def _log_name(self, path: str) -> str:
        return f"{raw_digest(path.encode(errors='surrogatepass'))[-1] % LOG_COUNT:02d}.log"

    @contextmanager
    def _open(self, root: int, name: str, logs: HandleCache | None = None, *, create: bool = False) -> Iterator[int]:
        """Open a log, locked against other processes and threads. Raise OSError, also if the lock stays taken."""
        deadline = time.monotonic() + self._timeout
        with self._mutex:
            while True:
                fd = (logs or self._logs).open(root, name, _LOG_FLAGS if create else _LOG_FLAGS & ~os.O_CREAT)
                while not try_lock(fd):
                    if time.monotonic() > deadline:
                        raise OSError(errno.ETIMEDOUT, "another process holds the lock of the version log")
                    time.sleep(0.001)
                if os.fstat(fd).st_nlink:
                    break  # else another process replaced it by a compacted one
            try:
                yield fd
            finally:
                release(fd)


def _recent(records: list[Record]) -> list[Record]:
    """Return the records to keep: up to MAX_VERSIONS per memory, none but the newest older than MAX_AGE_DAYS."""
    hashes: dict[str, set[str]] = {}  # path -> hashes of its newer versions
    oldest = time.time_ns() - MAX_AGE_DAYS * 86400 * 10**9
    kept_versions = []
    for record in reversed(records):
        newer = hashes.setdefault(record.path, set())
        if record.hash not in newer and len(newer) < MAX_VERSIONS and (not newer or record.time_ns > oldest):
            kept_versions.append(record)
        newer.add(record.hash)
    return kept_versions[::-1]


def _revised(change: Revise, records: list[Record]) -> list[Record]:
    """Return the records after `change`, without those for which it returns None."""
    changed = [(record, change(record.path, record.data)) for record in records]
    return [record._replace(hash=digest(data), data=data) for record, data in changed if data is not None]


def _read(fd: int) -> bytes:
    """Return the bytes of a log; none if it is larger than MAX_LOG_BYTES."""
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0) if size <= MAX_LOG_BYTES else b""


def _compacted_size(fd: int) -> int:
    """Return the size of a log after its last compaction, which is its first line; 0 if there was none."""
    return int(_size_line(os.pread(fd, 20, 0)) or 0)


def _size_line(data: bytes) -> bytes:
    """Return the first line of a log if it is a size, which compaction writes there; else nothing."""
    line, end, _ = data[:20].partition(b"\n")
    return line + end if line.isdigit() else b""


def _parse(data: bytes) -> Iterator[Record]:
    """Yield the complete records of a log, oldest first; incomplete records are skipped."""
    start = data.find(_RECORD_START)
    while start >= 0:
        line = data.find(b"\n", start, start + MAX_HEADER_BYTES)
        header = _parse_header(data[start + 1 : line]) if line > 0 else None
        end = line + 1 + header[3] if header else 0
        if header and data[end : end + 1] == b"\n":
            yield Record(*header[:3], data[line + 1 : end])
            start = data.find(_RECORD_START, end)
        else:
            start = data.find(_RECORD_START, start + 1)


def _parse_header(line: bytes) -> tuple[str, int, str, int] | None:
    """Return path, time, hash and size, as `Record` writes them; None if the line is malformed."""
    try:
        path, time_ns, content_hash, size = json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return None
    if type(path) is str and type(time_ns) is int and type(content_hash) is str and type(size) is int:
        return (path, time_ns, content_hash, size) if size >= 0 and 0 <= time_ns < 1 << 62 else None
    return None
