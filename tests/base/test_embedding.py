"""The embedder of the extra `semantic`, with the real weights from the wheel."""

import subprocess
import sys

import numpy as np

from memfs.embedding import default_embedder


def test_texts_with_similar_meanings_have_close_vectors() -> None:
    eats, sushi, build = default_embedder().embed(["what does she eat?", "she likes sushi", "the build is red"])

    assert eats @ sushi > eats @ build + 0.2


def test_vectors_have_length_one_or_zero_for_a_text_without_words() -> None:
    vectors = default_embedder().embed(["tea", "東京", "x" * 100_000, ""])

    assert vectors.shape == (4, 256)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 0], atol=1e-5)


def test_a_batch_gives_the_same_vectors_as_single_texts() -> None:
    texts = [f"memory {number} of tea and mountains" for number in range(600)]
    vectors = default_embedder().embed(texts)

    for number in (0, 255, 256, 599):
        assert np.allclose(vectors[number], default_embedder().embed([texts[number]])[0], atol=1e-6)


def test_the_package_with_the_weights_is_not_imported() -> None:
    code = "import sys; from memfs.embedding import default_embedder as d; d().embed(['tea']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert not {"wordllama", "requests", "pydantic"} & set(done.stdout.split())
