"""docs/performance.md: a table for every size that was measured, and what the rows mean."""

import re
from collections.abc import Sequence

from benchmarks.measure import HEAD, Row

_SECTION = re.compile(r"^## ([\d,]+) memories\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_HEAD = """\
# What things cost

`make bench` (`SIZE=10k` or `SIZE=100k` for more) prints a table and writes it here. Each row is measured beside its
floor, which is the least that the same thing takes with nothing of memfs around it, or beside another program; both
in one run, interleaved, so read the ratios. Figures are medians. A goal is said to be met or missed as measured.

"""
_TAIL = """\
## What the rows are

- The texts are made up: 300 to 800 bytes each, 20,000 words as frequent as the words of a language are, rare ones
  besides, in up to 400 namespaces. A question has two to four words that count, and is about one memory.
- A question is 5 hits with body, snippet and title. Beside it, tantivy has the bodies stored in its index, searches for
  any of the stemmed words, and fetches 5 bodies and snippets: no freshness, no relevance, no filters. SQLite
  FTS5 does the same by bm25 with its own snippets. ripgrep counts the lines with any of the words, without order.
  The FileMemoryStore of strands-agents searches the same files.
- Pending changes are found, but not in the published index yet; a search that meets many of them publishes it.
- A cold build happens in a new process, beside reading the files and a tantivy index of body and path with the same
  writer; the start of python does not count. A scan with nothing changed is that of a new `Vault` in a warm process.
- The first answer of a new process is that of its first `Vault`; modules are loaded before. `memfs search` is the
  whole process, start of python and scan of the files included.
- Until another process finds it: from before the `add` to the answer of a process that is told of it and searches.
- An `add` is a file without a name (`O_TMPFILE`), two fsyncs, a link, and an append to the log of versions: lock,
  header, slug and the search for a duplicate take the rest. What a new file costs depends on where the file system has
  put its directory, which is why the benchmark uses several fresh vaults.
- An `update` writes and removes a file more than an `add`: the one that comes out of the exchange.
- `list` reads bytes and stamps. Header and body are understood when they are asked for.
- The first `add` of a process reads the texts of its namespace once, to find duplicates; later ones remember them.
"""


def updated(old: str, memories: int, where: str, rows: Sequence[Row], notes: Sequence[str]) -> str:
    """The page with the figures of one size; those of other sizes stay."""
    sections = {int(match[1].replace(",", "")): match[0] for match in _SECTION.finditer(old)}
    sections[memories] = _section(memories, where, rows, notes)
    return _HEAD + "".join(sections[size] for size in sorted(sections)) + _TAIL


def _section(memories: int, where: str, rows: Sequence[Row], notes: Sequence[str]) -> str:
    lines = [HEAD, ("---", "---:", "---", "---:", "---:", "---"), *(row.cells for row in rows)]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    left_out = "".join(f"\n- {note}" for note in notes)
    return f"## {memories:,} memories\n\n{where}\n\n{table}\n{left_out}\n\n".replace("\n\n\n", "\n\n")
