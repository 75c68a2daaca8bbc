"""Nothing is left behind by processes that start, write and are killed."""

import os
import random
import select
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import TIMEOUT_SECONDS
from support.vaults import assert_cleaned_up, temporary_files_left

from memfs import Vault

from .figures import figure

SMALL, FULL = 8, 100
SCRIPT = r"""
import os, sys
from memfs import Vault
vault = Vault(sys.argv[1])
os.write(1, b".")
for number in range(10**6):
    vault.update(sys.argv[2], body=f"Text {os.getpid()} {number}.\n" * 1000)
"""


@pytest.mark.parametrize("starts", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_killed_processes_leave_nothing_behind(tmp_path: Path, starts: int) -> None:
    """After each kill no process of its session remains, and after each start no temporary file of earlier ones."""
    root, rng = tmp_path / "vault", random.Random(starts)
    with Vault.init(root) as vault:
        ref = vault.add("Text.", "/notes").path
    temporary, files, sizes = [], [], []
    for _ in range(starts):
        _start_and_kill(root, ref, rng.uniform(0.0, 0.05))
        temporary.append(len(list((root / ".memfs" / "tmp").iterdir())))
        files.append(sum(path.is_file() for path in (root / ".memfs").rglob("*")))
        sizes.append(sum(path.stat().st_size for path in (root / ".memfs").rglob("*") if path.is_file()))

    assert max(temporary) <= 1, "a start does not clear the files of an earlier one"
    assert max(files) < 400
    assert max(sizes) < 4 << 20, "kept versions grow without bound"
    with Vault(root) as vault:
        assert vault.check() == []
        assert len(vault.versions(ref)) <= 20
    assert_cleaned_up(root)
    assert temporary_files_left(root) == []
    figure(
        "nothing left behind",
        f"{starts} starts and kills: 0 orphan processes, 0 temporary files after the next start, .memfs at most "
        f"{max(files)} files and {max(sizes) / 1024:.0f} KiB",
    )


def _start_and_kill(root: Path, ref: str, after: float) -> None:
    command = [sys.executable, "-c", SCRIPT, str(root), ref]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, env=env) as process:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], TIMEOUT_SECONDS)[0]
        fd = os.pidfd_open(process.pid)
        assert select.select([fd], [], [], after)[0] == [], "the process ended"
        os.close(fd)
        process.kill()
    assert _session_processes(process.pid) == []


def _session_processes(leader: int) -> list[str]:
    """Return the processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == leader:
                found.append(entry.name)
    return found
