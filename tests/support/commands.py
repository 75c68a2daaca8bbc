"""The repository, and the types of the fixtures that run commands: `memfs`, `git` and `run_script`."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
NOBODY = 65534  # the user id of an ordinary user

Git = Callable[..., str]
Script = Callable[..., "subprocess.CompletedProcess[str]"]


class Ran(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        return json.loads(self.out)


Memfs = Callable[..., Ran]


def commit_all(root: Path, git: Git) -> None:
    """Commit everything in a git repository."""
    git(root, "add", "-A")
    git(root, "commit", "-qm", "step")
