"""The watcher thread."""

import time
from pathlib import Path

from memfs import Vault
from memfs.freshness.watcher import Watcher


def test_a_watcher_continues_after_a_failed_scan(tmp_path: Path) -> None:
    Vault.init(tmp_path / "v")
    scans: list[int] = []

    def look() -> bool:
        scans.append(1)
        if len(scans) in {2, 3}:
            raise OSError(5, "not mounted")
        return True

    watcher = Watcher(str(tmp_path / "v"), wait=lambda _: False, refresh=look)
    watcher.start()
    try:
        deadline = time.monotonic() + 30
        while len(scans) < 6:
            assert watcher.is_alive
            assert time.monotonic() < deadline
        assert watcher.trouble == ""
    finally:
        watcher.stop()
    assert not watcher.is_alive
