"""A random walk: random steps in a vault that several processes have open, compared with a model of its content.

A step is a write by memfs in any process, a save of an editor, a git command, a moved directory, a kill, or damage to
the state directory. After each step the model, the files, and the listings and searches of every process must agree.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, cast

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from memfs import MemfsError, Vault
from memfs.data_types import Written
from memfs.freshness.inotify_source import InotifySource
from memfs.search.search import Searcher
from memfs.storage.change_journal import ChangeJournal
from memfs.storage.versions import Versions
from support.processes import WorkerPool
from support.searching import PAGE_SIZE, POLL_SECONDS, TIMEOUT
from support.vaults import history

WATCH_SECONDS = (
    3.0  # within which a process that follows a watcher must see a change; `make torture` prints the time it took
)
FIRST = 24  # memories in a new vault
SAMPLE = 3  # words untouched by a step that are searched for after it all the same
NAMESPACES = ("a", "b", "b/c", "d")
PROCESSES = ("here", "one", "two", "once")  # this one, two long-lived ones, and a new one for each request
GIT = ("git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "gc.auto=0", "-c", "core.fsync=none")
Request = dict[str, Any]
Response = dict[str, Any]
Texts = dict[str, str]  # by path
Shape = dict[str, frozenset[str]]  # the marks of the text of each path
_MARK = re.compile(r"\b(?:word|key)\d+\b")


def marks(text: str) -> frozenset[str]:
    """Return the marks in a text, each written only once: words to search for, and values of a key."""
    return frozenset(_MARK.findall(text))


def shape(texts: Texts) -> Shape:
    return {path: marks(text) for path, text in texts.items()}


def is_archived(path: str) -> bool:
    return path.startswith("archive/")


def code(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


# --- processes


def execute(vault: Vault, request: Request) -> Response:
    """Execute a request and return the response; an error of memfs is a response too."""
    try:
        if request["do"] == "search":
            return search_and_list(vault, request["words"])
        if request["do"] == "doctor":
            return {"problems": [f"{one}" for one in vault.doctor(repair=False)]}
        done = getattr(vault, request["do"])(*request.get("arguments", ()), **request.get("keys", {}))
    except MemfsError as error:
        return {"error": type(error).__name__, "text": str(error)}
    written = done if isinstance(done, list) else [done] if isinstance(done, Written) else []
    return {"paths": [one.path if isinstance(one, Written) else str(one) for one in written]}


def search_and_list(vault: Vault, words: Iterable[str]) -> Response:
    """Return what a vault finds and lists."""
    found: dict[str, dict[str, str]] = {}
    for word in words:
        hits = vault.search(word, limit=PAGE_SIZE)
        found[word] = {hit.memory.path: code(hit.memory.data) for hit in hits}
        if len(found[word]) != len(hits):
            found[word]["a path twice"] = ""
    listed = {memory.path: code(memory.data) for memory in vault.list()}
    return {"found": found, "list": listed}


def serve(root: str, address: str, watch: bool, plant: str) -> None:
    """Run a process of the walk: open a vault, and execute requests until there are no more."""
    PLANTS[plant]()
    with Vault(root, watch=watch) as vault, socket.socket(socket.AF_UNIX) as line:
        line.connect("\0" + address)
        with line.makefile("rw", encoding="utf-8") as stream:
            for text in stream:
                request = json.loads(text)
                try:
                    sys.setprofile(kill_after(request["die"]) if "die" in request else None)
                    response = execute(vault, request)
                    sys.setprofile(None)
                except BaseException:
                    sys.setprofile(None)
                    response = {"crash": traceback.format_exc()}
                print(json.dumps(response), file=stream, flush=True)


def kill_after(calls: int) -> Callable[[FrameType, str, object], None]:
    """Return a profiler that kills this process with SIGKILL before the system call after so many."""
    number = 0

    def see(_: FrameType, event: str, called: object) -> None:
        nonlocal number
        if event == "c_call" and getattr(called, "__module__", "") in {"posix", "fcntl"}:
            number += 1
            if number > calls:
                os.kill(os.getpid(), signal.SIGKILL)

    return see


def drop_journal_lines() -> None:
    """Plant a bug: writes are not journaled."""
    ChangeJournal.append = lambda self, root, paths: True  # type: ignore[method-assign]


def keep_no_versions() -> None:
    """Plant a bug: overwritten texts are lost."""
    Versions.keep = lambda self, root, path, data: None  # type: ignore[method-assign]


def drop_kernel_events() -> None:
    """Plant a bug: events of the kernel are dropped."""
    poll = InotifySource.poll
    nothing = {"paths": set[str](), "directories": set[str](), "is_incomplete": False}
    InotifySource.poll = lambda self, **known: poll(self, **known)._replace(**nothing)  # type: ignore


def cache_search_results() -> None:
    """Plant a bug: search results are cached forever."""
    search, known = Searcher.search, dict[str, Any]()

    def cached(self: Searcher, text: str, *arguments: Any, **options: Any) -> Any:
        if text not in known:
            known[text] = search(self, text, *arguments, **options)
        return known[text]

    Searcher.search = cached  # type: ignore[method-assign]


PLANTS: Mapping[str, Callable[[], None]] = {
    "": lambda: None,
    "the journal is not written": drop_journal_lines,
    "versions are not kept": keep_no_versions,
    "kernel events are dropped": drop_kernel_events,
    "search results are cached": cache_search_results,
}


class Other:
    """Another process that has the vault open."""

    _number = count()

    def __init__(self, pool: WorkerPool, root: Path, *, watch: bool, plant: str) -> None:
        self.is_watching = watch
        address = f"memfs-walk-{os.getpid()}-{next(self._number)}"
        with socket.socket(socket.AF_UNIX) as door:
            door.bind("\0" + address)
            door.listen()
            door.settimeout(TIMEOUT)
            self._worker = pool.start(serve, str(root), address, watch, plant)
            self._line, _ = door.accept()
        self._line.settimeout(TIMEOUT)
        self._stream = self._line.makefile("rw", encoding="utf-8")

    def send(self, request: Request) -> None:
        print(json.dumps(request), file=self._stream, flush=True)

    def receive(self) -> Response | None:
        """Return the response; None if the process died."""
        try:
            text = self._stream.readline()
        except ConnectionResetError:
            text = ""
        response: Response | None = json.loads(text) if text else None
        assert response is None or "crash" not in response, response
        return response

    def call(self, request: Request) -> Response | None:
        self.send(request)
        return self.receive()

    def leave(self) -> None:
        """Let it close its vault and end. Raise AssertionError if it does not."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)
        assert self._worker.ended(TIMEOUT), "a process does not end"
        self.drop()

    def drop(self) -> None:
        """End it by force."""
        with suppress(OSError):
            self._stream.close()
        self._line.close()
        self._worker.close()


