"""Semantic search: embeds memories and questions, keeps the vectors up to date, and compares them."""

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
from memfs.search.conversation.rerank import CONTEXT_SHARES, MIN_SIMILARITY, RerankCandidate
from memfs.search.semantic.nearest_vectors import NearestVectors, blend, cosines, live_rows, unit_vectors
from memfs.search.semantic.vector_file import Floats, VectorFile, file_name, key_array, key_of
from memfs.storage.memory_files import MemoryFiles
from memfs.storage.stat_scan import read_all

BATCH_MEMORIES = 500  # embedded at once
MAX_UNUSED_RECORDS = 200  # in a vector file, beyond as many as are in use
STOP_WORD_SHARE = 0.3  # weight of a stop word in a question, as a share of an unknown word's
DEFAULT_COSINE_SPAN = (0.0, 0.7)  # of an embedder without a `span`: cosines that mean unrelated, and the same
_WORD = re.compile(r"[^\W_]+")
log = logging.getLogger("memfs")


class EmbedderError(Exception):
    """The embedder raised an error, or returned no vectors. Caught here: the search goes on without semantics."""


class UnpublishedVectors(NamedTuple):
    """The unpublished memories, and one vector for each."""

    memories: Sequence[Memory]
    vectors: Floats


class SemanticIndex:
    """The vectors of one vault's memories. The caller of any method holds the lock of freshness."""

    def __init__(self, files: MemoryFiles, freshness: Freshness, load_embedder: Callable[[], Embedder]) -> None:
        self.trouble = ""  # why the embedder failed the last time; empty if it did not
        self._files, self._freshness, self._load_embedder = files, freshness, load_embedder
        self._loaded: tuple[Embedder, VectorFile] | None = None
        self._nearest: tuple[object, NearestVectors] | None = None  # with the index and file version that it is for
        self._unpublished: tuple[object, UnpublishedVectors] | None = None  # with the version that it is for

    def embed_question(self, question: Question, weights: Weights) -> "EmbeddedQuestion | None":
        """Return the question as a vector to compare memories with; None, and a warning, if the embedder fails."""
        try:
            embedder, vectors = self._load()
            vector = self._question_vector(embedder, vectors.size, question, weights)
            nearest, unpublished = self._update_vectors()
        except EmbedderError as error:
            self._report_failure(str(error))
            return None
        self.trouble = ""
        return EmbeddedQuestion(vector, nearest, unpublished, *getattr(embedder, "span", DEFAULT_COSINE_SPAN))

    def sync(self, progress: Progress | None = None) -> None:
        """Embed each memory that has no vector yet."""
        try:
            self._update_vectors(progress)
            self.trouble = ""
        except EmbedderError as error:
            self._report_failure(str(error))

    def similarity(self, memory: Memory, question: Question, weights: Weights) -> float | None:
        """Return the similarity of a memory and a question, 0..1; None if the embedder fails."""
        if (embedded := self.embed_question(question, weights)) is None:
            return None
        embedder, _ = self._load()
        units = _embed_checked(embedder.embed, [embedding_text(memory)])
        return embedded.similarity(float(cosines(units, embedded.vector)[0]))

    def _report_failure(self, trouble: str) -> None:
        """Log a failure of the embedder once, and drop its state, so that it is loaded again."""
        if trouble != self.trouble:
            log.warning("search by meaning: %s", trouble)
        self.trouble, self._loaded, self._nearest, self._unpublished = trouble, None, None, None

    def _load(self) -> tuple[Embedder, VectorFile]:
        """Return the embedder and its vector file, loaded once."""
        if self._loaded is None:
            embedder = self._load_embedder()
            size = _embed_checked(embedder.embed, ["a text"]).shape[1]
            self._loaded = embedder, VectorFile(file_name(embedder.name, size), size)
        return self._loaded

    def _question_vector(self, embedder: Embedder, size: int, question: Question, weights: Weights) -> Floats:
        """Return the vector of a question; rare words count more if the embedder takes weights."""
        embed_weighted = getattr(embedder, "embed_weighted", None)
        text = question.text[:MAX_QUESTION_CHARS].encode("utf-8", "replace").decode()
        if embed_weighted is None:
            return _embed_checked(embedder.embed, [text], size).reshape(-1)
        words = _WORD.findall(text)
        unknown = idf(0, max(self._freshness.index.memory_count, len(self._freshness.unpublished)))
        phrase_terms, stop_word = self._freshness.analyzer.phrase_terms, STOP_WORD_SHARE * unknown
        terms_of_words = [[term for term in phrase_terms(word) if term in question.terms] for word in words]
        found = [[weights.by_term.get(term, unknown) for term in terms] for terms in terms_of_words]
        word_weights = [max(term_weights, default=stop_word) for term_weights in found]
        return _embed_checked(lambda _: embed_weighted(words, word_weights), [text], size).reshape(-1)

    # --- vectors of memories

    def _update_vectors(self, progress: Progress | None = None) -> tuple[NearestVectors, UnpublishedVectors]:
        """Return the vectors of the published and of the unpublished memories; embeds those that have none."""
        index, changes = self._freshness.index, self._freshness.unpublished
        _, vectors = self._load()
        with self._files.opened() as root:
            vectors.refresh(root)
            if self._nearest is None or self._nearest[0] != (index, vectors.version):
                nearest = self._load_published(root, vectors, index, progress)
                self._nearest = (index, vectors.version), nearest
            if self._unpublished is None or self._unpublished[0] != (changes, changes.version):
                self._unpublished = (changes, changes.version), self._load_unpublished(root, vectors, changes)
        return self._nearest[1], self._unpublished[1]

    def _load_published(
        self, root: int, vectors: VectorFile, index: TantivyIndex, progress: Progress | None
    ) -> NearestVectors:
        table, unpublished = index.row_table, self._freshness.unpublished
        rows, keys = live_rows(table)
        has_vector = vectors.contains(root, keys)
        paths = sorted(table.path_and_stamp(row)[0] for row in rows[~has_vector].tolist())
        self._embed_files(root, vectors, [path for path in paths if path not in unpublished], progress)
        if vectors.records > 2 * len(keys) + MAX_UNUSED_RECORDS:
            vectors.keep_only(root, keys)
            vectors.refresh(root)
        has_vector = vectors.contains(root, keys)
        return NearestVectors(vectors, rows[has_vector], keys[has_vector])

    def _embed_files(self, root: int, vectors: VectorFile, paths: Sequence[str], progress: Progress | None) -> None:
        for start in range(0, len(paths), BATCH_MEMORIES):
            if progress:
                progress(start, len(paths))
            found = [memory for _, memory in read_all(root, paths[start : start + BATCH_MEMORIES])]
            self._embed_memories(root, vectors, [memory for memory in found if isinstance(memory, Memory)])
        if progress and paths:
            progress(len(paths), len(paths))

    def _load_unpublished(self, root: int, vectors: VectorFile, changes: UnpublishedChanges) -> UnpublishedVectors:
        memories = [entry.memory for entry in changes.entries.values() if entry.memory]
        keys = key_array([_key(memory) for memory in memories])
        has_vector = vectors.contains(root, keys).tolist()
        missing = [memory for memory, is_embedded in zip(memories, has_vector, strict=True) if not is_embedded]
        self._embed_memories(root, vectors, missing)
        return UnpublishedVectors(memories, unit_vectors(vectors.take(keys)))

    def _embed_memories(self, root: int, vectors: VectorFile, memories: Sequence[Memory]) -> None:
        if memories:
            embedder, _ = self._load()
            embedded = _embed_checked(embedder.embed, [embedding_text(memory) for memory in memories], vectors.size)
            vectors.add(root, [_key(memory) for memory in memories], embedded)


