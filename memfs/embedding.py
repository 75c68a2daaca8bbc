"""The embedder of the extra `semantic`: the mean of word vectors. The only importer of tokenizers.

Its weights are in the wheel of wordllama, which is never imported: it configures logging, and downloads files that it
does not find.
"""

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memfs.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

PACKAGE, EXTRA = "wordllama", "semantic"
MODEL_NAME = "l2_supercat_256"
MISSING_EXTRA_MESSAGE = (
    "search by meaning is not installed, so only words are searched: pip install 'memfs-vault[semantic]'"
)
MAX_CHARS = 8_000  # of a text; the rest of a longer one changes its vector little
BATCH_SIZE = 256
MAX_SEQUENTIAL_TEXTS = 16  # more are tokenized in threads, about which tokenizers warns in a forked process


class WordEmbedder:
    """An embedder whose vectors are the normalised mean of the word vectors; zero for a text without words."""

    name = f"{PACKAGE}/{MODEL_NAME}"
    span = (0.0, 0.7)  # see memfs.protocols.Embedder

    def __init__(self, directory: Path) -> None:
        from tokenizers import Tokenizer

        self._word_vectors = _read_weights(directory / "weights" / f"{MODEL_NAME}.safetensors")
        self._tokenizer = Tokenizer.from_file(str(directory / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed(self, texts: "Sequence[str]") -> "Vectors":
        """Return one vector of length one per text; zero for a text without words."""
        import numpy as np

        vectors = np.zeros((len(texts), self._word_vectors.shape[1]), dtype=np.float32)
        for start in range(0, len(texts), BATCH_SIZE):
            shortened = [text[:MAX_CHARS] for text in texts[start : start + BATCH_SIZE]]
            for number, encoding in enumerate(self._tokenize(shortened), start):
                if ids := encoding.ids:
                    vectors[number] = self._word_vectors[ids].mean(axis=0)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors

    def _tokenize(self, texts: list[str]) -> "Iterable[Any]":
        if len(texts) > MAX_SEQUENTIAL_TEXTS:
            return self._tokenizer.encode_batch(texts, add_special_tokens=False)
        return (self._tokenizer.encode(text, add_special_tokens=False) for text in texts)

    def embed_weighted(self, words: "Sequence[str]", weights: "Sequence[float]") -> "Vectors":
        """Return one vector of length one for words with these weights; zero if there are no words."""
        import numpy as np

        parts = [self._tokenizer.encode(word, add_special_tokens=False).ids for word in words]
        repeated = np.repeat(np.array(weights, np.float32), [len(ids) for ids in parts])
        vector: Vectors = repeated @ self._word_vectors[[number for ids in parts for number in ids]]
        return vector / (np.linalg.norm(vector) or 1.0)


@cache
def default_embedder() -> WordEmbedder:
    """Return the embedder of the extra, loaded once per process. Raises MissingExtraError if it is not installed."""
    if not is_installed():
        raise MissingExtraError("search by meaning", EXTRA)
    spec = find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    return WordEmbedder(Path(spec.origin).parent)


def is_installed() -> bool:
    """Return whether the extra is installed, without importing it."""
    return all(find_spec(name) is not None for name in (PACKAGE, "numpy", "tokenizers"))


def _read_weights(file: Path) -> Any:
    """Read the matrix of a safetensors file, which is the header's length, a header in JSON, and the numbers."""
    import numpy as np

    data = file.read_bytes()
    header_end = 8 + int.from_bytes(data[:8], "little")
    [(_, tensor)] = [item for item in json.loads(data[8:header_end]).items() if item[0] != "__metadata__"]
    dtype = np.dtype({"F16": "<f2", "F32": "<f4"}[tensor["dtype"]])
    start, end = tensor["data_offsets"]
    numbers = np.frombuffer(data, dtype, count=(end - start) // dtype.itemsize, offset=header_end + start)
    return numbers.reshape(tensor["shape"]).astype(np.float32)
