"""`memfs watch` as a process, and its queue of changes."""

import json
import os
import select
import signal
import subprocess
import time
from collections import deque
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from statistics import median
from threading import Thread

import pytest
from support.cli_process import MEMFS, TIMEOUT_SECONDS, environment, run

from memfs import Vault
from memfs.cli.commands.watch import ChangeQueue, check_watcher
from memfs.data_types import Change
from memfs.errors import MemfsError


def test_a_change_queue_passes_on_changes_of_other_threads_and_ends_with_its_reader() -> None:
    reader, writer = os.pipe()
    changes = [Change("updated", f"{number}.md") for number in range(100_000)]
    with ChangeQueue() as queue:
        thread = Thread(target=lambda: deque(map(queue.put, changes)))
        thread.start()
        received = list(islice(queue.until_closed(writer, lambda: None), len(changes)))
        thread.join(TIMEOUT_SECONDS)
        os.close(reader)
        rest = list(queue.until_closed(writer, lambda: None))
    os.close(writer)

    assert received == changes
    assert rest == []


class Watching:
    """A running `memfs watch`; it has printed its first message."""

    def __init__(self, where: Path, *words: str) -> None:
        pipe = subprocess.PIPE
        command = [*MEMFS, "watch", *words]
        self.process = subprocess.Popen(command, cwd=where, env=environment(), stdout=pipe, stderr=pipe, text=True)
        assert self.process.stdout
        assert self.process.stderr
        self.out, self.err = self.process.stdout, self.process.stderr
        self.first_message = self.err.readline()

    def line(self) -> str:
        """Return the next line it prints."""
        assert select.select([self.out], [], [], TIMEOUT_SECONDS)[0]
        return self.out.readline()

    def end(self, number: int | None = None) -> tuple[int, str]:
        """Send a signal, if given; return the exit code and the rest of stderr."""
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(TIMEOUT_SECONDS)
        rest = self.err.read()
        self.err.close()
        self.out.close()
        return code, rest


def test_watch_prints_changes_of_other_programs_within_a_second(example: Path) -> None:
    watching = Watching(example)
    here, there = example / "people/new.md", example / "notes/new.md"
    seen = []
    for act in (
        lambda: here.write_text("New."),
        lambda: here.write_text("Newer."),
        lambda: here.rename(there),
        there.unlink,
    ):
        started = time.monotonic()
        act()
        seen.append((watching.line(), time.monotonic() - started))

    assert watching.first_message == f"watching {example}, 45 memories; stop with Ctrl-C\n"
    assert [line for line, _ in seen] == [
        "created people/new.md\n",
        "updated people/new.md\n",
        "moved people/new.md -> notes/new.md\n",
        "removed notes/new.md\n",
    ]
    assert median(taken for _, taken in seen) < 1
    assert watching.end(signal.SIGINT) == (0, "")


def test_watch_prints_one_json_object_per_line_and_ends_with_sigterm(example: Path) -> None:
    watching = Watching(example, "--json")
    by_hand = example / "people/new.md"
    by_hand.write_text("New.")
    first = json.loads(watching.line())
    added = json.loads(run(example, "add", "Emma sings.", "-n", "/facts/emma", "--json").stdout)
    second = json.loads(watching.line())
    by_hand.unlink()
    third = json.loads(watching.line())

    assert list(first) == ["kind", "path", "old_path", "id", "time"]
    assert (first["kind"], first["path"], first["old_path"], first["id"]) == (
        "created", "people/new.md", None, "people/new",
    )  # fmt: skip
    assert (second["kind"], second["id"]) == ("created", added["id"])
    assert (third["kind"], third["id"]) == ("removed", None)
    assert datetime.fromisoformat(first["time"]) <= datetime.now(UTC)
    assert watching.end(signal.SIGTERM) == (0, "")


def test_watch_never_gives_a_removed_memory_the_id_of_another(example: Path) -> None:
    (example / "people/other.md").write_text("---\nid: people/new.md\n---\n\nOther.")
    (example / "people/new.md").write_text("New.")
    watching = Watching(example, "--json")
    (example / "people/new.md").unlink()

    value = json.loads(watching.line())

    assert (value["kind"], value["path"], value["id"]) == ("removed", "people/new.md", None)
    assert watching.end(signal.SIGTERM) == (0, "")


def test_watch_ends_when_its_reader_goes_away(example: Path) -> None:
    quiet, busy = Watching(example), Watching(example)
    quiet.out.close()
    (example / "people/new.md").write_text("New.")
    busy.line()
    busy.out.close()

    assert quiet.end() == (0, "")
    assert busy.end() == (0, "")


def test_watch_works_with_head(example: Path) -> None:
    watching = Watching(example)
    head = subprocess.Popen(["head", "-1"], stdin=watching.out, stdout=subprocess.PIPE)
    watching.out.close()
    (example / "people/new.md").write_text("New.")

    assert head.communicate(timeout=TIMEOUT_SECONDS)[0] == b"created people/new.md\n"
    assert watching.end() == (0, "")


def test_status_shows_the_watcher(example: Path) -> None:
    watching = Watching(example)
    (example / "people/new.md").write_text("New.")
    watching.line()
    status = json.loads(run(example, "status", "--json").stdout)
    watching.end(signal.SIGINT)
    later = json.loads(run(example, "status", "--json").stdout)

    assert (status["watcher"], status["notices"]) == (str(watching.process.pid), "watcher")
    assert later["watcher"] == ""


def test_watch_ends_when_the_vault_is_gone(example: Path) -> None:
    watching = Watching(example)
    example.rename(example.parent / "elsewhere")
    code, stderr = watching.end()

    assert code == 2
    assert f"memfs: {example}: no vault here\n" in stderr
    assert "Traceback" not in stderr


def test_watch_fails_when_its_watcher_ended(vault: Vault) -> None:
    with pytest.raises(MemfsError, match="the watcher ended") as caught:
        check_watcher(vault)

    assert caught.value.hint


def test_watch_without_a_vault_is_a_usage_error(tmp_path: Path) -> None:
    done = run(tmp_path, "watch")

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"no vault here\nhint: Make one with" in done.stderr