class EmbeddedQuestion:
    """The vector of a question, and the vectors to compare it with. A similarity is a cosine scaled to 0..1."""

    def __init__(
        self, vector: Floats, nearest: NearestVectors, unpublished: UnpublishedVectors, low: float, high: float
    ) -> None:
        self.vector = vector
        self._nearest, self._unpublished, self._low, self._high = nearest, unpublished, low, high
        self._min_cosine = low + MIN_SIMILARITY * (high - low)

    def similarity(self, cosine: float) -> float:
        """Return a cosine as a similarity."""
        return min(max((cosine - self._low) / (self._high - self._low), 0.0), 1.0)

    def nearest_rows(self, limit: int, among: Sequence[int] | None = None) -> list[int]:
        """Return the nearest rows of the index, of all or of some, nearest first; none below MIN_SIMILARITY."""
        return self._nearest.nearest(self.vector, limit, self._min_cosine, among)

    def nearest_unpublished(self) -> list[str]:
        """Return the paths of unpublished memories that are similar enough, nearest first."""
        found = cosines(self._unpublished.vectors, self.vector).tolist()
        order = sorted((-cosine, memory.path) for cosine, memory in zip(found, self._unpublished.memories, strict=True))
        return [path for cosine, path in order if -cosine >= self._min_cosine]

    def with_similarities(self, candidates: Sequence[RerankCandidate]) -> list[RerankCandidate]:
        """Return the candidates with their similarities: of their own vectors, and blended with those around them."""
        numbers = {memory.path: number for number, memory in enumerate(self._unpublished.memories)}
        own = self._nearest.vectors_of([-1 if one.row is None else one.row for one in candidates])
        for number, one in enumerate(candidates):
            if one.row is None and one.path in numbers:
                own[number] = self._unpublished.vectors[numbers[one.path]]
        number_at = {one.position: number for number, one in enumerate(candidates) if one.position is not None}
        positions = [-1 if one.position is None else one.position for one in candidates]
        around = [
            (share, [number_at.get(position + offset, -1) for position in positions])
            for offset, share in CONTEXT_SHARES.items()
        ]
        blended = blend(own, around) if number_at else own
        found = (cosines(vectors, self.vector).tolist() for vectors in (own, blended))
        return [
            one._replace(similarity=self.similarity(alone), blended_similarity=self.similarity(in_context))
            for one, alone, in_context in zip(candidates, *found, strict=True)
        ]


def _key(memory: Memory) -> int:
    return key_of(memory.path, raw_digest(memory.data))


def _embed_checked(embed: Callable[[list[str]], Any], texts: list[str], size: int | None = None) -> Floats:
    """Return unit vectors, one per text; EmbedderError if the embedder, which may be custom, does not return them."""
    try:
        vectors = unit_vectors(embed(texts))
    except Exception as error:
        raise EmbedderError(f"{type(error).__name__}: {error}") from error
    rows, *sizes = vectors.shape
    if rows != len(texts) or sizes != [size or vectors.size // rows] or not vectors.size:
        raise EmbedderError(f"the embedder returned an array of shape {vectors.shape} for {len(texts)} texts")
    return vectors
