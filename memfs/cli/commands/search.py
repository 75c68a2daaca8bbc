"""The commands `search` and `explain-miss`."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from memfs.cli.inputs import (
    NO_SUCH_NAMESPACE,
    has_namespace,
    normalize_ref,
    open_vault,
    parse_conditions,
    render_namespace,
    text_argument,
)
from memfs.cli.output import (
    Progress,
    display_width,
    is_stderr_terminal,
    one_line,
    paint,
    print_json,
    safe_text,
    terminal_width,
    truncate,
)
from memfs.cli.parser import usage_error, with_vault_option
from memfs.data_types import Hit, Memory, Reason
from memfs.errors import short_repr
from memfs.fs.files import STATE_DIR
from memfs.json_output import explain_miss_json, hit_json
from memfs.namespace import fold, slug
from memfs.query.question import MAX_OFFSET
from memfs.query.tokens import emoji_terms
from memfs.vault.search_engine import VECTORS_DIR
from memfs.vault.vault import Vault

INDENT = 4
NO_WORDS_HINT = "The question has no letters, digits or emoji to search for: use words."
# options that a hint for a search without hits suggests to leave out
FILTER_NAMES = ("namespace", "type", "tag", "status", "created", "updated", "valid", "where", "min_relevance", "offset")
Cell = tuple[str, bool]  # a safe character, and whether it is part of a match


def run_search(args: argparse.Namespace) -> int:
    """Print the memories that answer a question, best first; the exit code is 1 if there are none."""
    if args.paths and args.explain:
        raise usage_error("search", "--paths and --explain exclude each other")
    with open_vault(args.vault, semantic=args.semantic) as vault:
        question = text_argument(args.question)
        if is_stderr_terminal() and needs_index_build(vault):
            with Progress() as progress:
                vault.sync(progress)
        hits = vault.search(question, explain=args.explain, **_filters(vault, args))
        if args.json:
            print_json([hit_json(hit, why=args.explain) for hit in hits])
        elif hits:
            _print_hits(hits, args)
            if len(hits) == args.limit and terminal_width() is not None and not args.paths:
                _print_next_page(vault, question, args)
        else:
            _print_no_hits(vault, question, args)
        sys.stdout.flush()  # closing the vault may take a moment
    return 0 if hits else 1


def needs_index_build(vault: Vault) -> bool:
    """Return whether the next search has to build the whole index, or the embeddings of all memories."""
    status = vault.status()
    needs_embeddings = status.semantic not in {"off", "missing"} and not (vault.root / STATE_DIR / VECTORS_DIR).is_dir()
    return status.where == "none" or needs_embeddings


def _filters(vault: Vault, args: argparse.Namespace) -> dict[str, Any]:
    """Return the filters of the command line as keyword arguments of Vault.search."""
    page = {"limit": args.limit, "offset": args.offset, "min_relevance": args.min_relevance}
    filters = {
        "namespace": render_namespace(vault, args.namespace),
        "type": args.type, "tags": args.tag, "status": args.status,
        "created": args.created, "updated": args.updated, "valid": args.valid, "where": parse_conditions(args.where),
        "include": args.include,
    }  # fmt: skip
    return page | {name: value for name, value in filters.items() if value not in (None, [])}


# --- hits ---------------------------------------------------------------------------------------------


def _print_hits(hits: Sequence[Hit], args: argparse.Namespace) -> None:
    if args.paths:
        print(*(safe_text(hit.memory.path) for hit in hits), sep="\n")
        return
    width = terminal_width()
    for number, hit in enumerate(hits):
        if width is None:
            print(hit_line(hit))
        else:
            print(*[""] * bool(number), *hit_block(hit, width), sep="\n")
        for reason in hit.why:
            print(_reason_line(reason))


def _print_next_page(vault: Vault, question: str, args: argparse.Namespace) -> None:
    """Print how to see further hits, if there are any."""
    after = args.offset + args.limit
    if after <= MAX_OFFSET and vault.search(question, **{**_filters(vault, args), "limit": 1, "offset": after}):
        print("\n" + paint(f"the best {args.limit}; --offset {after} shows more", "dim"))


def hit_line(hit: Hit) -> str:
    """Return a hit on one line, for other programs: `path:relevance:date: title: snippet`."""
    texts = (distinct_title(hit.memory), "".join(text for text, _ in snippet_cells(hit)))
    location = f"{safe_text(hit.memory.path)}:{hit.relevance:.2f}:{hit.date:%Y-%m-%d}"
    return ": ".join([location, *filter(None, texts)])


def hit_block(hit: Hit, width: int) -> Iterator[str]:
    """Yield the lines of a hit for a terminal: path, relevance, date and title, then the wrapped snippet."""
    path, details = safe_text(hit.memory.path), f"{hit.relevance:.2f}  {hit.date:%Y-%m-%d}"
    remaining = width - display_width(path) - len(details) - 4
    title = truncate(distinct_title(hit.memory), remaining) if remaining >= 8 else ""
    yield f"{paint(path, 'magenta')}  {paint(details, 'dim')}" + (f"  {paint(title, 'bold')}" if title else "")
    for row in wrap_cells(list(snippet_cells(hit)), max(width - INDENT, 8)):
        yield " " * INDENT + _paint_matches(row)


def distinct_title(memory: Memory) -> str:
    """Return the title of a memory; empty if it only repeats the file name."""
    stem = memory.path.rpartition("/")[2].removesuffix(".md")
    return "" if fold(slug(memory.title)) == fold(slug(stem)) else one_line(memory.title)


def snippet_cells(hit: Hit) -> Iterator[Cell]:
    """Yield the characters of the snippet on one safe line, each with whether it is part of a match.

    A heading at the start that is the title of the memory is left out: the title is printed above, or the path has it.
    """
    marked = {position for start, end in hit.marks for position in range(start, min(end, len(hit.snippet)))}
    heading = f"# {' '.join(hit.title.split())} "
    start = len(heading) if hit.snippet.startswith(heading) else 0
    after_space = True
    for position, char in enumerate(hit.snippet.rstrip()[start:], start):
        if not char.isspace():
            yield safe_text(char), position in marked
        elif not after_space:
            yield " ", position in marked
        after_space = char.isspace()


def wrap_cells(text: Sequence[Cell], width: int) -> Iterator[Sequence[Cell]]:
    """Yield rows of at most `width` columns, broken at spaces, or anywhere in a longer word."""
    start = 0
    while start < len(text):
        end = _row_end(text, start, width)
        if end < len(text):
            end = next((position for position in range(end, start, -1) if text[position][0] == " "), end)
        yield text[start:end]
        start = end + (end < len(text) and text[end][0] == " ")


def _row_end(text: Sequence[Cell], start: int, width: int) -> int:
    """Return the end of the row that begins at `start`; a row has at least one character."""
    used = 0
    for position in range(start, len(text)):
        used += display_width(text[position][0])
        if used > width and position > start:
            return position
    return len(text)


def _paint_matches(row: Sequence[Cell]) -> str:
    pieces = ((marked, "".join(text for text, _ in piece)) for marked, piece in groupby(row, key=lambda cell: cell[1]))
    return "".join(paint(text, "red") if marked else text for marked, text in pieces)


def _reason_line(reason: Reason) -> str:
    """Return a reason, with its score if it has one."""
    score = f"{reason.score:.2f}" if reason.score else ""
    return f"{score:>{INDENT + 4}}  {safe_text(reason.text)}"


# --- no hits ------------------------------------------------------------------------------------------


def _print_no_hits(vault: Vault, question: str, args: argparse.Namespace) -> None:
    """Print on stderr that nothing was found, and what to try."""
    namespace = render_namespace(vault, args.namespace) or "/"
    within = f" in {safe_text(namespace)}" if args.namespace else ""
    print(f"nothing found for {safe_text(short_repr(question))}{within}", file=sys.stderr)
    hint = no_hits_hint(args) if any(map(str.isalnum, question)) or emoji_terms(question) else NO_WORDS_HINT
    if not has_namespace(vault, namespace):
        hint = with_vault_option(NO_SUCH_NAMESPACE, args.vault)
    print(f"hint: {hint}", file=sys.stderr)


def no_hits_hint(args: argparse.Namespace) -> str:
    """Return a hint for a search without hits: leave out the filters that were given, or try other words."""
    *options, last = [f"--{name.replace('_', '-')}" for name in FILTER_NAMES if getattr(args, name)] or [""]
    if last:
        return f"Leave out {', '.join(options)}{' or ' if options else ''}{last}, or try other words."
    if "all" in args.include:
        return "Try other words."
    return "Try other words, or --include all for archived, expired, deprecated and superseded memories too."


def run_explain_miss(args: argparse.Namespace) -> int:
    """Print why a search does not return a memory, or why it does."""
    with open_vault(args.vault, semantic=args.semantic) as vault:
        ref, question = normalize_ref(vault, args.ref), text_argument(args.question)
        reasons = vault.explain_miss(ref, question, **_filters(vault, args))
        memory = vault.read(ref)
    if args.json:
        print_json(explain_miss_json(memory, question, reasons))
    else:
        print(paint(safe_text(memory.path), "magenta"))
        for reason in reasons:
            print(_reason_line(reason))
    return 0
