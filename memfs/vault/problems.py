"""What a person should look at in a vault: problems of files, and of files among each other. Pure."""

from collections.abc import Iterable

from memfs.data_types import Memory, Problem
from memfs.namespace import fold, is_conflict_copy


def check(found: Iterable[Memory | Problem], late: Iterable[tuple[str, bytes]]) -> list[Problem]:
    """Every problem, by path."""
    problems: list[Problem] = []
    ids: dict[str, str] = {}
    names: dict[str, str] = {}
    for item in found:
        if isinstance(item, Problem):
            problems.append(item)
            continue
        problems += item.problems
        other = item.path if is_conflict_copy(item.path) else ids.setdefault(item.id, item.path)
        if other != item.path:
            problems.append(Problem(item.path, 1, f"the same id as {other}", "id", item.id, "Delete one of the lines."))
        other = names.setdefault(fold(item.path), item.path)
        if other != item.path:
            problems.append(Problem(item.path, 1, f"the same name as {other} but for case or normal form"))
        if is_conflict_copy(item.path):
            hint = "Take over what you need, then remove this copy."
            reason = "another version of the memory beside it: both were changed at once"
            problems.append(Problem(item.path, 1, reason, hint=hint))
    for path, _ in late:
        problems.append(Problem(path, 1, "a save that came too late is in .memfs/late", hint="Write any memory."))
    return sorted(problems, key=lambda problem: (problem.path, problem.line))
