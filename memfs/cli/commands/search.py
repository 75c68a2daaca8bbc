"""Finding memories: search, explain-miss."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from memfs.cli.inputs import NOWHERE, conditions, is_there, namespace_of, open_vault, reference, text_of
from memfs.cli.output import (
    Progress,
    columns,
    cut,
    hit_facts,
    is_seen,
    paint,
    phrase,
    plain,
    print_json,
    reason_facts,
    width,
)
from memfs.cli.parser import addressed, usage
from memfs.data_types import Hit, Memory, Reason
from memfs.errors import short_repr
from memfs.fs.files import STATE_DIR
from memfs.namespace import fold, slug
from memfs.query.question import MAX_OFFSET
from memfs.query.tokens import emoji_terms
from memfs.vault.search_engine import VECTORS_DIR
from memfs.vault.vault import Vault

INDENT = 4
WORDLESS = "A search goes by letters, digits and emoji, and this has none: say it in words."
NARROWING = ("namespace", "type", "tag", "status", "created", "updated", "valid", "where", "min_relevance", "offset")
Cell = tuple[str, bool]  # a character as it is shown, and whether the question has it


def run_search(args: argparse.Namespace) -> int:
    """Print what answers a question, best first; nothing found is exit code 1."""
    if args.paths and args.explain:
        raise usage("search", "--paths and --explain exclude each other")
    with open_vault(args.vault, semantic=args.semantic) as vault:
        question = text_of(args.question)
        if is_seen() and is_first(vault):
            with Progress() as progress:
                vault.sync(progress)
        hits = vault.search(question, explain=args.explain, **_filters(vault, args))
        if args.json:
            print_json([hit_facts(hit, why=args.explain) for hit in hits])
        elif hits:
            _print_hits(hits, args)
            if len(hits) == args.limit and columns() is not None and not args.paths:
                _print_going_on(vault, question, args)
        else:
            _print_nothing(vault, question, args)
        sys.stdout.flush()  # before the vault is closed, which may take a moment
    return 0 if hits else 1


def is_first(vault: Vault) -> bool:
    """Tell whether there is all to be made that a search needs."""
    status = vault.status()
    is_to_embed = status.semantic not in {"off", "missing"} and not (vault.root / STATE_DIR / VECTORS_DIR).is_dir()
    return status.where == "none" or is_to_embed


def _filters(vault: Vault, args: argparse.Namespace) -> dict[str, Any]:
    """What a search is narrowed by, as the vault takes it."""
    page = {"limit": args.limit, "offset": args.offset, "min_relevance": args.min_relevance}
    filters = {
        "namespace": namespace_of(vault, args.namespace), "type": args.type, "tags": args.tag, "status": args.status,
        "created": args.created, "updated": args.updated, "valid": args.valid, "where": conditions(args.where),
        "include": args.include,
    }  # fmt: skip
    return page | {name: value for name, value in filters.items() if value not in (None, [])}


# --- hits ---------------------------------------------------------------------------------------------


def _print_hits(hits: Sequence[Hit], args: argparse.Namespace) -> None:
    if args.paths:
        print(*(plain(hit.memory.path) for hit in hits), sep="\n")
        return
    room = columns()
    for number, hit in enumerate(hits):
        if room is None:
            print(line(hit))
        else:
            print(*[""] * bool(number), *block(hit, room), sep="\n")
        for reason in hit.why:
            print(_reason(reason))


def _print_going_on(vault: Vault, question: str, args: argparse.Namespace) -> None:
    """Say how to see further hits, if there is one."""
    after = args.offset + args.limit
    if after <= MAX_OFFSET and vault.search(question, **{**_filters(vault, args), "limit": 1, "offset": after}):
        print("\n" + paint(f"the best {args.limit}; --offset {after} goes on", "dim"))


def line(hit: Hit) -> str:
    """A hit on one line, for programs that read lines: `path:relevance:date: title: snippet`."""
    texts = (own_title(hit.memory), "".join(text for text, _ in cells(hit)))
    place = f"{plain(hit.memory.path)}:{hit.relevance:.2f}:{hit.date:%Y-%m-%d}"
    return ": ".join([place, *filter(None, texts)])


def block(hit: Hit, room: int) -> Iterator[str]:
    """A hit for a terminal: where it is and what it is called, and the snippet in lines that fit."""
    path, facts = plain(hit.memory.path), f"{hit.relevance:.2f}  {hit.date:%Y-%m-%d}"
    left = room - width(path) - len(facts) - 4
    title = cut(own_title(hit.memory), left) if left >= 8 else ""
    yield f"{paint(path, 'magenta')}  {paint(facts, 'dim')}" + (f"  {paint(title, 'bold')}" if title else "")
    for row in wrapped(list(cells(hit)), max(room - INDENT, 8)):
        yield " " * INDENT + _painted(row)


def own_title(memory: Memory) -> str:
    """A memory's title; nothing where the file's name says the same."""
    stem = memory.path.rpartition("/")[2].removesuffix(".md")
    return "" if fold(slug(memory.title)) == fold(slug(stem)) else phrase(memory.title)


def cells(hit: Hit) -> Iterator[Cell]:
    """The snippet, harmless and on one line, character by character: marks count those of the vault's text.

    A heading at its start that is the memory's title is left out: it stands above, or the path says the same.
    """
    marked = {place for start, end in hit.marks for place in range(start, min(end, len(hit.snippet)))}
    heading = f"# {' '.join(hit.title.split())} "
    start = len(heading) if hit.snippet.startswith(heading) else 0
    after_space = True
    for place, char in enumerate(hit.snippet.rstrip()[start:], start):
        if not char.isspace():
            yield plain(char), place in marked
        elif not after_space:
            yield " ", place in marked
        after_space = char.isspace()


def wrapped(text: Sequence[Cell], room: int) -> Iterator[Sequence[Cell]]:
    """Rows of at most `room` columns, broken at spaces, or anywhere in a word that is longer."""
    start = 0
    while start < len(text):
        end = _end(text, start, room)
        if end < len(text):
            end = next((place for place in range(end, start, -1) if text[place][0] == " "), end)
        yield text[start:end]
        start = end + (end < len(text) and text[end][0] == " ")


def _end(text: Sequence[Cell], start: int, room: int) -> int:
    """Where a row that begins at `start` is full; it holds one character at least."""
    taken = 0
    for place in range(start, len(text)):
        taken += width(text[place][0])
        if taken > room and place > start:
            return place
    return len(text)


def _painted(row: Sequence[Cell]) -> str:
    pieces = ((marked, "".join(text for text, _ in piece)) for marked, piece in groupby(row, key=lambda cell: cell[1]))
    return "".join(paint(text, "red") if marked else text for marked, text in pieces)


def _reason(reason: Reason) -> str:
    """A reason, and what it counts for if it counts."""
    score = f"{reason.score:.2f}" if reason.score else ""
    return f"{score:>{INDENT + 4}}  {plain(reason.text)}"


# --- no hits ------------------------------------------------------------------------------------------


def _print_nothing(vault: Vault, question: str, args: argparse.Namespace) -> None:
    """Say on stderr that nothing was found, and what to try."""
    where = namespace_of(vault, args.namespace) or "/"
    within = f" in {plain(where)}" if args.namespace else ""
    print(f"nothing found for {plain(short_repr(question))}{within}", file=sys.stderr)
    way = advice(args) if any(map(str.isalnum, question)) or emoji_terms(question) else WORDLESS
    print(f"hint: {way if is_there(vault, where) else addressed(NOWHERE, args.vault)}", file=sys.stderr)


def advice(args: argparse.Namespace) -> str:
    """What to try when nothing was found."""
    *given, last = [f"--{name.replace('_', '-')}" for name in NARROWING if getattr(args, name)] or [""]
    if last:
        return f"Leave out {', '.join(given)}{' or ' if given else ''}{last}, or try other words."
    if "all" in args.include:
        return "Try other words."
    return "Try other words, or --include all for what is archived, expired, deprecated or superseded too."


def run_explain_miss(args: argparse.Namespace) -> int:
    """Print why a search does not return a memory, or why it does."""
    with open_vault(args.vault, semantic=args.semantic) as vault:
        ref, question = reference(vault, args.ref), text_of(args.question)
        reasons = vault.explain_miss(ref, question, **_filters(vault, args))
        memory = vault.read(ref)
    if args.json:
        facts = {"id": memory.id, "path": memory.path, "question": question}
        print_json(facts | {"reasons": [reason_facts(reason) for reason in reasons]})
    else:
        print(paint(plain(memory.path), "magenta"))
        for reason in reasons:
            print(_reason(reason))
    return 0
