"""A walk of random steps through a vault that several processes have open, and a model of what must be there.

A step is a write of ours by any process, a save of an editor, a command of git, a directory that is moved, a kill or
damage of what is derived. After each one the model, the files, and what every process lists and finds agree.
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
from torture.support import Crew, history

from memfs import MemfsError, Vault
from memfs.data_types import Written
from memfs.freshness.inotify_source import InotifySource
from memfs.search.search import Searcher
from memfs.storage.change_journal import ChangeJournal
from memfs.storage.versions import Versions
from support.searching import LIMIT, PACE, PAGE

SOON = 3.0  # seconds within which one who is told by a watcher must know; `make torture` prints how long it took
FIRST = 24  # memories of a new vault
SAMPLE = 3  # words that a step did not touch, and that are looked for after it all the same
NAMESPACES = ("a", "b", "b/c", "d")
PROCESSES = ("here", "one", "two", "once")  # this one, two that live on, and a new one for each order
GIT = ("git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "gc.auto=0", "-c", "core.fsync=none")
Order = dict[str, Any]
Answer = dict[str, Any]
Texts = dict[str, str]  # by path
Shape = dict[str, frozenset[str]]  # the marks of the text of each path
_MARK = re.compile(r"\b(?:word|key)\d+\b")


def marks(text: str) -> frozenset[str]:
    """What a text says that no other one was written with: words to search for, and values of a key."""
    return frozenset(_MARK.findall(text))


def shape(texts: Texts) -> Shape:
    return {path: marks(text) for path, text in texts.items()}


def is_archived(path: str) -> bool:
    return path.startswith("archive/")


def code(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


# --- processes


def obey(vault: Vault, order: Order) -> Answer:
    """Do what an order says; what a vault refuses is an answer too."""
    try:
        if order["do"] == "look":
            return look(vault, order["words"])
        if order["do"] == "doctor":
            return {"problems": [f"{one}" for one in vault.doctor(repair=False)]}
        done = getattr(vault, order["do"])(*order.get("arguments", ()), **order.get("keys", {}))
    except MemfsError as error:
        return {"error": type(error).__name__, "text": str(error)}
    written = done if isinstance(done, list) else [done] if isinstance(done, Written) else []
    return {"paths": [one.path if isinstance(one, Written) else str(one) for one in written]}


def look(vault: Vault, words: Iterable[str]) -> Answer:
    """What a vault finds and lists."""
    found: dict[str, dict[str, str]] = {}
    for word in words:
        hits = vault.search(word, limit=PAGE)
        found[word] = {hit.memory.path: code(hit.memory.data) for hit in hits}
        if len(found[word]) != len(hits):
            found[word]["a path twice"] = ""
    listed = {memory.path: code(memory.data) for memory in vault.list()}
    return {"found": found, "list": listed}


def serve(root: str, address: str, watch: bool, plant: str) -> None:
    """A process of the walk: open a vault, and obey orders until there are no more."""
    PLANTS[plant]()
    with Vault(root, watch=watch) as vault, socket.socket(socket.AF_UNIX) as line:
        line.connect("\0" + address)
        with line.makefile("rw", encoding="utf-8") as talk:
            for text in talk:
                order = json.loads(text)
                try:
                    sys.setprofile(dying(order["die"]) if "die" in order else None)
                    answer = obey(vault, order)
                    sys.setprofile(None)
                except BaseException:
                    sys.setprofile(None)
                    answer = {"crash": traceback.format_exc()}
                print(json.dumps(answer), file=talk, flush=True)


def dying(calls: int) -> Callable[[FrameType, str, object], None]:
    """A profiler that has this process killed with -9, as it is about to call the system once more."""
    number = 0

    def see(_: FrameType, event: str, called: object) -> None:
        nonlocal number
        if event == "c_call" and getattr(called, "__module__", "") in {"posix", "fcntl"}:
            number += 1
            if number > calls:
                os.kill(os.getpid(), signal.SIGKILL)

    return see


def lose_the_journal() -> None:
    """Nobody is told of a write."""
    ChangeJournal.append = lambda self, root, paths: True  # type: ignore[method-assign]


def keep_no_versions() -> None:
    """What is overwritten is gone."""
    Versions.keep = lambda self, root, path, data: None  # type: ignore[method-assign]


def hear_nothing() -> None:
    """The kernel tells of changes, and nobody listens."""
    poll = InotifySource.poll
    nothing = {"paths": set[str](), "folders": set[str](), "is_incomplete": False}
    InotifySource.poll = lambda self, **known: poll(self, **known)._replace(**nothing)  # type: ignore


def answer_from_a_cache() -> None:
    """A question is answered as it was before."""
    search, known = Searcher.search, dict[str, Any]()

    def cached(self: Searcher, text: str, *arguments: Any, **options: Any) -> Any:
        if text not in known:
            known[text] = search(self, text, *arguments, **options)
        return known[text]

    Searcher.search = cached  # type: ignore[method-assign]


PLANTS: Mapping[str, Callable[[], None]] = {
    "": lambda: None,
    "the journal is not written": lose_the_journal,
    "versions are not kept": keep_no_versions,
    "the kernel is not heard": hear_nothing,
    "answers are cached": answer_from_a_cache,
}


class Other:
    """Another process that has the vault open."""

    _number = count()

    def __init__(self, crew: Crew, root: Path, *, watch: bool, plant: str) -> None:
        self.is_watching = watch
        address = f"memfs-walk-{os.getpid()}-{next(self._number)}"
        with socket.socket(socket.AF_UNIX) as door:
            door.bind("\0" + address)
            door.listen()
            door.settimeout(LIMIT)
            self._worker = crew.start(serve, str(root), address, watch, plant)
            self._line, _ = door.accept()
        self._line.settimeout(LIMIT)
        self._talk = self._line.makefile("rw", encoding="utf-8")

    def tell(self, order: Order) -> None:
        print(json.dumps(order), file=self._talk, flush=True)

    def hear(self) -> Answer | None:
        """The answer; None if the process died."""
        try:
            text = self._talk.readline()
        except ConnectionResetError:
            text = ""
        answer: Answer | None = json.loads(text) if text else None
        assert answer is None or "crash" not in answer, answer
        return answer

    def ask(self, order: Order) -> Answer | None:
        self.tell(order)
        return self.hear()

    def leave(self) -> None:
        """Have it close its vault and end; AssertionError if it does not."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)
        assert self._worker.ended(LIMIT), "a process does not end"
        self.drop()

    def drop(self) -> None:
        """End it, whatever it does."""
        with suppress(OSError):
            self._talk.close()
        self._line.close()
        self._worker.close()


