"""docs/cli.md: its transcripts match the output of the commands, and every command is on the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

from memfs.cli.command_table import COMMANDS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
MASKS = (
    (r"m-[0-9a-z]{26}", "ID"),
    (r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]+-[0-9a-f]+", "STAMP"),
    (r"\b[0-9a-f]{16}\b", "HASH"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ", "TIME"),
    (r"(?m)^/\S*/garden", "/tmp/garden"),
    (r"retention \d+%: rank x 0\.\d\d", "retention N%: rank x N"),
    (r"\d+\.\d ms", "0.0 ms"),
    (r"MRR \d\.\d\d", "MRR N"),  # memories fade over time, which changes the order
    (r"postgresql://\S+/\w+", "HUB"),
    (r"\d{8}T\d{6}Z", "MOMENT"),
    (r"in \d+\.\d\d s", "in N s"),
    (r" +", " "),
)


def masked(text: str) -> str:
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text)
    return text


def transcripts() -> list[tuple[str, str]]:
    """Return every command of the page with the output shown there."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    steps = [step for block in blocks for step in re.split(r"(?m)^\$ ", block)[1:]]
    return [(command, output) for command, _, output in (step.partition("\n") for step in steps)]


def test_the_transcripts_match_the_output(example: Path, postgres_url: str) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "LC_ALL": "C.UTF-8", "MEMFS_HUB": postgres_url}
    assert len(transcripts()) >= 15
    for command, output in transcripts():
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1; {command}"], cwd=example, env=env, capture_output=True, text=True, timeout=60
        )
        assert masked(done.stdout) == masked(output), command


def test_every_command_in_the_help_is_on_the_page() -> None:
    done = subprocess.run([sys.executable, "-m", "memfs", "--help"], capture_output=True, text=True, timeout=60)
    names = re.findall(r"(?m)^  (\S+)", done.stdout)
    headings = " ".join(re.findall(r"(?m)^## .*: (.*)$", PAGE.read_text(encoding="utf-8"))).replace(",", "").split()

    assert sorted(names) == sorted(command.name for command in COMMANDS)
    assert sorted(names) == sorted(headings)
    for name in names:
        assert any(f"memfs {name}" in command for command, _ in transcripts())
