"""The command `eval`: measure how well searches find the expected memories."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memfs.cli.inputs import open_vault
from memfs.cli.output import (
    Progress,
    count,
    one_line,
    paint,
    print_json,
    print_problem,
    print_table,
    safe_text,
)
from memfs.json_output import problems_json, reasons_json
from memfs.upkeep.evaluation import Answer, Evaluation, Outcome, Query, evaluate, queries_of, read_queries
from memfs.vault.vault import Vault

MAX_ROWS = 50  # found memories that are listed, those at the worst places first
TOLERANCE = 1e-9  # for the rounding error of a mean


def run_eval(args: argparse.Namespace) -> int:
    """Run the questions of a vault and print the results; the exit code is 1 if the recall is too low."""
    with open_vault(args.vault) as vault:
        queries = _queries(vault, args.file)
        with Progress() as progress:
            vault.sync(progress)
        with Progress("searched") as progress:
            result = evaluate(vault, queries, k=args.k, progress=progress)
    is_passed = result.recall >= args.min_recall - TOLERANCE and not result.problems
    if args.json:
        print_json(_evaluation_json(result, args, is_passed=is_passed))
    else:
        _print(result, args)
    return 0 if is_passed else 1


def _queries(vault: Vault, file: str | None) -> Sequence[Query]:
    if file is None:
        return queries_of(vault)
    if file == "-":
        return read_queries(sys.stdin.buffer.read(), "stdin")
    return read_queries(Path(file).read_bytes(), file)


# --- text ---------------------------------------------------------------------------------------------


def _print(result: Evaluation, args: argparse.Namespace) -> None:
    for problem in result.problems:
        print_problem(problem)
    for outcome in result.outcomes:
        _print_misses(outcome)
    rows = [_row(outcome, answer) for outcome in result.outcomes for answer in outcome.answers if answer.place]
    if rows:
        print_table(("memory", "place", "question"), sorted(rows, key=lambda row: -int(row[1]))[:MAX_ROWS])
        print(f"and {len(rows) - MAX_ROWS:,} more, at the same place or before\n" if len(rows) > MAX_ROWS else "")
    recall = f"{_recall_label(result, args.k)} {result.recall:.2f}"
    figures = f"{recall}, MRR {result.mrr:.2f}, hit ratio {result.hit_ratio:.2f}"
    print(paint(f"{count(len(result.outcomes), 'question')}: {figures}", "bold"))
    print(f"a search takes {result.p50 * 1000:.1f} ms (p50), {result.p95 * 1000:.1f} ms (p95)")
    if result.recall < args.min_recall - TOLERANCE:
        sys.stdout.flush()
        print(f"recall is below --min-recall {args.min_recall:g}", file=sys.stderr)


def _print_misses(outcome: Outcome) -> None:
    """Print the expected memories that a question did not find, each with the reasons."""
    missed = [answer for answer in outcome.answers if answer.path and not answer.place]
    if not missed:
        return
    query = outcome.query
    location = paint(f"  ({safe_text(query.path)}:{query.line})", "dim")
    print(paint("missed: ", "red") + one_line(query.question) + location)
    for answer in missed:
        print(f"    {paint(safe_text(answer.path), 'magenta')}")
        for reason in answer.reasons:
            print(f"        {safe_text(reason.text)}")
    found = ", ".join(safe_text(hit.memory.path) for hit in outcome.hits)
    print(f"    found: {found or 'nothing'}\n")


def _row(outcome: Outcome, answer: Answer) -> tuple[str, str, str]:
    return safe_text(answer.path), str(answer.place), one_line(outcome.query.question)


def _recall_label(result: Evaluation, k: int | None) -> str:
    """Return `recall@5` if all questions count 5 hits, `recall@k` if the numbers differ."""
    limits = {outcome.query.k for outcome in result.outcomes} if k is None else {k}
    return f"recall@{limits.pop()}" if len(limits) == 1 else "recall@k"


# --- JSON ---------------------------------------------------------------------------------------------


def _evaluation_json(result: Evaluation, args: argparse.Namespace, *, is_passed: bool) -> dict[str, Any]:
    return {
        "questions": len(result.outcomes), "recall": result.recall, "mrr": result.mrr, "hit_ratio": result.hit_ratio,
        "p50": result.p50, "p95": result.p95, "min_recall": args.min_recall, "passed": is_passed,
        "results": [_outcome_json(outcome, args.k) for outcome in result.outcomes],
        "problems": problems_json(result.problems),
    }  # fmt: skip


def _outcome_json(outcome: Outcome, k: int | None) -> dict[str, Any]:
    query = outcome.query
    found = [{"id": hit.memory.id, "path": hit.memory.path, "relevance": hit.relevance} for hit in outcome.hits]
    return {
        "question": query.question, "line": query.line, "k": query.k if k is None else k, "recall": outcome.recall,
        "reciprocal_rank": outcome.reciprocal_rank, "seconds": outcome.seconds,
        "expected": [_answer_json(answer) for answer in outcome.answers], "found": found,
    }  # fmt: skip


def _answer_json(answer: Answer) -> dict[str, Any]:
    found = {"ref": answer.ref, "path": answer.path or None, "place": answer.place or None}
    return found | {"reasons": reasons_json(answer.reasons)}
