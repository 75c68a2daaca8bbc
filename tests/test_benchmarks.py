"""The benchmarks run, and print every row. No time is ever asserted."""

import json
import subprocess
import sys
from pathlib import Path

ROWS = [
    "vault.add, empty namespace",
    "vault.add, 10 there",
    "vault.update, one key",
    "vault.update, the body",
    "vault.append, one line",
    "vault.add_many, an item of 4",
    "vault.list, 20 memories",
    "vault.list, headers parsed, bodies taken",
    "import memfs",
    "import memfs; memfs.Vault",
    "memfs --version",
    "parse, flat header",
    "parse, header with a comment",
]


def test_every_row_is_printed_with_its_floor_and_ratio(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--size", "tiny", "--dir", str(tmp_path)]
    command += ["--json", str(tmp_path / "figures.json")]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    printed = done.stdout.splitlines()
    assert "commit" in printed[0]
    assert [name for name in ROWS if not any(line.startswith(name) and "x" in line for line in printed)] == []
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in figures["rows"]] == ROWS
    assert all(row["ratio"] > 0 for row in figures["rows"])
