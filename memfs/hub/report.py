"""The report of a push or a pull, and the builder that collects it. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from memfs.data_types import Problem

Progress = Callable[[int, int], None]  # called with the numbers done and in total


@dataclass(frozen=True, slots=True)
class Conflict:
    """A memory that both sides changed; nothing was overwritten.

    If a pull wrote the hub's version beside the file, `copy` is its path.
    """

    path: str
    reason: str
    copy: str = ""


@dataclass(frozen=True, slots=True)
class HubReport:
    """What a push sent or a pull received; for a dry run, what it would send or receive."""

    direction: str  # push or pull
    address: str  # of the hub, without user and password
    namespace: str
    created: tuple[str, ...]
    updated: tuple[str, ...]
    moved: tuple[tuple[str, str], ...]  # from, to
    removed: tuple[str, ...]
    unchanged: int  # memories that were compared and are the same on both sides
    conflicts: tuple[Conflict, ...]
    problems: tuple[Problem, ...]  # files that cannot be mirrored, and why
    seconds: float
    dry_run: bool = False

    @property
    def changes(self) -> int:
        """The number of memories that were sent or received."""
        return len(self.created) + len(self.updated) + len(self.moved) + len(self.removed)


@dataclass(slots=True)
class ReportBuilder:
    """Collects the changes, conflicts and problems of a push or a pull that is running."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    moved: list[tuple[str, str]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unchanged: int = 0
    conflicts: list[Conflict] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def add_conflict(self, path: str, reason: str, copy: str = "") -> None:
        """Add a memory that both sides changed."""
        self.conflicts.append(Conflict(path, reason, copy))

    def add_problem(self, path: str, reason: str) -> None:
        """Add a file that cannot be mirrored."""
        self.problems.append(Problem(path, 1, reason))

    def add_unsent_removals(self, namespace: str, missing: int, total: int) -> None:
        """Add the problem that suspiciously many memories of a namespace are missing, so their removal is not sent."""
        reason = f"{missing:,} of {total:,} memories are gone: their removal is not sent"
        self.problems.append(Problem(namespace, 0, reason, hint="If they are meant to be, push with --all-removals."))

    def build(self, direction: str, address: str, namespace: str, *, seconds: float, dry_run: bool) -> HubReport:
        """Return the report, with each list sorted by path."""
        return HubReport(
            direction, address, namespace,
            _sorted(self.created), _sorted(self.updated), tuple(sorted(self.moved)), _sorted(self.removed),
            self.unchanged,
            tuple(sorted(self.conflicts, key=lambda one: one.path)),
            tuple(sorted(self.problems, key=lambda one: (one.path, one.line))),
            seconds, dry_run,
        )  # fmt: skip


def _sorted(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(paths))
