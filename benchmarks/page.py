"""Write docs/performance.md from the figures of every measured size, which are stored in a JSON file beside it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.figures import HEAD, Figure, Measured, format_value
from benchmarks.plot import draw

SUMMARY = (
    "question",
    "question, hits not read before",
    "question by meaning",
    "SQLite FTS5: the question as typed",
    "markdown-vault-mcp: any of the words",
    "qmd: any of the words",
    "ripgrep: lines with any of the words",
    "strands FileMemoryStore: a question",
    "vault.add, empty namespace",
    "vault.add, visible to another process",
    "session append, 10,000 messages in the log",
    "session restored, 10,000 messages",
    "cold build, wall",
    "new Vault, sync with nothing changed",
    "warm open, new Vault and its first search",
    "memfs search, CPU",
    "memory of a process after searches",
    "index on disk, per memory",
)
_HEAD = """\
# Performance

Each row is compared with a baseline, which is the minimal cost of the same operation without memfs, or with another
program. Both are measured in one run, interleaved, so compare the ratios. Figures are medians.

"""
_AFTER = """\

`make bench` (`SIZE=10k`, `SIZE=100k` or `SIZE=1M` for more) prints all rows of a size and updates this page. A goal is
met or MISSED as measured; goals against other programs apply from 10,000 memories on.

![Growth from 1,000 memories on, by size]({plot})

"""
_TAIL = """\
## The rows

- The texts are synthetic: 300 to 800 bytes each, of 20,000 words with the frequencies of a natural language and some
  rare words, in up to 400 namespaces. A question has two to four content words, and is about one memory.
- A question returns 5 hits with body, snippet and title. The baseline is a tantivy index that stores the bodies: it
  searches for any of the stemmed words, and fetches 5 bodies and snippets, without freshness, relevance or filters. For
  questions with filters it is another tantivy index: namespaces, types and tags as terms, dates and numbers as columns.
  The hits were read before, so that only the stamps of their files are checked; in the row "hits not read before" the
  files are read.
- A question by meaning also returns 5 hits, with the weights of the extra `semantic`; the baseline is the same vault
  searched by words alone. Embedding all memories is timed in a process that has loaded the model and has the index.
  Vectors of synthetic texts are closer together than those of natural texts, and harder to distinguish by sign bits.
- Pending changes are found, but not yet in the published index; a search that meets many of them publishes it.
- A cold build runs in a new process; the baseline reads the files and builds a tantivy index of body and path with the
  same writer. The start of Python is not included. A scan with nothing changed, and a warm open, use a new `Vault` in a
  warm process. A tantivy index does not know the files, so `git status` is part of its baseline.
- The first search of a new process uses its first `Vault`; modules are loaded before. A command is the whole process,
  including the start of Python and the scan of the files.
- Visible to another process: when `add` returns, every search that begins later, in any process, finds the memory. Only
  the `add` is timed; right after it another process is asked each time, and must find the memory. The baseline writes
  into a directory beside the namespace. The next row includes that answer: two pipes, a check for changes and a search,
  compared with a known answer over the same pipes.
- An `add` is an unnamed file (`O_TMPFILE`), two fsyncs, a link, and an append to the version log; lock, header, slug
  and the check for duplicates take the rest. The cost of a new file depends on where the file system has put its
  directory, so the benchmark uses several fresh vaults.
- An `update` writes and removes one file more than an `add`: the one displaced by the exchange.
- A bulk load is one `add_many` into a new vault with the namespaces of the corpus; the baseline writes the same files
  with one fsync per file, and one per directory at the end. `.memfs` is that of this vault, with its index; sizes are
  bytes of files, not blocks.
- `list` reads bytes and stamps. Header and body are parsed on access.
- A session append writes one message under the lock of its session, with fsync; the baseline is a bare append of as
  many bytes. A restored session is its list of messages; the baseline is `json.loads` of each line.
- The first `add` of a process reads the texts of its namespace once, to find duplicates; later ones use a cache.

## How other programs are measured

All programs search the same files for the same questions, 5 hits each, in a process that keeps running. The time is
that of the library call inside that process, as for `vault.search`. The share of questions whose memory is among the
hits is measured on the same 40 questions. A build starts with an empty index, with the files in the page cache.

- SQLite FTS5: bodies and paths in one table, `porter unicode61`, optimized, by bm25 with its own snippets, any of the
  words. It has no stop words, so it is measured with the question as typed, and again without the stop words of memfs.
- ripgrep counts the lines with any of the content words, with one process per question: no order, no snippets.
- strands-agents: its FileMemoryStore with default settings, the question as typed. It builds no index.
- markdown-vault-mcp: its `Vault` with an index on disk, keyword mode, the content words joined by OR, which its search
  supports; without OR every word must match.
- qmd: its library, lexical search only, which loads no model. `searchLex` requires all content words, so it finds
  fewer; to find any of them, `search` gets one query per word, and merges the hits.
"""


def read_page(page: Path) -> dict[int, Measured]:
    """Return the stored figures of a page, by size."""
    file = page.with_suffix(".json")
    if not file.exists():
        return {}
    found = [Measured.read(*item) for item in json.loads(file.read_text(encoding="utf-8")).items()]
    return {one.memories: one for one in found}


def update_page(page: Path, measured: Measured) -> None:
    """Update the figures of one size in a page, its plot and its JSON file; keep those of other sizes."""
    sizes = {**read_page(page), measured.memories: measured}
    sizes = {memories: sizes[memories] for memories in sorted(sizes)}
    figures = {str(memories): one.to_json for memories, one in sizes.items()}
    page.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    page.with_suffix(".svg").write_text(draw(list(sizes.values())), encoding="utf-8")
    page.write_text(render_page(sizes, page.with_suffix(".svg").name), encoding="utf-8")


def render_page(sizes: Mapping[int, Measured], plot: str) -> str:
    """Return the text of the page."""
    parts = [_HEAD, _summary(list(sizes.values())), _AFTER.format(plot=plot), *map(_section, sizes.values()), _TAIL]
    return "".join(parts)


def _summary(sizes: Sequence[Measured]) -> str:
    """Return the main rows, with one column per size."""
    head = ("operation", "baseline", *(f"{one.memories:,}" for one in sizes), "goal")
    lines = [head, ("---", "---", *("---:" for _ in sizes), "---")]
    for name in SUMMARY:
        found = [one.get(name) for one in sizes]
        present = [figure for figure in found if figure]
        if present:
            goals = dict.fromkeys(goal for figure in present for goal in figure.goals)
            lines.append((name, present[0].baseline, *map(_cell, found), ", ".join(goals)))
    return _table(lines)


def _cell(figure: Figure | None) -> str:
    """Return a figure, its ratio, and MISSED if a goal is missed."""
    if figure is None:
        return ""
    words = [format_value(figure.p50, figure.unit), figure.times, "" if all(figure.goals.values()) else "MISSED"]
    return ", ".join(filter(None, words))


def _section(measured: Measured) -> str:
    lines = [HEAD, ("---", "---:", "---", "---:", "---:", "---"), *(figure.cells for figure in measured.figures)]
    left_out = "".join(f"- {note}\n" for note in measured.notes)
    body = f"{measured.where}\n\n{_table(lines)}" + (f"\n{left_out}" if left_out else "")
    return f"## {measured.memories:,} memories\n\n{body}\n"


def _table(lines: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
