"""Meaning: which memories mean what a question asks, whatever their words are."""

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from memfs.data_types import Memory
from memfs.freshness.freshness import Freshness
from memfs.fs.files import raw_digest
from memfs.index.document_builder import embedding_text
from memfs.index.publisher import Progress
from memfs.index.tantivy_index import TantivyIndex
from memfs.index.unpublished_changes import UnpublishedChanges
from memfs.protocols import Embedder
from memfs.query.bm25 import idf
from memfs.query.question import Question, Weights
from memfs.query.tokens import MAX_QUESTION_CHARS
from memfs.search.conversation.rerank import ALIKE, BESIDE, Witness
from memfs.search.semantic.nearest_vectors import NearestVectors, blended, cosines_of, living, units_of
from memfs.search.semantic.vector_file import Floats, VectorFile, array_of, key_of, name_of
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.stat_scan import read_all

BATCH = 500  # memories that are embedded at once
SPARE = 200  # records out of use that a file may have beyond as many as are in use
STOP = 0.3  # share of an unknown word that a word counts which search by words leaves out
SPAN = (0.0, 0.7)  # of an embedder that does not tell its own
_WORD = re.compile(r"[^\W_]+")
log = logging.getLogger("memfs")


class EmbedderFailed(Exception):  # noqa: N818  it never leaves this room: words alone are searched
    """The embedder raised something, or gave what is no vector."""


class Waiting(NamedTuple):
    """Memories that are pending, and a vector each."""

    memories: Sequence[Memory]
    vectors: Floats


class SemanticIndex:
    """The vectors of what is known of one vault's memories. Every method wants the lock of freshness held."""

    def __init__(self, tree: MemoryFiles, fresh: Freshness, load: Callable[[], Embedder]) -> None:
        self.trouble = ""
        self._files, self._fresh, self._load = tree, fresh, load
        self._made: tuple[Embedder, VectorFile] | None = None
        self._nearest: tuple[object, NearestVectors] | None = None  # with the index and the file that it is of
        self._waiting: tuple[object, Waiting] | None = None  # with the overlay that it is of

    def ask(self, question: Question, weights: Weights) -> "Meant | None":
        """What memories are compared with; nothing if the embedder fails, which is said once."""
        try:
            embedder, vectors = self._ready()
            asked = self._asked(embedder, vectors.size, question, weights)
            nearest, waiting = self._caught_up()
        except EmbedderFailed as error:
            self._note(str(error))
            return None
        self.trouble = ""
        return Meant(asked, nearest, waiting, *getattr(embedder, "span", SPAN))

    def sync(self, progress: Progress | None = None) -> None:
        """Have a vector for each memory."""
        try:
            self._caught_up(progress)
            self.trouble = ""
        except EmbedderFailed as error:
            self._note(str(error))

    def share(self, memory: Memory, question: Question, weights: Weights) -> float | None:
        """How much a memory means what a question asks, 0..1."""
        if (meant := self.ask(question, weights)) is None:
            return None
        embedder, _ = self._ready()
        units = _embedded(embedder.embed, [embedding_text(memory)])
        return meant.share(float(cosines_of(units, meant.question)[0]))

    def _note(self, trouble: str) -> None:
        """Say what is wrong with the embedder, once; it is begun anew with it."""
        if trouble != self.trouble:
            log.warning("search by meaning: %s", trouble)
        self.trouble, self._made, self._nearest, self._waiting = trouble, None, None, None

    def _ready(self) -> tuple[Embedder, VectorFile]:
        if self._made is None:
            embedder = self._load()
            size = _embedded(embedder.embed, ["a text"]).shape[1]
            self._made = embedder, VectorFile(name_of(embedder.name, size), size)
        return self._made

    def _asked(self, embedder: Embedder, size: int, question: Question, weights: Weights) -> Floats:
        """The vector of a question; rare words count more, where the embedder can be told so."""
        weigh = getattr(embedder, "embed_weighted", None)
        text = question.text[:MAX_QUESTION_CHARS].encode("utf-8", "replace").decode()
        if weigh is None:
            return _embedded(embedder.embed, [text], size).reshape(-1)
        words = _WORD.findall(text)
        unseen = idf(0, max(self._fresh.index.memory_count, len(self._fresh.unpublished)))
        found = [[term for term in self._fresh.analyzer.phrase_terms(word) if term in question.terms] for word in words]
        worths = [max((weights.by_term.get(term, unseen) for term in terms), default=STOP * unseen) for terms in found]
        return _embedded(lambda _: weigh(words, worths), [text], size).reshape(-1)

    # --- vectors of what is known

    def _caught_up(self, progress: Progress | None = None) -> tuple[NearestVectors, Waiting]:
        """The vectors of what is in the index, and of what is pending."""
        index, unpublished = self._fresh.index, self._fresh.unpublished
        _, vectors = self._ready()
        with self._files.opened() as root:
            vectors.refresh(root)
            if self._nearest is None or self._nearest[0] != (index, vectors.version):
                nearest = self._align(root, vectors, index, progress)
                self._nearest = (index, vectors.version), nearest
            if self._waiting is None or self._waiting[0] != (unpublished, unpublished.version):
                self._waiting = (unpublished, unpublished.version), self._take(root, vectors, unpublished)
        return self._nearest[1], self._waiting[1]

    def _align(self, root: int, vectors: VectorFile, index: TantivyIndex, progress: Progress | None) -> NearestVectors:
        row_table, pending = index.row_table, self._fresh.unpublished
        rows, keys = living(row_table)
        is_there = vectors.have(root, keys)
        paths = sorted(row_table.path_and_stamp(row)[0] for row in rows[~is_there].tolist())
        self._embed_files(root, vectors, [path for path in paths if path not in pending], progress)
        if vectors.records > 2 * len(keys) + SPARE:
            vectors.keep(root, keys)
            vectors.refresh(root)
        is_there = vectors.have(root, keys)
        return NearestVectors(vectors, rows[is_there], keys[is_there])

    def _embed_files(self, root: int, vectors: VectorFile, paths: Sequence[str], progress: Progress | None) -> None:
        for start in range(0, len(paths), BATCH):
            if progress:
                progress(start, len(paths))
            found = [memory for _, memory in read_all(root, paths[start : start + BATCH])]
            self._embed(root, vectors, [memory for memory in found if isinstance(memory, Memory)])
        if progress and paths:
            progress(len(paths), len(paths))

    def _take(self, root: int, vectors: VectorFile, unpublished: UnpublishedChanges) -> Waiting:
        memories = [entry.memory for entry in unpublished.entries.values() if entry.memory]
        keys = array_of([_key(memory) for memory in memories])
        has = vectors.have(root, keys).tolist()
        self._embed(root, vectors, [memory for memory, is_there in zip(memories, has, strict=True) if not is_there])
        return Waiting(memories, units_of(vectors.take(keys)))

    def _embed(self, root: int, vectors: VectorFile, memories: Sequence[Memory]) -> None:
        if memories:
            embedder, _ = self._ready()
            made = _embedded(embedder.embed, [embedding_text(memory) for memory in memories], vectors.size)
            vectors.add(root, [_key(memory) for memory in memories], made)


