"""Cached handles of files that others replace."""

import os
from collections import Counter
from pathlib import Path

from memfs import Vault
from memfs.fs.files import open_root
from memfs.fs.handle_cache import MAX_STALE_HANDLES, HandleCache


def test_a_replaced_file_is_reopened_and_the_old_handle_stays_open_for_a_while(tmp_path: Path) -> None:
    handles, root = HandleCache("state", max_stale=MAX_STALE_HANDLES), open_root(tmp_path)
    first = handles.open(root, "log", os.O_RDWR | os.O_CREAT)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(3 * MAX_STALE_HANDLES):
        (tmp_path / "state").rename(tmp_path / f"aside-{number}")
        now = handles.open(root, "log", os.O_RDWR | os.O_CREAT)
        os.write(now, b"new")
        if number < MAX_STALE_HANDLES:
            os.write(first, b"old")  # by another thread that has the handle

    assert (tmp_path / "state" / "log").read_bytes() == b"new"
    assert (tmp_path / "aside-0" / "log").read_bytes() == b"old" * MAX_STALE_HANDLES
    assert len(os.listdir("/proc/self/fd")) == before + MAX_STALE_HANDLES
    handles.close()
    os.close(root)
    assert len(os.listdir("/proc/self/fd")) == before - 2


def test_logs_of_removed_texts_do_not_stay_open(vault: Vault) -> None:
    for number in range(MAX_STALE_HANDLES):
        vault.remove(vault.create("facts/tea.md", f"Bob drinks tea number {number}.\n").path)
    links = [*map(os.path.realpath, Path("/proc/self/fd").iterdir())]
    gone = Counter(link for link in links if link.startswith(str(vault.root)) and link.endswith(".log (deleted)"))

    assert max(gone.values(), default=0) <= 1  # the next user closes it
