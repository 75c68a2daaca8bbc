"""Progress lines and log messages of the command line."""

import logging
import os
import pty
import select
import sys

import pytest
from support.cli_process import TIMEOUT_SECONDS
from support.commands import Memfs

from memfs.cli import output
from memfs.cli.inputs import DuplicateFilter, LogFormatter
from memfs.cli.output import Progress


def test_progress_is_shown_on_a_terminal_after_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(output, "PROGRESS_DELAY_SECONDS", float(TIMEOUT_SECONDS))
        monkeypatch.setattr(output, "PROGRESS_INTERVAL_SECONDS", float(TIMEOUT_SECONDS))
        with Progress() as hasty:
            hasty(1, 2)
        monkeypatch.setattr(output, "PROGRESS_DELAY_SECONDS", 0.0)
        with Progress() as slow:
            slow(12_000, 100_000)
            slow(12_001, 100_000)
        shown, seen = "\r\x1b[Kindexed 12,000 of 100,000\r\x1b[K", ""
        while len(seen) < len(shown):  # a terminal hands it on in pieces
            seen += os.read(master, 1000).decode()
    os.close(master)

    assert seen == shown


@pytest.mark.parametrize(
    ("words", "doing"),
    [
        (["list"], "reading memories"),
        (["check"], "reading memories"),
        (["graph"], "reading memories"),
        (["stats"], "reading memories"),
        (["prune"], "reading memories"),
        (["doctor"], "comparing the index with the files"),
        (["audit"], "looking for"),
    ],
)
def test_slow_commands_show_their_activity(
    memfs: Memfs, monkeypatch: pytest.MonkeyPatch, words: list[str], doing: str
) -> None:
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setattr(output, "PROGRESS_DELAY_SECONDS", 0.0)
        memfs(*words)
        assert select.select([master], [], [], TIMEOUT_SECONDS)[0], "nothing was shown"
        seen = os.read(master, 4000).decode()
    os.close(master)

    assert seen.startswith("\r\x1b[K")
    assert f"\r\x1b[K{doing}" in seen


def test_progress_is_shown_only_on_terminals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "PROGRESS_DELAY_SECONDS", 0.0)
    with Progress() as progress:
        progress(1, 2)

    assert capsys.readouterr().err == ""


def test_a_log_message_is_one_safe_line_and_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    handler.addFilter(DuplicateFilter())
    log = logging.Logger("memfs.test")
    log.addHandler(handler)
    try:
        raise ValueError("a\x1bb")
    except ValueError:
        log.exception("it\nfailed")
    log.warning("read-only")
    log.warning("read-only")

    assert capsys.readouterr().err == "memfs: error: it\\x0afailed: a\\x1bb\nmemfs: warning: read-only\n"
