"""The problems of a vault that a person should resolve: in single files, and conflicts between files. Pure."""

from collections.abc import Iterable

from memfs.data_types import Memory, Problem
from memfs.namespace import fold, is_conflict_copy


def find_problems(found: Iterable[Memory | Problem], late_saves: Iterable[str]) -> list[Problem]:
    """Return all problems, sorted by path: those of the memories, those already found, and one per late save.

    `late_saves` are the paths of memories whose previous file an editor saved after memfs had replaced it.
    """
    problems: list[Problem] = []
    path_of_id: dict[str, str] = {}
    path_of_folded: dict[str, str] = {}  # by path in folded form
    for item in found:
        if isinstance(item, Problem):
            problems.append(item)
            continue
        problems += item.problems
        other = item.path if is_conflict_copy(item.path) else path_of_id.setdefault(item.id, item.path)
        if other != item.path:
            problems.append(
                Problem(item.path, 1, f"the same id as {other}", "id", item.id, "Delete the `id` line of one of them.")
            )
        other = path_of_folded.setdefault(fold(item.path), item.path)
        if other != item.path:
            problems.append(Problem(item.path, 1, f"the same name as {other} but for case or normal form"))
        if is_conflict_copy(item.path):
            hint = "Take over what you need, then remove this copy."
            reason = "another version of the memory beside it: both were changed at once"
            problems.append(Problem(item.path, 1, reason, hint=hint))
    for path in late_saves:
        problems.append(
            Problem(
                path,
                1,
                "a save that came too late is in .memfs/late",
                hint="Close the program that saved it, then write any memory.",
            )
        )
    return sorted(problems, key=lambda problem: (problem.path, problem.line))
