"""Every text comes back exactly, at full scale; small in tests/format/test_frontmatter_properties.py."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from test_frontmatter_properties import LARGE, assert_large_read_back, assert_read_back, texts

from memfs import Vault

from .figures import figure

TEXTS = 5_000

pytestmark = pytest.mark.torture


def test_every_text_comes_back_exactly(mount_tmpfs: Callable[[str], Path]) -> None:
    tried = 0
    with Vault.init(mount_tmpfs("size=1g") / "vault") as vault:

        @given(text=texts.filter(str.strip), more=texts.filter(str.strip))
        @settings(max_examples=TEXTS, derandomize=False, database=None, phases=[Phase.generate, Phase.shrink])
        def come_back(text: str, more: str) -> None:
            nonlocal tried
            tried += 1
            assert_read_back(vault, text, more)

        come_back()
        for kind, text in LARGE.items():
            assert_large_read_back(vault, kind, text)
    figure(
        "every text comes back exactly",
        f"{tried} pairs of texts (headers, YAML, fences, markers, templates, odd newlines, any character), each added, "
        f"appended, updated and read 6 times, and {len(LARGE)} kinds of a megabyte: all byte-exact",
    )