class Meant:
    """A question, and what to compare with it. A share is how much two texts mean the same, 0..1."""

    def __init__(self, question: Floats, nearest: NearestVectors, waiting: Waiting, low: float, high: float) -> None:
        self.question = question
        self._nearest, self._waiting, self._low, self._high = nearest, waiting, low, high
        self._least = low + ALIKE * (high - low)

    def share(self, cosine: float) -> float:
        """A cosine as a share."""
        return min(max((cosine - self._low) / (self._high - self._low), 0.0), 1.0)

    def rows(self, limit: int, among: Sequence[int] | None = None) -> list[int]:
        """The rows of an index, all or some, that mean most what is asked; none that means nothing of it."""
        return self._nearest.best(self.question, limit, self._least, among)

    def paths(self) -> list[str]:
        """The pending memories that mean what is asked, the best first."""
        cosines = cosines_of(self._waiting.vectors, self.question).tolist()
        found = sorted((-cosine, memory.path) for cosine, memory in zip(cosines, self._waiting.memories, strict=True))
        return [path for cosine, path in found if -cosine >= self._least]

    def judged(self, witnesses: Sequence[Witness]) -> list[Witness]:
        """The same, each with how much it means what is asked: by itself, and with what was said around it."""
        waiting = {memory.path: number for number, memory in enumerate(self._waiting.memories)}
        own = self._nearest.of([-1 if one.row is None else one.row for one in witnesses])
        for number, one in enumerate(witnesses):
            if one.row is None and one.path in waiting:
                own[number] = self._waiting.vectors[waiting[one.path]]
        said = {one.place: number for number, one in enumerate(witnesses) if one.place is not None}
        places = [-1 if one.place is None else one.place for one in witnesses]
        beside = [(share, [said.get(place + step, -1) for place in places]) for step, share in BESIDE.items()]
        both = blended(own, beside) if said else own
        cosines = (cosines_of(vectors, self.question).tolist() for vectors in (own, both))
        found = zip(witnesses, *cosines, strict=True)
        return [one._replace(alike=self.share(alone), meant=self.share(beside)) for one, alone, beside in found]


def _key(memory: Memory) -> int:
    return key_of(memory.path, raw_digest(memory.data))


def _embedded(embed: Callable[[list[str]], Any], texts: list[str], size: int | None = None) -> Floats:
    """Vectors of length one and of a size, of an embedder that may be anybody's."""
    try:
        vectors = units_of(embed(texts))
    except Exception as error:
        raise EmbedderFailed(f"{type(error).__name__}: {error}") from error
    rows, *sizes = vectors.shape
    if rows != len(texts) or sizes != [size or vectors.size // rows] or not vectors.size:
        raise EmbedderFailed(f"numbers {vectors.shape} for {len(texts)} texts")
    return vectors
