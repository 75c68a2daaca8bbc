"""docs/performance.md, made of the figures of every size that was measured; they are kept in a file beside it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.figures import HEAD, Figure, Measured, shown
from benchmarks.plot import drawn

SUMMARY = (
    "question",
    "question, for the first time",
    "question by meaning",
    "SQLite FTS5: the question as typed",
    "markdown-vault-mcp: any of the words",
    "qmd: any of the words",
    "ripgrep: lines with any of the words",
    "strands FileMemoryStore: a question",
    "vault.add, empty namespace",
    "vault.add, until another process can find it",
    "session append, 10,000 there",
    "session restored, 10,000 messages",
    "cold build, wall",
    "new Vault, sync with nothing changed",
    "warm open, new Vault until its first answer",
    "memfs search, CPU",
    "memory of a process that has searched",
    "index on disk, a memory",
)
_HEAD = """\
# What things cost

Each row is measured beside its floor, which is the least that the same thing takes with nothing of memfs around it, or
beside another program; both in one run, interleaved, so read the ratios. Figures are medians.

"""
_AFTER = """\

`make bench` (`SIZE=10k`, `SIZE=100k` or `SIZE=1M` for more) prints all rows of a size and writes them here. A goal is
said to be met or missed as measured; beside other programs it holds from 10,000 memories on.

![Growth from 1,000 memories on, by size]({plot})

"""
_TAIL = """\
## What the rows are

- The texts are made up: 300 to 800 bytes each, 20,000 words as frequent as the words of a language are, rare ones
  besides, in up to 400 namespaces. A question has two to four words that count, and is about one memory.
- A question is 5 hits with body, snippet and title. Beside it, tantivy has the bodies stored in its index, searches for
  any of the stemmed words, and fetches 5 bodies and snippets: no freshness, no relevance, no filters. Beside a question
  that is narrowed, it has a second index: namespaces, types and tags as terms, dates and numbers as columns. The hits
  were read before, so that only the stamps of their files are looked at; for the first time, the files are read.
- A question by meaning is 5 hits as well, with the weights of the extra `semantic`; beside it, the same vault is asked
  by words alone. All memories are embedded by a process that has the model loaded and finds the index there. The texts
  being made up, their vectors lie closer together than those of a language, and are harder to tell apart by signs.
- Pending changes are found, but not in the published index yet; a search that meets many of them publishes it.
- A cold build happens in a new process, beside reading the files and a tantivy index of body and path with the same
  writer; the start of python does not count. A scan with nothing changed, and a warm open, are those of a new `Vault`
  in a warm process. A tantivy index that is opened knows nothing of the files, so `git status` belongs to its floor.
- The first answer of a new process is that of its first `Vault`; modules are loaded before. A command is the whole
  process, start of python and scan of the files included.
- Until another process can find it: `add` returns when every search that begins then, anywhere, finds the memory. What
  is timed is the `add`; right after it another process is asked each time, and must answer with the memory. The floor
  writes into a directory beside the namespace. The row below has that answer inside: two pipes, a look for changes, a
  search, beside a known answer by the same way.
- An `add` is a file without a name (`O_TMPFILE`), two fsyncs, a link, and an append to the log of versions: lock,
  header, slug and the search for a duplicate take the rest. What a new file costs depends on where the file system has
  put its directory, which is why the benchmark uses several fresh vaults.
- An `update` writes and removes a file more than an `add`: the one that comes out of the exchange.
- A bulk load is one `add_many` into a new vault with the namespaces of the corpus; beside it, the same files are
  written with an fsync each, and one of each directory at the end. `.memfs` is that of this vault, with its index;
  sizes are bytes of files, not blocks.
- `list` reads bytes and stamps. Header and body are understood when they are asked for.
- A session's append is a message under the lock of its session, fsynced, beside a bare append of as many bytes. A
  restored session is its messages as they were said, beside `json.loads` of each line.
- The first `add` of a process reads the texts of its namespace once, to find duplicates; later ones remember them.

## How others are asked

All search the same files for the same questions, 5 hits each, in a process that stays; what is timed is the call of
their library inside of that process, as `vault.search` is in ours. How often the asked memory is among the hits is told
over the same 40 questions. A build is one of an empty index, with the files in memory.

- SQLite FTS5: bodies and paths in one table, `porter unicode61`, optimized, by bm25 with its own snippets, any of the
  words. It has no stop words. So it is asked the question as it is typed, and again without the stop words of memfs.
- ripgrep counts the lines with any of the words that count, a process a question: no order, no snippets.
- strands-agents: its FileMemoryStore with nothing set, the question as it is typed. It builds nothing.
- markdown-vault-mcp: its `Vault` with an index on disk, keyword mode, the words that count joined by OR, which its
  search understands; without it every word must be there.
- qmd: its library, lexical search alone, which loads no model. `searchLex` wants all of the words that count, so it
  finds fewer; to find any of them, `search` is given a query a word, and merges the hits.
"""


def kept(page: Path) -> dict[int, Measured]:
    """The figures that lie beside a page, by size."""
    file = page.with_suffix(".json")
    if not file.exists():
        return {}
    found = [Measured.read(*item) for item in json.loads(file.read_text(encoding="utf-8")).items()]
    return {one.memories: one for one in found}


def keep(page: Path, measured: Measured) -> None:
    """Take the figures of one size into a page, its plot and the file beside it; those of other sizes stay."""
    sizes = {**kept(page), measured.memories: measured}
    sizes = {memories: sizes[memories] for memories in sorted(sizes)}
    figures = {str(memories): one.written for memories, one in sizes.items()}
    page.with_suffix(".json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    page.with_suffix(".svg").write_text(drawn(list(sizes.values())), encoding="utf-8")
    page.write_text(written(sizes, page.with_suffix(".svg").name), encoding="utf-8")


def written(sizes: Mapping[int, Measured], plot: str) -> str:
    """The page."""
    parts = [_HEAD, _summary(list(sizes.values())), _AFTER.format(plot=plot), *map(_section, sizes.values()), _TAIL]
    return "".join(parts)


def _summary(sizes: Sequence[Measured]) -> str:
    """The rows that matter, a column a size."""
    head = ("what", "beside", *(f"{one.memories:,}" for one in sizes), "goal")
    lines = [head, ("---", "---", *("---:" for _ in sizes), "---")]
    for name in SUMMARY:
        found = [one.get(name) for one in sizes]
        there = [figure for figure in found if figure]
        if there:
            goals = dict.fromkeys(goal for figure in there for goal in figure.goals)
            lines.append((name, there[0].floor, *map(_cell, found), ", ".join(goals)))
    return _table(lines)


def _cell(figure: Figure | None) -> str:
    """A figure and its ratio; a goal that is missed is said."""
    if figure is None:
        return ""
    words = [shown(figure.p50, figure.unit), figure.times, "" if all(figure.goals.values()) else "MISSED"]
    return ", ".join(filter(None, words))


def _section(measured: Measured) -> str:
    lines = [HEAD, ("---", "---:", "---", "---:", "---:", "---"), *(figure.cells for figure in measured.figures)]
    left_out = "".join(f"- {note}\n" for note in measured.notes)
    body = f"{measured.where}\n\n{_table(lines)}" + (f"\n{left_out}" if left_out else "")
    return f"## {measured.memories:,} memories\n\n{body}\n"


def _table(lines: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