# --- the walk


class Tally:
    """What was done in all walks together."""

    def __init__(self) -> None:
        self.sequences = self.steps = self.looks = self.kills = self.acknowledged = 0
        self.slowest = 0.0
        self.last: list[str] = []


class Write(NamedTuple):
    """A write of ours: the order, the shapes that a vault goes through, and what it concerns."""

    order: Order
    shapes: list[Shape]
    path: str
    new: str  # the path afterwards
    exact: bool = False  # whether the text comes to its new path as it is


class Walk(RuleBasedStateMachine):
    """One vault in a git repository, processes that use it, and what must be in it."""

    def __init__(self, crew: Crew, tally: Tally, plant: str = "") -> None:
        super().__init__()
        self._crew, self._tally, self._plant = crew, tally, plant
        self._folder = Path(tempfile.mkdtemp(prefix="memfs-walk-"))
        self._root = self._folder / "vault"
        self._others: dict[str, Other] = {}
        self._here: Vault | None = None
        self._texts: Texts = {}
        self._kept: dict[str, set[str]] = defaultdict(set)  # path -> marks that were acknowledged there
        self._astray: set[str] = set()  # paths whose versions a process that was killed did not move, or did
        self._number = 0
        self._asked: list[str] = []  # words that the next look is to find, or not to find
        self._is_told = True  # whether everybody must know of the last step at once
        self._is_due = False
        self._is_wrong = False
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
            if self._here and not self._is_wrong:
                self._end()
        finally:
            for other in self._others.values():
                other.drop()
            if self._here:
                self._here.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        """All words are found as they should, the doctor is content, and every acknowledged text is kept."""
        self._asked = [f"word{number}" for number in range(1, self._number + 1)]
        self._look_around()
        problems = self._ask("once", {"do": "doctor"})["problems"]
        assert problems == [], f"the doctor says {problems}, after {self._tally.last}"
        lost = set().union(*self._kept.values()) - marks(history(self._root).decode(errors="replace"))
        assert not lost, f"{sorted(lost)} were acknowledged and are not kept, after {self._tally.last}"

    # --- what is compared

    @invariant()
    def all_agree(self) -> None:
        if self._is_due:
            self._is_due = False
            try:
                self._look_around()
            except BaseException:
                self._is_wrong = True
                raise

    def _look_around(self) -> None:
        """AssertionError if anybody lists or finds anything but what the model says. One looks before the rest."""
        assert self._on_disk() == self._texts, f"the files differ from the model, after {self._tally.last}"
        first = PROCESSES[len(self._tally.last) % len(PROCESSES)]
        is_patient = not self._is_told and self._is_watched()
        for group in ([first], [who for who in PROCESSES if who != first]):
            began, wrong = time.monotonic(), self._mistakes(group)
            while wrong and is_patient and time.monotonic() - began < SOON:
                time.sleep(PACE)
                wrong = self._mistakes([who for who in group if who in wrong])
            assert not wrong, f"{wrong}, after {self._tally.last}"
            self._tally.slowest = max(self._tally.slowest, time.monotonic() - began)
        self._asked = []

    def _mistakes(self, group: Sequence[str]) -> dict[str, list[str]]:
        """What each of some processes is wrong about, as they look at once."""
        self._tally.looks += len(group)
        live = {path: text for path, text in self._texts.items() if not is_archived(path)}
        words = sorted(mark for text in live.values() for mark in marks(text) if mark.startswith("word"))
        asked = list(dict.fromkeys([*self._asked, *words[:: FIRST // 2][:SAMPLE]]))
        codes = {path: code(text.encode()) for path, text in live.items()}
        having = {word: {path: codes[path] for path, text in live.items() if word in marks(text)} for word in asked}
        answers = self._ask_all(group, {"do": "look", "words": [*asked, ""]})
        wrong = {who: _mistakes_of(answer, {**having, "": codes}) for who, answer in answers.items()}
        return {who: mistakes[:4] for who, mistakes in wrong.items() if mistakes}

    def _on_disk(self) -> Texts:
        found: Texts = {}
        for folder, folders, names in os.walk(self._root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in names:
                if name.endswith(".md"):
                    path = Path(folder, name)
                    found[path.relative_to(self._root).as_posix()] = path.read_bytes().decode()
        return found

    # --- what a step is made of

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        """One step, after which everybody is to look for the words that it brought, moved or took away."""
        self._tally.steps += 1
        self._tally.last.append(what)
        self._is_told, self._is_wrong = True, True
        before = shape(self._texts)
        yield
        self._asked = _words_that_moved(before, shape(self._texts))
        self._is_wrong, self._is_due = False, True

    @contextmanager
    def _by_hand(self, what: str) -> Iterator[None]:
        """A step that is not ours: the files are what it makes of them."""
        with self._step(what):
            self._is_told = False
            yield
            self._texts = self._on_disk()

    def _is_watched(self) -> bool:
        return any(other.is_watching for other in self._others.values())

    def _start(self, name: str, *, watch: bool) -> None:
        self._others[name] = Other(self._crew, self._root, watch=watch, plant=self._plant)

    def _ask(self, who: str, order: Order) -> Answer:
        """The answer of a process to an order that nobody dies of."""
        return self._ask_all([who], order)[who]

    def _ask_all(self, group: Collection[str], order: Order) -> dict[str, Answer]:
        """The answers of some processes to one order, which they get at once."""
        if "once" in group:
            self._start("once", watch=False)
        answers: dict[str, Answer | None] = {}
        others = {who: self._others[who] for who in group if who != "here"}
        for other in others.values():
            other.tell(order)
        if "here" in group:
            assert self._here
            answers["here"] = obey(self._here, order)
        answers |= {who: other.hear() for who, other in others.items()}
        if "once" in group:
            self._others.pop("once").leave()
        assert None not in answers.values(), f"one died: {answers}, after {self._tally.last}"
        return {who: answer for who, answer in answers.items() if answer is not None}

    def _word(self) -> str:
        self._number += 1
        return f"word{self._number}"

    def _place(self, pick: int) -> str:
        return NAMESPACES[pick % len(NAMESPACES)]

    def _path(self, pick: int, *, live: bool = False) -> str:
        """Some memory; nothing if there is none."""
        paths = sorted(path for path in self._texts if not (live and is_archived(path)))
        return paths[pick % len(paths)] if paths else ""

    def _git(self, *arguments: str) -> bool:
        done = subprocess.run([*GIT, *arguments], cwd=self._root, capture_output=True, check=False, timeout=LIMIT)
        return not done.returncode

    # --- our writes

    picks = st.integers(0, 99)
    anybody = st.sampled_from(PROCESSES)
    rewriting = ("update_key", "update_body", "append")
    taking = ("forget", "move", "remove")
    tidying = ("sync", "close")

    @rule(who=anybody, pick=picks)
    def add(self, who: str, pick: int) -> None:
        self._write(who, "add", pick)

    @rule(who=anybody, pick=picks)
    def add_many(self, who: str, pick: int) -> None:
        self._write(who, "add_many", pick)

    @rule(who=anybody, verb=st.sampled_from(rewriting), pick=picks)
    def rewrite(self, who: str, verb: str, pick: int) -> None:
        self._write(who, verb, pick)

    @rule(who=anybody, verb=st.sampled_from(taking), pick=picks)
    def take_away(self, who: str, verb: str, pick: int) -> None:
        self._write(who, verb, pick)

    def _write(self, who: str, verb: str, pick: int) -> None:
        """A write, which must be acknowledged, or refused where it has to be."""
        write = self._writing(verb, pick)
        if not write:
            return
        with self._step(f"{verb} {write.path} by {who}"):
            answer = self._ask(who, write.order)
            before = self._texts
            self._texts = self._on_disk()
            self._assert_done(write, answer, before)

    def _assert_done(self, write: Write, answer: Answer, before: Texts) -> None:
        """AssertionError if a write is not acknowledged, or refused, as it has to be."""
        if len(write.shapes) == 1:
            assert answer.get("error") == "MemoryExistsError", f"{write.order}: {answer}"
            assert self._texts == before, f"{write.order} was refused, and changed something"
            return
        assert answer.get("paths", [])[-1:] == [write.new], f"{write.order}: {answer}, after {self._tally.last}"
        assert shape(self._texts) == write.shapes[-1], f"{write.order}: not so, after {self._tally.last}"
        self._compare(before, write)
        self._acknowledge(write, before)

    def _compare(self, before: Texts, write: Write) -> None:
        """AssertionError if a write changed a file that it does not concern."""
        for path, text in self._texts.items():
            if path in before and path != write.path:
                assert text == before[path], f"{write.order} changed {path}"
        if write.exact and write.new in self._texts and write.path not in self._texts:
            assert self._texts[write.new] == before[write.path], f"{write.order}: the text changed"

    def _acknowledge(self, write: Write, before: Texts) -> None:
        self._tally.acknowledged += 1
        if write.order["do"] == "remove":
            gone = self._kept.pop(write.path, set()) | marks(before[write.path])
            self._kept = defaultdict(set, {path: kept - gone for path, kept in self._kept.items()})
            return
        if write.exact:
            self._kept[write.new] |= self._kept.pop(write.path, set())
            self._astray |= {write.new} if write.path in self._astray else set()
            return
        for path in self._texts.keys() - before.keys() | {write.new}:
            self._kept[path] |= marks(self._texts[path])
        self._kept[write.new] |= marks(before.get(write.path, ""))

    def _writing(self, verb: str, pick: int) -> Write | None:
        """What a write is, and what becomes of it; one that has to be refused leaves the vault in one shape."""
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
            order: Order = {"do": "update", "arguments": [path], "keys": {"last": mark}}
            return Write(order, [before, {**before, path: rest | {mark}}], path, path)
        if verb == "update_body":
            head, line, _ = self._texts[path].partition("\n---\n")
            keys = marks(head) if line and head.startswith("---\n") else frozenset()
            order = {"do": "update", "arguments": [path], "keys": {"body": f"Now {mark} is all there is.\n"}}
            return Write(order, [before, {**before, path: keys | {mark}}], path, path)
        if verb == "append":
            order = {"do": "append", "arguments": [path, f"And there is {mark}."]}
            return Write(order, [before, {**before, path: before[path] | {mark}}], path, path)
        return self._taking(verb, before, path, pick)

    def _adding(self, before: Shape, place: str, number: int) -> Write:
        shapes, items = [before], list[Order]()
        for _ in range(number):
            word = self._word()
            new = f"{place}/note-{self._number}.md"
            shapes.append({**shapes[-1], new: frozenset({word})})
            items.append({"text": f"Here is {word}.", "namespace": f"/{place}", "title": f"note {self._number}"})
        order: Order = {"do": "add_many", "arguments": [items]} if number > 1 else {"do": "add", "keys": items[0]}
        return Write(order, shapes, new, new)

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

    @rule(who=anybody, pick=picks, is_gone=st.booleans())
    def restore(self, who: str, pick: int, is_gone: bool) -> None:
        """Bring back what somebody overwrote or took away."""
        gone = sorted(self._kept.keys() - self._texts.keys())
        path = gone[pick % len(gone)] if is_gone and gone else self._path(pick)
        if not path:
            return
        with self._step(f"restore {path} by {who}"):
            answer = self._ask(who, {"do": "restore", "arguments": [path]})
            before = self._texts
            self._texts = self._on_disk()
            others = {other: text for other, text in self._texts.items() if other != path}
            assert others == {other: text for other, text in before.items() if other != path}
            if "error" in answer:
                assert answer["error"] in {"MemoryNotFoundError", "VersionNotFoundError"}, answer
                is_kept = path not in before and self._kept[path] and path not in self._astray
                assert not is_kept, f"{path}: {answer}, after {self._tally.last}"
                assert self._texts == before
                return
            assert self._texts[path] != before.get(path), f"{path} is as it was, after {self._tally.last}"
            self._kept[path] |= marks(before.get(path, ""))
            self._tally.acknowledged += 1

    @rule(pick=picks, is_append=st.booleans())
    def both(self, pick: int, is_append: bool) -> None:
        """Two processes write at once."""
        path = self._path(pick) if is_append else ""
        place = self._place(pick)
        with self._step(f"both {'append to ' + path if path else 'add to ' + place}"):
            before = self._texts
            expected, new = shape(before), list[str]()
            for other in (self._others["one"], self._others["two"]):
                word = self._word()
                if path:
                    other.tell({"do": "append", "arguments": [path, f"And there is {word}."]})
                    expected[path] |= {word}
                else:
                    item = {"text": f"Here is {word}.", "namespace": f"/{place}", "title": f"note {self._number}"}
                    other.tell({"do": "add", "keys": item})
                    new.append(f"{place}/note-{self._number}.md")
                    expected[new[-1]] = frozenset({word})
            answers = [self._others[name].hear() for name in ("one", "two")]
            assert all(answer and "paths" in answer for answer in answers), answers
            self._texts = self._on_disk()
            assert shape(self._texts) == expected, f"one of two writes at once is not there: {answers}"
            self._tally.acknowledged += 2
            for other_path in [path] if path else new:
                self._kept[other_path] |= expected[other_path]

    @rule(names=st.permutations(["one", "two"]), verb=st.sampled_from(taking), pick=picks)
    def in_a_row(self, names: list[str], verb: str, pick: int) -> None:
        """One adds, and another takes something away before anybody has looked."""
        if not self._path(pick, live=True):
            return
        with self._step(f"{names[0]} adds, then {names[1]} does {verb} with {pick}"):
            for name, act in zip(names, ("add", verb), strict=True):
                write, before = self._writing(act, pick), self._texts
                assert write
                answer = self._ask(name, write.order)
                self._texts = self._on_disk()
                self._assert_done(write, answer, before)

    # --- kills

    @rule(
        who=st.sampled_from(["one", "two"]),
        verb=st.sampled_from(["add", "add_many", *rewriting, *taking, *tidying]),
        pick=picks,
        calls=st.integers(0, 120),  # about as many as a write makes
    )
    def kill(self, who: str, verb: str, pick: int, calls: int) -> None:
        """kill -9 in the middle of a write, and another process in its place."""
        before = shape(self._texts)
        write = self._writing(verb, pick) if verb not in self.tidying else Write({"do": verb}, [before], "", "")
        if not write:
            return
        with self._by_hand(f"kill {who} in its call {calls} of {verb} {write.path}"):
            other, texts = self._others[who], self._texts
            answer = other.ask({**write.order, "die": calls})
            self._texts = self._on_disk()
            if answer is None:
                self._tally.kills += 1
                assert shape(self._texts) in write.shapes, f"{write.order}: a killed process left it half done"
                if write.new in self._texts and write.exact and write.path not in self._texts:
                    self._kept[write.new] |= self._kept[write.path]
                    self._astray |= {write.path, write.new}
                if verb == "remove" and write.path not in self._texts:
                    self._acknowledge(write, texts)
            elif verb not in self.tidying:
                self._assert_done(write, answer, texts)
            self._compare(texts, write)
            other.drop()
            self._start(who, watch=other.is_watching)

    # --- others who change the files

    @rule(how=st.sampled_from(["in place", "by rename", "sed", "new", "delete"]), pick=picks)
    def save(self, how: str, pick: int) -> None:
        """What editors do."""
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
        """What people do with git; one that fails leaves the files as it likes."""
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
        """Namespaces are moved, out of the vault and into it."""
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

    # --- what is derived, and who has it open

    @rule(what=st.sampled_from(["index", "empty", "flip", "unlink", "current", "journal", "state"]), pick=picks)
    def damage(self, what: str, pick: int) -> None:
        """What is derived is damaged; a file is never shortened in place, as that kills who has it mapped."""
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

    @rule(who=anybody, what=st.sampled_from(tidying))
    def tidy(self, who: str, what: str) -> None:
        with self._step(f"{what} by {who}"):
            assert "error" not in self._ask(who, {"do": what})

    @rule(who=st.sampled_from(["one", "two"]), watch=st.booleans())
    def restart(self, who: str, watch: bool) -> None:
        with self._step(f"restart {who}{', watching' * watch}"):
            self._others[who].leave()
            self._start(who, watch=watch)


def _words_that_moved(before: Shape, after: Shape) -> list[str]:
    """The words of files that are not as they were; those that are there first, as others would show what changed."""
    none = frozenset[str]()
    paths = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    moved = [before.get(path, none) | after.get(path, none) for path in paths]
    there = none.union(*after.values())
    words = [mark for mark in none.union(*moved) if mark.startswith("word")]
    return sorted(words, key=lambda word: (word not in there, word))


def _mistakes_of(answer: Answer, having: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What an answer has and should not, has not and should, or has in an old text."""
    if "error" in answer:
        return [answer["text"]]
    compared = [(f"{word!r} finds", answer["found"][word], having[word]) for word in having]
    wrong = []
    for what, seen, expected in [*compared, ("a list has", answer["list"], having[""])]:
        for path in sorted(seen.keys() | expected.keys()):
            if path not in seen:
                wrong.append(f"{what} no {path}")
            elif seen[path] != expected.get(path):
                wrong.append(f"{what} {path}, {'in an old text' if path in expected else 'which is not so'}")
    return wrong


def walk(folder: Path, sequences: int, steps: int, *, tally: Tally, start: int = 0, plant: str = "") -> None:
    """Walk so many sequences; AssertionError, with the shortest one that was found, where anything disagrees."""
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
    with Crew(folder) as crew:
        run_state_machine_as_test(cast(Any, seed(start)(lambda: Walk(crew, tally, plant))), settings=chosen)
