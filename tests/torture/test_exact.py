"""Every text is read back exactly, at full scale. The small scale is in tests/format/test_frontmatter_properties.py."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from support.memory_texts import LARGE, assert_large_read_back, assert_read_back, texts

from memfs import Vault

from .figures import figure

TEXTS = 5_000

pytestmark = pytest.mark.torture


def test_every_text_is_read_back_exactly(mount_tmpfs: Callable[[str], Path]) -> None:
    tried = 0
    with Vault.init(mount_tmpfs("size=1g") / "vault") as vault:

        @given(text=texts.filter(str.strip), more=texts.filter(str.strip))
        @settings(max_examples=TEXTS, derandomize=False, database=None, phases=[Phase.generate, Phase.shrink])
        def check_round_trip(text: str, more: str) -> None:
            nonlocal tried
            tried += 1
            assert_read_back(vault, text, more)

        check_round_trip()
        for kind, text in LARGE.items():
            assert_large_read_back(vault, kind, text)
    figure(
        "every text is read back exactly",
        f"{tried} pairs of texts (headers, YAML, fences, markers, templates, odd newlines, any character), each added, "
        f"appended, updated and read 6 times, and {len(LARGE)} kinds of one megabyte: all byte-exact",
    )
