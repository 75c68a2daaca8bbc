"""The embedder that comes with the extra `semantic`: a vector a word, averaged. The only importer of tokenizers.

Its weights lie inside the wheel of wordllama, which is never imported: it sets up logging, and would fetch what it
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
    "search by meaning is not installed, so words alone are searched: pip install 'memfs-vault[semantic]'"
)
MAX_CHARS = 8_000  # of a text; what follows moves its vector little
BATCH_SIZE = 256
MAX_SEQUENTIAL_TEXTS = (
    16  # texts that are cut one after the other: threads for them, in a forked process, would be complained of
)


class WordEmbedder:
    """Vectors of texts as the mean of the vectors of their words, of length one; zero for a text without words."""

    name = f"{PACKAGE}/{MODEL_NAME}"
    span = (0.0, 0.7)

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._words = _read_weights(folder / "weights" / f"{MODEL_NAME}.safetensors")
        self._cutter = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
        self._cutter.no_padding()
        self._cutter.no_truncation()

    def embed(self, texts: "Sequence[str]") -> "Vectors":
        """A vector for each text."""
        import numpy as np

        vectors = np.zeros((len(texts), self._words.shape[1]), dtype=np.float32)
        for start in range(0, len(texts), BATCH_SIZE):
            cut = [text[:MAX_CHARS] for text in texts[start : start + BATCH_SIZE]]
            for number, found in enumerate(self._cut(cut), start):
                if ids := found.ids:
                    vectors[number] = self._words[ids].mean(axis=0)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors

    def _cut(self, texts: list[str]) -> "Iterable[Any]":
        if len(texts) > MAX_SEQUENTIAL_TEXTS:
            return self._cutter.encode_batch(texts, add_special_tokens=False)
        return (self._cutter.encode(text, add_special_tokens=False) for text in texts)

    def embed_weighted(self, words: "Sequence[str]", weights: "Sequence[float]") -> "Vectors":
        """One vector for words of which each counts so much."""
        import numpy as np

        parts = [self._cutter.encode(word, add_special_tokens=False).ids for word in words]
        counts = np.repeat(np.array(weights, np.float32), [len(ids) for ids in parts])
        vector: Vectors = counts @ self._words[[number for ids in parts for number in ids]]
        return vector / (np.linalg.norm(vector) or 1.0)


@cache
def default_embedder() -> WordEmbedder:
    """The embedder of the extra, loaded once a process; MissingExtraError if it is not installed."""
    if not is_installed():
        raise MissingExtraError("search by meaning", EXTRA)
    spec = find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    return WordEmbedder(Path(spec.origin).parent)


def is_installed() -> bool:
    """Tell whether the extra is there, without importing it."""
    return all(find_spec(name) is not None for name in (PACKAGE, "numpy", "tokenizers"))


def _read_weights(file: Path) -> Any:
    """The matrix of a safetensors file: a length, a header in JSON, the numbers."""
    import numpy as np

    data = file.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    [(_, tensor)] = [item for item in json.loads(data[8:end]).items() if item[0] != "__metadata__"]
    kind = np.dtype({"F16": "<f2", "F32": "<f4"}[tensor["dtype"]])
    first, last = tensor["data_offsets"]
    numbers = np.frombuffer(data, kind, count=(last - first) // kind.itemsize, offset=end + first)
    return numbers.reshape(tensor["shape"]).astype(np.float32)