# --- the walk


class Tally:
    """Counters of all walks together."""

    def __init__(self) -> None:
        self.sequences = self.steps = self.comparisons = self.kills = self.acknowledged = 0
        self.slowest = 0.0
        self.last: list[str] = []


class Write(NamedTuple):
    """A write by memfs: the request, the shapes that the vault goes through, and the paths concerned."""

    request: Request
    shapes: list[Shape]
    path: str
    new: str  # the path afterwards
    exact: bool = False  # whether the text arrives unchanged at its new path


class Walk(RuleBasedStateMachine):
    """One vault in a git repository, the processes that use it, and a model of its content."""

    def __init__(self, pool: WorkerPool, tally: Tally, plant: str = "") -> None:
        super().__init__()
        self._crew, self._tally, self._plant = pool, tally, plant
        self._folder = Path(tempfile.mkdtemp(prefix="memfs-walk-"))
        self._root = self._folder / "vault"
        self._others: dict[str, Other] = {}
        self._here: Vault | None = None
        self._texts: Texts = {}
        self._kept: dict[str, set[str]] = defaultdict(set)  # path -> marks that were acknowledged there
        self._maybe_moved: set[str] = set()  # paths whose versions a killed process may or may not have moved
        self._number = 0
        self._searched_words: list[str] = []  # words to search for at the next comparison
        self._is_immediate = True  # whether every process must see the last step at once
        self._is_due = False
        self._has_failed = False
        tally.sequences += 1
        tally.last = []

    # --- beginning and end

    @initialize(watcher=st.sampled_from(["", "one", "two"]))
    def begin(self, watcher: str) -> None:
        with self._step(f"begin, watched by {watcher or 'nobody'}"):
            with Vault.init(self._root) as vault:
                items = [{"text": f"Here is {self._word()}.", "title": f"note {self._number}"} for _ in range(FIRST)]
                namespaced = [{**item, "namespace": f"/{self._place(at)}"} for at, item in enumerate(items)]
                vault.add_many(namespaced)
                self._git("init", "-q", "-b", "main")
                self._git("add", "-A")
                self._git("commit", "-qm", "first")
                self._git("branch", "other")
                vault.sync()
            self._here = Vault(self._root)
            for name in ("one", "two"):
                self._start(name, watch=name == watcher)
            self._texts = self._on_disk()
            assert len(self._texts) == FIRST

    def teardown(self) -> None:
        try:
            if self._here and not self._has_failed:
                self._end()
        finally:
            for other in self._others.values():
                other.drop()
            if self._here:
                self._here.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        """Check that all words are found, the doctor finds no fault, and every acknowledged text is kept."""
        self._searched_words = [f"word{number}" for number in range(1, self._number + 1)]
        self._compare_all()
        problems = self._call("once", {"do": "doctor"})["problems"]
        assert problems == [], f"the doctor finds {problems}, after {self._tally.last}"
        lost = set().union(*self._kept.values()) - marks(history(self._root).decode(errors="replace"))
        assert not lost, f"{sorted(lost)} were acknowledged and are not kept, after {self._tally.last}"

    # --- comparing

    @invariant()
    def all_agree(self) -> None:
        if self._is_due:
            self._is_due = False
            try:
                self._compare_all()
            except BaseException:
                self._has_failed = True
                raise

    def _compare_all(self) -> None:
        """Raise AssertionError if a process lists or finds anything but what the model has. One process is first."""
        assert self._on_disk() == self._texts, f"the files differ from the model, after {self._tally.last}"
        first = PROCESSES[len(self._tally.last) % len(PROCESSES)]
        may_lag = not self._is_immediate and self._is_watched()
        for group in ([first], [process for process in PROCESSES if process != first]):
            began, wrong = time.monotonic(), self._mistakes(group)
            while wrong and may_lag and time.monotonic() - began < WATCH_SECONDS:
                time.sleep(POLL_SECONDS)
                wrong = self._mistakes([process for process in group if process in wrong])
            assert not wrong, f"{wrong}, after {self._tally.last}"
            self._tally.slowest = max(self._tally.slowest, time.monotonic() - began)
        self._searched_words = []

    def _mistakes(self, group: Sequence[str]) -> dict[str, list[str]]:
        """Return the mistakes of each of some processes, which search at the same time."""
        self._tally.comparisons += len(group)
        live = {path: text for path, text in self._texts.items() if not is_archived(path)}
        words = sorted(mark for text in live.values() for mark in marks(text) if mark.startswith("word"))
        words_to_search = list(dict.fromkeys([*self._searched_words, *words[:: FIRST // 2][:SAMPLE]]))
        codes = {path: code(text.encode()) for path, text in live.items()}
        expected_hits = {
            word: {path: codes[path] for path, text in live.items() if word in marks(text)} for word in words_to_search
        }
        responses = self._call_all(group, {"do": "search", "words": [*words_to_search, ""]})
        wrong = {
            process: _mistakes_of(response, {**expected_hits, "": codes}) for process, response in responses.items()
        }
        return {process: mistakes[:4] for process, mistakes in wrong.items() if mistakes}

    def _on_disk(self) -> Texts:
        found: Texts = {}
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                if name.endswith(".md"):
                    path = Path(folder, name)
                    found[path.relative_to(self._root).as_posix()] = path.read_bytes().decode()
        return found

    # --- parts of a step

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        """Run one step; afterwards every process searches for the words that it added, moved or removed."""
        self._tally.steps += 1
        self._tally.last.append(what)
        self._is_immediate, self._has_failed = True, True
        before = shape(self._texts)
        yield
        self._searched_words = _words_that_moved(before, shape(self._texts))
        self._has_failed, self._is_due = False, True

    @contextmanager
    def _by_hand(self, what: str) -> Iterator[None]:
        """Run a step that is not a write by memfs: the model takes over the files as they are."""
        with self._step(what):
            self._is_immediate = False
            yield
            self._texts = self._on_disk()

    def _is_watched(self) -> bool:
        return any(other.is_watching for other in self._others.values())

    def _start(self, name: str, *, watch: bool) -> None:
        self._others[name] = Other(self._crew, self._root, watch=watch, plant=self._plant)

    def _call(self, process: str, request: Request) -> Response:
        """Return the response of a process to a request that does not kill it."""
        return self._call_all([process], request)[process]

    def _call_all(self, group: Collection[str], request: Request) -> dict[str, Response]:
        """Return the responses of some processes to one request, which they get at the same time."""
        if "once" in group:
            self._start("once", watch=False)
        responses: dict[str, Response | None] = {}
        others = {process: self._others[process] for process in group if process != "here"}
        for other in others.values():
            other.send(request)
        if "here" in group:
            assert self._here
            responses["here"] = execute(self._here, request)
        responses |= {process: other.receive() for process, other in others.items()}
        if "once" in group:
            self._others.pop("once").leave()
        assert None not in responses.values(), f"a process died: {responses}, after {self._tally.last}"
        return {process: response for process, response in responses.items() if response is not None}

    def _word(self) -> str:
        self._number += 1
        return f"word{self._number}"

    def _place(self, pick: int) -> str:
        return NAMESPACES[pick % len(NAMESPACES)]

    def _path(self, pick: int, *, live: bool = False) -> str:
        """Return the path of a memory; empty if there is none."""
        paths = sorted(path for path in self._texts if not (live and is_archived(path)))
        return paths[pick % len(paths)] if paths else ""

    def _git(self, *arguments: str) -> bool:
        done = subprocess.run([*GIT, *arguments], cwd=self._root, capture_output=True, check=False, timeout=TIMEOUT)
        return not done.returncode

    # --- writes by memfs

    picks = st.integers(0, 99)
    any_process = st.sampled_from(PROCESSES)
    rewriting = ("update_key", "update_body", "append")
    taking = ("forget", "move", "remove")
    tidying = ("sync", "close")

    @rule(process=any_process, pick=picks)
    def add(self, process: str, pick: int) -> None:
        self._write(process, "add", pick)

    @rule(process=any_process, pick=picks)
    def add_many(self, process: str, pick: int) -> None:
        self._write(process, "add_many", pick)

    @rule(process=any_process, verb=st.sampled_from(rewriting), pick=picks)
    def rewrite(self, process: str, verb: str, pick: int) -> None:
        self._write(process, verb, pick)

    @rule(process=any_process, verb=st.sampled_from(taking), pick=picks)
    def take_away(self, process: str, verb: str, pick: int) -> None:
        self._write(process, verb, pick)

    def _write(self, process: str, verb: str, pick: int) -> None:
        """Do a write, which must be acknowledged, or refused if it has to be."""
        write = self._writing(verb, pick)
        if not write:
            return
        with self._step(f"{verb} {write.path} by {process}"):
            response = self._call(process, write.request)
            before = self._texts
            self._texts = self._on_disk()
            self._assert_done(write, response, before)

    def _assert_done(self, write: Write, response: Response, before: Texts) -> None:
        """Raise AssertionError if a write is not acknowledged, or not refused, as it has to be."""
        if len(write.shapes) == 1:
            assert response.get("error") == "MemoryExistsError", f"{write.request}: {response}"
            assert self._texts == before, f"{write.request} was refused, and changed something"
            return
        assert response.get("paths", [])[-1:] == [write.new], f"{write.request}: {response}, after {self._tally.last}"
        assert shape(self._texts) == write.shapes[-1], f"{write.request}: not so, after {self._tally.last}"
        self._compare(before, write)
        self._acknowledge(write, before)

    def _compare(self, before: Texts, write: Write) -> None:
        """Raise AssertionError if a write changed a file that it does not concern."""
        for path, text in self._texts.items():
            if path in before and path != write.path:
                assert text == before[path], f"{write.request} changed {path}"
        if write.exact and write.new in self._texts and write.path not in self._texts:
            assert self._texts[write.new] == before[write.path], f"{write.request}: the text changed"

    def _acknowledge(self, write: Write, before: Texts) -> None:
        self._tally.acknowledged += 1
        if write.request["do"] == "remove":
            gone = self._kept.pop(write.path, set()) | marks(before[write.path])
            self._kept = defaultdict(set, {path: kept - gone for path, kept in self._kept.items()})
            return
        if write.exact:
            self._kept[write.new] |= self._kept.pop(write.path, set())
            self._maybe_moved |= {write.new} if write.path in self._maybe_moved else set()
            return
        for path in self._texts.keys() - before.keys() | {write.new}:
            self._kept[path] |= marks(self._texts[path])
        self._kept[write.new] |= marks(before.get(write.path, ""))

    def _writing(self, verb: str, pick: int) -> Write | None:
        """Return a write with the shapes it leads to; one that has to be refused has only the present shape."""
        before = shape(self._texts)
        if verb in {"add", "add_many"}:
            return self._adding(before, self._place(pick), 1 if verb == "add" else 2 + pick % 4)
        path = self._path(pick, live=verb == "forget")
        if not path:
            return None
        mark = self._word() if verb in self.rewriting else ""
        if verb == "update_key":
            mark = mark.replace("word", "key")
            rest = frozenset(one for one in before[path] if not one.startswith("key"))
            request: Request = {"do": "update", "arguments": [path], "keys": {"last": mark}}
            return Write(request, [before, {**before, path: rest | {mark}}], path, path)
        if verb == "update_body":
            head, line, _ = self._texts[path].partition("\n---\n")
            keys = marks(head) if line and head.startswith("---\n") else frozenset()
            request = {"do": "update", "arguments": [path], "keys": {"body": f"Now {mark} is all there is.\n"}}
            return Write(request, [before, {**before, path: keys | {mark}}], path, path)
        if verb == "append":
            request = {"do": "append", "arguments": [path, f"And there is {mark}."]}
            return Write(request, [before, {**before, path: before[path] | {mark}}], path, path)
        return self._taking(verb, before, path, pick)

    def _adding(self, before: Shape, place: str, number: int) -> Write:
        shapes, items = [before], list[Request]()
        for _ in range(number):
            word = self._word()
            new = f"{place}/note-{self._number}.md"
            shapes.append({**shapes[-1], new: frozenset({word})})
            items.append({"text": f"Here is {word}.", "namespace": f"/{place}", "title": f"note {self._number}"})
        request: Request = {"do": "add_many", "arguments": [items]} if number > 1 else {"do": "add", "keys": items[0]}
        return Write(request, shapes, new, new)

    def _taking(self, verb: str, before: Shape, path: str, pick: int) -> Write:
        rest = {other: said for other, said in before.items() if other != path}
        if verb == "remove":
            return Write({"do": "remove", "arguments": [path]}, [before, rest], path, path)
        name = path.rpartition("/")[2]
        if verb == "forget":
            names = (f"{path[:-3]}{number}.md" for number in ["", *[f"-{number}" for number in range(2, 100)]])
            new = next(f"archive/{name}" for name in names if f"archive/{name}" not in before)
            shapes = [before, {**rest, new: before[path]}]
            return Write({"do": "forget", "arguments": [path]}, shapes, path, new, exact=True)
        places = [place for place in NAMESPACES if f"{place}/{name}" != path]
        place = places[pick % len(places)]
        new = f"{place}/{name}"
        shapes = [before] if new in before else [before, {**rest, new: before[path]}]
        return Write({"do": "move", "arguments": [path, f"/{place}"]}, shapes, path, new, exact=True)

    @rule(process=any_process, pick=picks, is_gone=st.booleans())
    def restore(self, process: str, pick: int, is_gone: bool) -> None:
        """Restore an overwritten or removed memory."""
        gone = sorted(self._kept.keys() - self._texts.keys())
        path = gone[pick % len(gone)] if is_gone and gone else self._path(pick)
        if not path:
            return
        with self._step(f"restore {path} by {process}"):
            response = self._call(process, {"do": "restore", "arguments": [path]})
            before = self._texts
            self._texts = self._on_disk()
            others = {other: text for other, text in self._texts.items() if other != path}
            assert others == {other: text for other, text in before.items() if other != path}
            if "error" in response:
                assert response["error"] in {"MemoryNotFoundError", "VersionNotFoundError"}, response
                is_kept = path not in before and self._kept[path] and path not in self._maybe_moved
                assert not is_kept, f"{path}: {response}, after {self._tally.last}"
                assert self._texts == before
                return
            assert self._texts[path] != before.get(path), f"{path} is as it was, after {self._tally.last}"
            self._kept[path] |= marks(before.get(path, ""))
            self._tally.acknowledged += 1

    @rule(pick=picks, is_append=st.booleans())
    def both(self, pick: int, is_append: bool) -> None:
        """Let two processes write at the same time."""
        path = self._path(pick) if is_append else ""
        place = self._place(pick)
        with self._step(f"both {'append to ' + path if path else 'add to ' + place}"):
            before = self._texts
            expected, new = shape(before), list[str]()
            for other in (self._others["one"], self._others["two"]):
                word = self._word()
                if path:
                    other.send({"do": "append", "arguments": [path, f"And there is {word}."]})
                    expected[path] |= {word}
                else:
                    item = {"text": f"Here is {word}.", "namespace": f"/{place}", "title": f"note {self._number}"}
                    other.send({"do": "add", "keys": item})
                    new.append(f"{place}/note-{self._number}.md")
                    expected[new[-1]] = frozenset({word})
            responses = [self._others[name].receive() for name in ("one", "two")]
            assert all(response and "paths" in response for response in responses), responses
            self._texts = self._on_disk()
            assert shape(self._texts) == expected, f"one of two writes at once is not there: {responses}"
            self._tally.acknowledged += 2
            for other_path in [path] if path else new:
                self._kept[other_path] |= expected[other_path]

    @rule(names=st.permutations(["one", "two"]), verb=st.sampled_from(taking), pick=picks)
    def in_a_row(self, names: list[str], verb: str, pick: int) -> None:
        """Let one process add, and another remove, before any process has searched."""
        if not self._path(pick, live=True):
            return
        with self._step(f"{names[0]} adds, then {names[1]} does {verb} with {pick}"):
            for name, act in zip(names, ("add", verb), strict=True):
                write, before = self._writing(act, pick), self._texts
                assert write
                response = self._call(name, write.request)
                self._texts = self._on_disk()
                self._assert_done(write, response, before)

    # --- kills

    @rule(
        process=st.sampled_from(["one", "two"]),
        verb=st.sampled_from(["add", "add_many", *rewriting, *taking, *tidying]),
        pick=picks,
        calls=st.integers(0, 120),  # about as many as a write makes
    )
    def kill(self, process: str, verb: str, pick: int, calls: int) -> None:
        """Kill a process with SIGKILL in the middle of a write, and start another in its place."""
        before = shape(self._texts)
        write = self._writing(verb, pick) if verb not in self.tidying else Write({"do": verb}, [before], "", "")
        if not write:
            return
        with self._by_hand(f"kill {process} in its call {calls} of {verb} {write.path}"):
            other, texts = self._others[process], self._texts
            response = other.call({**write.request, "die": calls})
            self._texts = self._on_disk()
            if response is None:
                self._tally.kills += 1
                assert shape(self._texts) in write.shapes, f"{write.request}: a killed process left it half done"
                if write.new in self._texts and write.exact and write.path not in self._texts:
                    self._kept[write.new] |= self._kept[write.path]
                    self._maybe_moved |= {write.path, write.new}
                if verb == "remove" and write.path not in self._texts:
                    self._acknowledge(write, texts)
            elif verb not in self.tidying:
                self._assert_done(write, response, texts)
            self._compare(texts, write)
            other.drop()
            self._start(process, watch=other.is_watching)

    # --- changes by other programs

    @rule(how=st.sampled_from(["in place", "by rename", "sed", "new", "delete"]), pick=picks)
    def save(self, how: str, pick: int) -> None:
        """Save as editors do."""
        path = self._path(pick) if how != "new" else f"{self._place(pick)}/hand-{self._number}.md"
        if not path:
            return
        file = self._root / path
        with self._by_hand(f"save {path} {how}"):
            text = f"Saved is {self._word()}.\n"
            file.parent.mkdir(parents=True, exist_ok=True)
            if how == "by rename":
                file.with_name(".save").write_text(self._texts[path] + text, encoding="utf-8")
                file.with_name(".save").replace(file)
            elif how == "sed":
                subprocess.run(["sed", "-i", rf"s/word[0-9]\+/word{self._number}/g", str(file)], check=True)
            elif how == "delete":
                file.unlink()
            else:
                file.write_text(text, encoding="utf-8")

    @rule(what=st.sampled_from(["commit", "checkout", "stash", "pop", "reset", "mv", "amend"]), pick=picks)
    def git(self, what: str, pick: int) -> None:
        """Run a git command; a failing one may leave the files in any state."""
        with self._by_hand(f"git {what}"):
            if what in {"commit", "amend"}:
                self._git("add", "-A")
                self._git("commit", "-qm", f"step {self._number}", *["--amend"] * (what == "amend"))
            elif what == "checkout":
                self._git("checkout", "-qf", ("main", "other")[pick % 2])
            elif what == "stash":
                self._git("stash", "-u", "-q")
            elif what == "pop" and not self._git("stash", "pop", "-q"):
                self._git("reset", "-q", "--hard")
            elif what == "reset":
                self._git("reset", "-q", "--hard", *["HEAD~1"] * (pick % 2))
            elif what == "mv" and (path := self._path(pick)):
                self._git("mv", path, f"{self._place(pick)}/moved-{self._number}.md")
                self._word()

    @rule(what=st.sampled_from(["rename", "out", "in", "delete"]), pick=picks)
    def directory(self, what: str, pick: int) -> None:
        """Move namespaces within the vault, out of it and into it, or delete them."""
        places = sorted({path.rpartition("/")[0] for path in self._texts} - {"", "archive"})
        outside = self._folder / "outside"
        outside.mkdir(exist_ok=True)
        away = sorted(outside.iterdir())
        if not (away if what == "in" else places):
            return
        self._word()
        place = self._root / places[pick % len(places)] if places else self._root
        with self._by_hand(f"directory {what} {place.name}"):
            if what == "rename":
                place.rename(self._root / f"e{self._number}")
            elif what == "out":
                place.rename(outside / f"e{self._number}")
            elif what == "in":
                (away[pick % len(away)]).rename(self._root / f"e{self._number}")
            else:
                shutil.rmtree(place)

    # --- the state directory, and the processes

    @rule(what=st.sampled_from(["index", "empty", "flip", "unlink", "current", "journal", "state"]), pick=picks)
    def damage(self, what: str, pick: int) -> None:
        """Damage the state directory; no file is truncated in place, as that kills processes that have it mapped."""
        state = self._root / ".memfs"
        with self._step(f"damage {what}"):
            files = sorted(
                (path for path in state.glob("index/g-*/*") if path.is_file()), key=lambda path: path.name[::-1]
            )
            file = files[pick % len(files)] if files else state / "index/current"
            if what in {"index", "state"}:
                shutil.rmtree(state / "index" if what == "index" else state, ignore_errors=True)
            elif what in {"journal", "current", "unlink"}:
                gone = {"journal": state / "journal", "current": state / "index/current", "unlink": file}[what]
                gone.unlink(missing_ok=True)
            elif file.exists():
                data = bytearray(file.read_bytes() if what == "flip" else b"")
                if data:
                    data[len(data) * pick // 100] ^= 0xFF
                other = file.with_name("damaged")
                other.write_bytes(data)
                other.replace(file)

    @rule(process=any_process, what=st.sampled_from(tidying))
    def tidy(self, process: str, what: str) -> None:
        with self._step(f"{what} by {process}"):
            assert "error" not in self._call(process, {"do": what})

    @rule(process=st.sampled_from(["one", "two"]), watch=st.booleans())
    def restart(self, process: str, watch: bool) -> None:
        with self._step(f"restart {process}{', watching' * watch}"):
            self._others[process].leave()
            self._start(process, watch=watch)


def _words_that_moved(before: Shape, after: Shape) -> list[str]:
    """Return the words of changed files; present ones first, as a search for others would detect the changes."""
    none = frozenset[str]()
    paths = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    moved = [before.get(path, none) | after.get(path, none) for path in paths]
    there = none.union(*after.values())
    words = [mark for mark in none.union(*moved) if mark.startswith("word")]
    return sorted(words, key=lambda word: (word not in there, word))


def _mistakes_of(response: Response, expected_hits: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return what a response has too many, lacks, or has with an old text."""
    if "error" in response:
        return [response["text"]]
    compared = [(f"{word!r} finds", response["found"][word], expected_hits[word]) for word in expected_hits]
    wrong = []
    for what, seen, expected in [*compared, ("a list has", response["list"], expected_hits[""])]:
        for path in sorted(seen.keys() | expected.keys()):
            if path not in seen:
                wrong.append(f"{what} no {path}")
            elif seen[path] != expected.get(path):
                wrong.append(f"{what} {path}, {'in an old text' if path in expected else 'which is wrong'}")
    return wrong


def walk(folder: Path, sequences: int, steps: int, *, tally: Tally, start: int = 0, plant: str = "") -> None:
    """Walk so many sequences. Raise AssertionError, with the shortest failing one found, if anything disagrees."""
    chosen = settings(
        max_examples=sequences,
        stateful_step_count=steps,
        phases=[Phase.generate, *[Phase.shrink] * (not plant)],
        report_multiple_bugs=False,
        derandomize=False,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    with WorkerPool(folder) as pool:
        run_state_machine_as_test(cast(Any, seed(start)(lambda: Walk(pool, tally, plant))), settings=chosen)
