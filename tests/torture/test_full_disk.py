"""A full disk: writes are refused, space is freed, writers continue."""

from pathlib import Path

import pytest
from support.files import mounted
from support.processes import Barrier, Event, Log, WorkerPool, checksummed, tokens
from support.vaults import assert_cleaned_up, temporary_files_left

from memfs import Vault
from memfs.errors import NoSpaceError

from .figures import figure

SMALL, FULL = 1, 12
SIZE, BALLAST = 3 << 20, 3 << 19
WRITERS, REFUSALS, AFTERWARDS = 4, 4, 20


@pytest.mark.parametrize("rounds", [pytest.param(SMALL), pytest.param(FULL, marks=pytest.mark.torture)])
def test_nothing_acknowledged_is_lost_on_a_full_disk(tmp_path: Path, rounds: int) -> None:
    """Acknowledged writes exist, refused ones do not, and writing continues once there is space."""
    events: list[Event] = []
    for number in range(rounds):
        place = tmp_path / str(number)
        place.mkdir()
        with mounted("-t", "tmpfs", "-o", f"size={SIZE}", "memfs-test", at=place / "disk"):
            events += _fill(place, place / "disk")
    done = sum(event["event"] == "done" for event in events)
    refused = sum(event["event"] == "refused" for event in events)
    figure(
        "disk full, read-only, unreadable: a full disk",
        f"{rounds} disks of 3 MB filled by {WRITERS} processes: {done} acknowledged, 0 lost; {refused} refused, 0 "
        "of them stored; all writers continued without help",
    )


def _fill(place: Path, root: Path) -> list[Event]:
    log = Log(place / "log")
    with Vault.init(root) as vault:
        ref = vault.add("Shared.", "/shared").path
    (root / ".ballast").write_bytes(bytes(BALLAST))
    with WorkerPool(place) as pool:
        barrier = Barrier(place)
        writers = [
            pool.start(write_until_full_and_after, str(root), ref, number, str(place / "log"), barrier.path)
            for number in range(WRITERS)
        ]
        barrier.ready(WRITERS)
        assert len(Vault(root).list()) > 1
        (root / ".ballast").unlink()
        barrier.go(WRITERS)
        for writer in writers:
            writer.finish()
    events = log.new()
    with Vault(root) as vault:
        found = [token for memory in vault.list() for token in tokens(memory.body)]
        assert vault.check() == []
    done = {event["token"] for event in events if event["event"] == "done"}
    refused = {event["token"] for event in events if event["event"] == "refused"}
    assert len(found) == len(set(found))
    assert done - set(found) == set()
    assert refused & set(found) == set(), "refused, but stored"
    assert_cleaned_up(root)
    assert temporary_files_left(root) == []
    return events


def write_until_full_and_after(root: str, ref: str, number: int, path: str, barrier: str) -> None:
    """Write until refused several times, wait for free space, then write without a refusal."""
    log, count = Log(path), 0
    with Vault(root) as vault:

        def write() -> bool:
            nonlocal count
            count += 1
            token = f"{number}-{count}"
            try:
                if count % 3:
                    vault.add(f"Note {token}.\n{checksummed(token)}", f"/own/{number % 2}")
                else:
                    vault.append(ref, checksummed(token))
            except NoSpaceError:
                log.note(event="refused", token=token)
                return False
            log.note(event="done", token=token)
            return True

        refusals = 0
        while refusals < REFUSALS:
            refusals += not write()
        Barrier.wait(barrier)
        for _ in range(AFTERWARDS):
            assert write(), "refused although there is space"
