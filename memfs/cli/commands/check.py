"""The command `check`: problems in the files of a vault, broken links included."""

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from memfs.cli.inputs import existing_namespace, open_vault
from memfs.cli.output import Progress, count, paint, print_json, print_problem, safe_text
from memfs.cli.parser import with_vault_option
from memfs.data_types import Problem
from memfs.json_output import check_json
from memfs.namespace import ARCHIVE
from memfs.vault.scope import has_first_segment
from memfs.vault.vault import Vault

MAX_LINKS_SHOWN = 20  # broken links, unless --all is given: some vaults have thousands
MAX_TARGETS_SHOWN = 3  # the most frequent targets of broken links


class CheckReport(NamedTuple):
    """The problems in files and links of a namespace, and counts of its memories."""

    memories: int  # archived ones included
    archived: int
    problems: list[Problem]
    links: list[Problem]
    orphans: int  # memories without links; 0 if no memory has links, so that their absence is not worth a message

    @property
    def memories_text(self) -> str:
        """The number of memories, and how many of them are archived."""
        archived = f", {self.archived:,} of them in {ARCHIVE}/" if self.archived else ""
        return count(self.memories, "memory") + archived


def check_files(vault: Vault, namespace: str | None = None) -> CheckReport:
    """Check all memories in a namespace and their links; without a namespace, the session logs too."""
    from memfs.upkeep.link_graph import Graph

    with Progress("looked for links in", activity="reading memories") as progress:
        problems, memories = vault.check(namespace), vault.list(namespace, archived=True)
        if namespace is None:
            from memfs.agent.sessions.vault_sessions import Sessions

            problems += Sessions(vault).check()
        graph = Graph.of(vault, namespace, progress=progress)
    has_links = bool(graph.triples() or graph.problems())
    archived = sum(has_first_segment(memory.path.split("/"), ARCHIVE) for memory in memories)
    return CheckReport(len(memories), archived, problems, graph.problems(), len(graph.orphans()) if has_links else 0)


def run_check(args: argparse.Namespace) -> int:
    """Print every problem with path and line; the exit code is 1 if there are any."""
    with open_vault(args.vault) as vault:
        found = check_files(vault, existing_namespace(vault, args.namespace))
    total = len(found.problems) + len(found.links)
    if args.json:
        print_json(check_json(found.memories, found.archived, (*found.problems, *found.links), found.orphans))
        return 1 if total else 0
    shown = found.links if args.all else found.links[:MAX_LINKS_SHOWN]
    for problem in (*found.problems, *shown):
        print_problem(problem)
    if hidden := len(found.links) - len(shown):
        print(f"… and {hidden:,} more; most often {_frequent_targets(found.links)}; --all prints them")
    print(f"{count(total, 'problem') if total else 'no problems'} in {found.memories_text}")
    if found.orphans:
        have = "has" if found.orphans == 1 else "have"
        line = (
            f"{count(found.orphans, 'memory')} {have} no links, which is no problem; `memfs graph --orphans` lists them"
        )
        print(paint(safe_text(with_vault_option(line, args.vault)), "dim"))
    return 1 if total else 0


def _frequent_targets(links: Sequence[Problem]) -> str:
    """Return the most frequent targets of broken links with their counts."""
    targets = Counter(problem.value for problem in links).most_common(MAX_TARGETS_SHOWN)
    return ", ".join(f"[[{safe_text(name)}]] ({number:,})" for name, number in targets)
