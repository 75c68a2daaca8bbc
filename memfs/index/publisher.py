"""Publishing: the index of one vault as this process has it open, and the next one made of it.

One process publishes at a time. A disk that takes no index, being full or read-only, has this process keep one in
memory.
"""

import errno
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, TypeVar

from memfs.data_types import ENCRYPTED_PREFIX, Memory, is_encrypted_value, memory_id, replace_encrypted_lines
from memfs.decay import pack_decay_inputs
from memfs.errors import MemfsError
from memfs.format.frontmatter import parse_canonical_layout, split_canonical_layout
from memfs.fs.files import STATE_DIR, fine_timestamp_device, open_directory, raw_digest
from memfs.fs.locks import release, try_lock
from memfs.index.conversation_position import keywords_of, place_of
from memfs.index.generations import CURRENT, PURGE, Generation
from memfs.index.row_table import IndexDamaged, IndexOfAnotherKind
from memfs.index.tantivy_index import Document, Edit, TantivyIndex, index_in_memory, open_index, publish
from memfs.namespace import first_line, is_conflict_copy, is_utf8_encodable, slug
from memfs.query.keyword_terms import joined, moments_of, read_terms, terms_of
from memfs.storage.change_journal import ChangeJournal
from memfs.storage.recall_log import mark_of
from memfs.storage.stat_scan import UNSETTLED, Marks, diff, is_settled, read_all, scan, stamp_of
from memfs.storage.state_dir import make

MANY = 300  # changes that are better published than kept pending
RETRY = 5.0  # seconds until a disk that took no index is tried again
PATIENCE = 120.0  # seconds to wait for another process that publishes the index
STALLED = 10.0  # seconds without progress after which it is taken for stopped
MAX_INDEXED = 1 << 20  # characters of a memory
AHEAD = 16  # memories that are read before the first of them is indexed
INDEX = "index"
T = TypeVar("T")
Progress = Callable[[int, int], None]
_NUMBER = re.compile(r"-\d+\Z")  # of a name that others had before
_SYSTEM = re.compile(r"([^'\"]+) \(os error \d+\)")  # what the system said, in the words of tantivy
log = logging.getLogger("memfs")


def text_of(memory: Memory) -> str:
    """The text of a memory that is searched."""
    return searched_text(memory.path, memory.header.values, replace_encrypted_lines(memory.body))


def searched_text(path: str, values: Mapping[str, Any], body: str, times: int = 2) -> str:
    """The body, the path, and the names twice, which `benchmarks.ranking` found best. A file is often called by its
    first words, which would count three times if the path counted twice, too."""
    place = path.removesuffix(".md").replace("_", " ")
    return "\n".join((place, *[_names(values)] * times, body[:MAX_INDEXED]))


def _names(values: Mapping[str, Any]) -> str:
    """What a memory is called: its title, description, aliases and tags."""
    words = []
    if "title" in values:
        words.append(str(values["title"]))
    if "description" in values:
        words.append(str(values["description"]))
    words += values.get("aliases", ())
    words += values.get("tags", ())
    names = "\n".join(words)
    return (
        names if ENCRYPTED_PREFIX not in names else "\n".join([word for word in words if not is_encrypted_value(word)])
    )


def meaning_of(memory: Memory) -> str:
    """The text of a memory that its meaning is taken from: its names, but not where it lies, and its body. A file name
    that is made of the text says nothing more."""
    values, body = parse_canonical_layout(memory.data) or (memory.header.values, memory.body)
    body = replace_encrypted_lines(body)
    name = memory.path.rpartition("/")[2].removesuffix(".md")
    made = slug(str(values.get("title", "")) or first_line(body))
    told = "" if made in {name, _NUMBER.sub("", name)} else name.replace("_", " ")
    names = _names(values)
    return "\n".join((told, names, body[:MAX_INDEXED]) if names else (told, body[:MAX_INDEXED]))


def document(memory: Memory, stamp: Marks | None = None) -> Document:
    """A memory as it is indexed, with its stamp or another one."""
    path, data, status = memory.path, memory.data, memory.status
    header, body = split_canonical_layout(data)
    read = read_terms(path, header) if header else None
    if read is None:
        values, body = memory.header.values, memory.body
        keywords = [joined(terms_of(path, values))]
    else:
        values, keywords = read
    body = replace_encrypted_lines(body)
    numbers = moments_of(values, status)
    row = (
        path,
        stamp or stamp_of(status),
        raw_digest(data),
        pack_decay_inputs(numbers, values),
        mark_of(memory_id(path, values)),
    )
    if "source" in values and (place := place_of(path, values)) is not None:
        keywords.append(joined(keywords_of(values, body)))
        numbers["place"] = place
    return Document(row, searched_text(path, values, body), " ".join(keywords), numbers)


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """The same, some of them taken at once: what is done again and again without other work between takes less time."""
    while some := [*islice(items, AHEAD)]:
        yield from some


