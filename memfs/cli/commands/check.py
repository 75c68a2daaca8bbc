"""check: what a person should look at in the files of a vault."""

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from memfs.cli.inputs import known_namespace, open_vault
from memfs.cli.output import Progress, count, paint, plain, print_json, print_problem, problem_facts
from memfs.cli.parser import addressed
from memfs.data_types import Problem
from memfs.namespace import ARCHIVE
from memfs.vault.scope import is_below
from memfs.vault.vault import Vault

MOST_LINKS = 20  # that lead nowhere, in one listing: the vaults of some people have thousands
MOST_WANTED = 3


class Checked(NamedTuple):
    """What there is to see to, and how many memories have no links in a vault that has some."""

    memories: int
    archived: int  # of these
    problems: list[Problem]
    links: list[Problem]
    orphans: int

    @property
    def looked_at(self) -> str:
        """How many memories were looked at."""
        archived = f", {self.archived:,} of them in {ARCHIVE}/" if self.archived else ""
        return count(self.memories, "memory") + archived


def checked(vault: Vault, where: str | None = None) -> Checked:
    """Look at all memories below a namespace, at their links and, in a whole vault, at the logs of sessions."""
    from memfs.upkeep.link_graph import Graph

    with Progress("looked for links in", doing="reading memories") as progress:
        problems, memories = vault.check(where), vault.list(where, archived=True)
        if where is None:
            from memfs.agent.sessions.vault_sessions import Sessions

            problems += Sessions(vault).check()
        graph = Graph.of(vault, where, progress=progress)
    has_links = bool(graph.triples() or graph.problems())
    archived = sum(is_below(memory.path.split("/"), ARCHIVE) for memory in memories)
    return Checked(len(memories), archived, problems, graph.problems(), len(graph.orphans()) if has_links else 0)


def run_check(args: argparse.Namespace) -> int:
    """Print every problem where an editor finds it."""
    with open_vault(args.vault) as vault:
        found = checked(vault, known_namespace(vault, args.namespace))
    total = len(found.problems) + len(found.links)
    if args.json:
        facts = [problem_facts(problem) for problem in (*found.problems, *found.links)]
        told = {"memories": found.memories, "archived": found.archived}
        print_json(told | {"problems": facts, "orphans": found.orphans})
        return 1 if total else 0
    shown = found.links if args.all else found.links[:MOST_LINKS]
    for problem in (*found.problems, *shown):
        print_problem(problem)
    if left := found.links[len(shown) :]:
        print(f"… and {_more(left, found.links)}; --all prints them")
    print(f"{count(total, 'problem') if total else 'no problems'} in {found.looked_at}")
    if found.orphans:
        have = "has" if found.orphans == 1 else "have"
        line = (
            f"{count(found.orphans, 'memory')} {have} no links, which is no problem; `memfs graph --orphans` lists them"
        )
        print(paint(plain(addressed(line, args.vault)), "dim"))
    return 1 if total else 0


def _more(left: Sequence[Problem], links: Sequence[Problem]) -> str:
    """How many links are left, and where most of all of them would lead to."""
    wanted = Counter(problem.value for problem in links).most_common(MOST_WANTED)
    names = ", ".join(f"[[{plain(name)}]] ({number:,})" for name, number in wanted)
    return f"{len(left):,} more; most often {names}"
