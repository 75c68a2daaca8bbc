"""Measuring what searches find: eval."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memfs.cli.inputs import open_vault
from memfs.cli.output import (
    Progress,
    count,
    paint,
    phrase,
    plain,
    print_json,
    print_problem,
    print_table,
    problem_facts,
    reason_facts,
)
from memfs.upkeep.evaluation import Answer, Evaluation, Outcome, Query, evaluate, queries_of, read_queries
from memfs.vault.vault import Vault

ROWS = 50  # of found memories that are listed, those at the last places first
ALMOST = 1e-9  # a mean of shares may fall short of a bound by so much


def run_eval(args: argparse.Namespace) -> int:
    """Ask the questions of a vault, and tell what they found; exit code 1 if that is less than was asked for."""
    with open_vault(args.vault) as vault:
        queries = _queries(vault, args.file)
        with Progress() as progress:
            vault.sync(progress)
        with Progress("asked") as progress:
            result = evaluate(vault, queries, k=args.k, progress=progress)
    is_good = result.recall >= args.min_recall - ALMOST and not result.problems
    if args.json:
        print_json(_facts(result, args, is_good=is_good))
    else:
        _print(result, args)
    return 0 if is_good else 1


def _queries(vault: Vault, file: str | None) -> Sequence[Query]:
    if file is None:
        return queries_of(vault)
    if file == "-":
        return read_queries(sys.stdin.buffer.read(), "stdin")
    return read_queries(Path(file).read_bytes(), file)


# --- for people ---------------------------------------------------------------------------------------


def _print(result: Evaluation, args: argparse.Namespace) -> None:
    for problem in result.problems:
        print_problem(problem)
    for outcome in result.outcomes:
        _print_misses(outcome)
    rows = [_row(outcome, answer) for outcome in result.outcomes for answer in outcome.answers if answer.place]
    if rows:
        print_table(("memory", "place", "question"), sorted(rows, key=lambda row: -int(row[1]))[:ROWS])
        print(f"and {len(rows) - ROWS:,} more, at the same place or before\n" if len(rows) > ROWS else "")
    figures = f"{_label(result, args.k)} {result.recall:.2f}, MRR {result.mrr:.2f}, hit ratio {result.hit_ratio:.2f}"
    print(paint(f"{count(len(result.outcomes), 'question')}: {figures}", "bold"))
    print(f"a search takes {result.p50 * 1000:.1f} ms (p50), {result.p95 * 1000:.1f} ms (p95)")
    if result.recall < args.min_recall - ALMOST:
        sys.stdout.flush()
        print(f"recall is below --min-recall {args.min_recall:g}", file=sys.stderr)


def _print_misses(outcome: Outcome) -> None:
    """The expected memories that a question did not find, and what stood in their way."""
    missed = [answer for answer in outcome.answers if answer.path and not answer.place]
    if not missed:
        return
    query = outcome.query
    print(paint("missed: ", "red") + phrase(query.question) + paint(f"  ({plain(query.path)}:{query.line})", "dim"))
    for answer in missed:
        print(f"    {paint(plain(answer.path), 'magenta')}")
        for reason in answer.reasons:
            print(f"        {plain(reason.text)}")
    found = ", ".join(plain(hit.memory.path) for hit in outcome.hits)
    print(f"    found: {found or 'nothing'}\n")


def _row(outcome: Outcome, answer: Answer) -> tuple[str, str, str]:
    return plain(answer.path), str(answer.place), phrase(outcome.query.question)


def _label(result: Evaluation, k: int | None) -> str:
    """`recall@5` where every question counts as many hits."""
    known = {outcome.query.k for outcome in result.outcomes} if k is None else {k}
    return f"recall@{known.pop()}" if len(known) == 1 else "recall@k"


# --- for programs -------------------------------------------------------------------------------------


def _facts(result: Evaluation, args: argparse.Namespace, *, is_good: bool) -> dict[str, Any]:
    return {
        "questions": len(result.outcomes), "recall": result.recall, "mrr": result.mrr, "hit_ratio": result.hit_ratio,
        "p50": result.p50, "p95": result.p95, "min_recall": args.min_recall, "passed": is_good,
        "results": [_outcome_facts(outcome, args.k) for outcome in result.outcomes],
        "problems": [problem_facts(problem) for problem in result.problems],
    }  # fmt: skip


def _outcome_facts(outcome: Outcome, k: int | None) -> dict[str, Any]:
    query = outcome.query
    found = [{"id": hit.memory.id, "path": hit.memory.path, "relevance": hit.relevance} for hit in outcome.hits]
    return {
        "question": query.question, "line": query.line, "k": query.k if k is None else k, "recall": outcome.recall,
        "reciprocal_rank": outcome.reciprocal_rank, "seconds": outcome.seconds,
        "expected": [_answer_facts(answer) for answer in outcome.answers], "found": found,
    }  # fmt: skip


def _answer_facts(answer: Answer) -> dict[str, Any]:
    facts = {"ref": answer.ref, "path": answer.path or None, "place": answer.place or None}
    return facts | {"reasons": [reason_facts(reason) for reason in answer.reasons]}