def origin_of(memory: Memory) -> tuple[int | None, Sequence[str]]:
    """The place of a memory in a conversation, and the keywords that come with it."""
    if b"source" not in memory.data:
        return None, ()
    values = memory.header.values
    place = place_of(memory.path, values)
    return place, () if place is None else keywords_of(values, replace_encrypted_lines(memory.body))


def _reason(error: Exception) -> str:
    """Why something failed, without the temporary names that differ each time."""
    found = _SYSTEM.search(str(error))
    return getattr(error, "strerror", None) or (found[1] if found else str(error))


class Publisher:
    """The published index, open in this process."""

    def __init__(self, root: str, journal: ChangeJournal, *, language: str) -> None:
        self.folder = os.path.join(root, STATE_DIR, INDEX)
        self._pointer = os.path.join(self.folder, CURRENT)
        self.index: TantivyIndex | None = None
        self.trouble = ""
        self.retry_at = 0.0
        self._pause = RETRY
        self._had_one = self._is_foreign = False  # of our kind; of another
        self._journal, self._language = journal, language
        self.unsettled: list[str] = []  # what was published last, and may have changed again without another stamp
        self._seen: tuple[int, ...] | None = None  # what `current` was when the index was opened
        self._stamps: dict[str, Marks] | None = None

    def stamps(self) -> dict[str, Marks]:
        """The stamps of the memories in the index."""
        if self._stamps is None:
            self._stamps = self.index.catalog.stamps() if self.index else {}
        return self._stamps

    def stamps_but(self, folders: Collection[str]) -> dict[str, Marks]:
        """The stamps of the memories in all other directories."""
        if not folders or self.index is None:
            return self.stamps()
        catalog = self.index.catalog
        others = [catalog.directory(folder).stamps() for folder in catalog.folders() if folder not in folders]
        return {path: stamp for stamps in others for path, stamp in stamps.items()}

    @property
    def has_stamps(self) -> bool:
        """Whether the stamps were needed already; they take a while to read."""
        return self._stamps is not None

    def is_spoiled(self) -> bool:
        """Tell whether the open index was written into, by a look at its files."""
        try:
            if self.index and self.index.generation:
                self.index.generation.verify()
        except IndexDamaged:
            return True
        return False

    def is_current(self) -> bool:
        """Tell whether the index that is open is the published one."""
        return self.index is not None and self._current() == self._seen

    def adopt(self) -> None:
        """Open what is published; what is damaged counts as not there."""
        seen = self._current() if self._is_ours() else None
        if seen is None and self.index and not self.index.generation:
            self._seen = seen
            return  # the one in memory serves as long as none is on disk
        if seen and self._is_open():
            self._seen = seen
            return  # its files are described anew, when those of the one before are gone
        self._take(None, seen)
        while seen and self.index is None:
            try:
                self._take(open_index(self.folder, self._language), seen)
                self._had_one, self._is_foreign = True, False
            except IndexDamaged as error:
                log.info("index: %s", error)
                self._is_foreign = isinstance(error, IndexOfAnotherKind)
                seen, before = self._current(), seen
                if seen == before:
                    break  # else another one was published while this one was opened

    def _is_open(self) -> bool:
        """Tell whether the generation that counts is the one that is open."""
        with suppress(IndexDamaged):
            open_one = self.index.generation if self.index else None
            return open_one is not None and Generation.read(self.folder).name == open_one.name
        return False

    def _is_ours(self) -> bool:
        """Tell whether the index lies in the vault: a symlink may lead anywhere."""
        return not os.path.islink(self.folder) and not os.path.islink(os.path.dirname(self.folder))

    def discard(self) -> None:
        """Have nothing open, as if nothing were published."""
        self._take(None, self._current())

    def path_of(self, name: str) -> str | None:
        """The path of a memory by its id, as far as the index knows."""
        if self.index is None or not is_utf8_encodable(name):
            return None
        with suppress(IndexDamaged):
            for number in self.index.rows_of(f"id={name}"):
                path, _ = self.index.catalog.known(number)
                if not is_conflict_copy(path):
                    return path
        return None

    # --- publishing

    def publish(
        self,
        root: int,
        paths: Collection[str],
        progress: Progress | None = None,
        *,
        is_all: bool = False,
        wait: bool = False,
        anew: bool = False,
    ) -> bool:
        """Publish the index with these memories as they are now; if there is none, or `anew`, with all of them.

        False if another process is at it, which `wait` waits for, or the disk does not take it: `trouble` tells.
        """
        try:
            with self._lock(root, wait=wait or self.index is None):
                if anew:
                    self.discard()
                elif not self.is_current():
                    self.adopt()
                if self._is_foreign and self._had_one:
                    raise OSError(errno.EEXIST, "another memfs, or another language, has its index there")
                self._publish(root, paths, progress, is_all=is_all)
        except (OSError, IndexDamaged, MemfsError) as error:
            if isinstance(error, BlockingIOError) and self.index:
                return False
            self._note(f"the index cannot be written: {_reason(error)}")
            if self.index and len(paths) < MANY * 10:
                return False
            edits = self._edits(root, None, sorted(scan(root).stamps), progress)
            self._take(index_in_memory(edits, self._language), self._current())
        return True

    def _note(self, trouble: str) -> None:
        """Note why there is no index on disk; it is tried again, less and less often."""
        if trouble != self.trouble:
            log.warning("%s", trouble)
            self._pause = RETRY
        self.trouble, self.retry_at = trouble, time.monotonic() + self._pause
        self._pause = min(self._pause * 2, 60 * RETRY)

    def is_due(self) -> bool:
        """Tell whether the disk took no index, and it is time to try it again."""
        return bool(self.trouble) and time.monotonic() > self.retry_at

    def _publish(self, root: int, paths: Collection[str], progress: Progress | None, *, is_all: bool) -> None:
        base = self._base()
        is_to_purge = self.is_to_purge()
        if base is None:
            with suppress(OSError):  # what is removed from now on sets it again
                os.unlink(os.path.join(self.folder, PURGE))
        if base is None and not is_all:
            paths = scan(root).stamps
        elif base and is_all:  # another process has built it meanwhile
            paths = diff(scan(root).stamps, self.stamps()).paths
            if not paths:
                return
        self._journal.begin(root)
        cursor = "" if self._journal.is_large() or is_to_purge else self._journal.cursor(root)
        edits = _ahead(self._edits(root, base, sorted(paths), progress))
        is_large = len(paths) > MANY * 5
        try:
            index = publish(self.folder, base, edits, language=self._language, journal=cursor, is_large=is_large)
        except BaseException:
            if is_to_purge:
                self._mark_purge()
            raise
        self._take(index, self._current())
        self.trouble, self._had_one = "", True
        if self._journal.is_large() or is_to_purge:  # a watcher may have noted names that are to go
            self._journal.begin_anew(root)

    def _base(self) -> TantivyIndex | None:
        """The index to build on; none if there is none on disk, it is damaged, or a new one is better."""
        if self.index is None or self.index.generation is None or self._is_worn(self.index):
            return None
        try:
            self.index.generation.verify()
        except IndexDamaged:
            return None
        return self.index

    def _edits(
        self, root: int, base: TantivyIndex | None, paths: list[str], progress: Progress | None
    ) -> Iterator[Edit]:
        rows, stamps = (base.catalog.rows(), base.catalog.stamps()) if base else ({}, {})
        fine, began = fine_timestamp_device(self.folder), time.time_ns()  # another one may be mounted into the vault
        self.unsettled = []
        for number, (path, found) in enumerate(_ahead(read_all(root, paths))):
            if number % 500 == 0:
                self._get_on(number, len(paths), progress)
            if isinstance(found, Memory):
                is_sure = found.status.st_dev == fine or is_settled(found.status, began, time.time_ns())
                stamp = None if is_sure else UNSETTLED
                if stamp:
                    self.unsettled.append(path)
                if base is None:
                    yield None, document(found, stamp)
                elif stamps.get(path) != found.stamp:
                    yield rows.get(path), document(found, stamp)
            elif found is None and path in rows:
                yield rows[path], None
        if progress:
            progress(len(paths), len(paths))

    def _get_on(self, done: int, total: int, progress: Progress | None) -> None:
        """Tell how far it is, also those who wait for the lock."""
        with suppress(OSError):
            os.utime(self.folder)
        if progress:
            progress(done, total)

    def _take(self, index: TantivyIndex | None, seen: tuple[int, ...] | None) -> None:
        self.index, self._seen, self._stamps = index, seen, None

    def _current(self) -> tuple[int, ...] | None:
        try:
            status = os.stat(self._pointer, follow_symlinks=False)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ctime_ns, status.st_ino

    @contextmanager
    def _lock(self, root: int, *, wait: bool) -> Iterator[None]:
        """Hold the lock of publishing; BlockingIOError if another process has it."""
        deadline = time.monotonic() + (PATIENCE if wait else 0)
        make(root)
        with open_directory(root, (STATE_DIR, INDEX), create=True) as fd:
            while not try_lock(fd):
                if time.monotonic() >= deadline or time.time() - os.fstat(fd).st_mtime > STALLED:
                    raise BlockingIOError(errno.EAGAIN, "another process is at it")
                time.sleep(0.01)
            os.utime(fd)
            try:
                yield
            finally:
                release(fd)

    # --- words that must not stay

    def purge(self, path: str | None) -> None:
        """Have the next index made from nothing, if this one ever knew a memory of that path; None is any."""
        if self.index and self.index.generation and (path is None or self.index.catalog.mentions(path)):
            self._mark_purge()

    def _mark_purge(self) -> None:
        with suppress(OSError), open(os.path.join(self.folder, PURGE), "wb"):
            pass

    def is_to_purge(self) -> bool:
        return os.path.exists(os.path.join(self.folder, PURGE))

    def _is_worn(self, index: TantivyIndex) -> bool:
        """Tell whether the index holds more of what is gone than of what is there, or what it must not."""
        return index.catalog.dead > max(index.catalog.alive, 1000) or self.is_to_purge()
