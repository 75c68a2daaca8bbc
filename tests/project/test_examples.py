"""The examples run offline and print the expected output."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, folder: Path) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_plain_loop_remembers_by_extraction_and_by_a_tool(tmp_path: Path) -> None:
    output = run("plain_loop.py", tmp_path / "notes")

    assert 'injected: <entry source="facts"' in output.partition("the second conversation")[2]
    assert "Alice is allergic to peanuts.\n" in output.partition("for people to read")[2]
    assert "Alice likes crackers.\n" in output.partition("for people to read")[2]


def test_two_agents_on_one_vault_lose_nothing(tmp_path: Path) -> None:
    output = run("two_agents.py", tmp_path / "notes")

    assert "Ada: 25 of 25" in output
    assert "Bob: 25 of 25" in output
    assert "facts/harbour/pilot.md" in output


def test_a_strands_agent_remembers_across_two_runs(tmp_path: Path) -> None:
    folder = tmp_path / "notes"

    first, second = (run("strands_agent.py", folder) for _ in range(2))

    assert "injected: nothing\n" in first
    assert "injected: <entry" in second
    assert "Alice is allergic to peanuts." in second.partition("injected")[2].partition("\n")[0]


def test_an_agent_uses_the_experiences_of_an_earlier_run(tmp_path: Path) -> None:
    first, second = (run("guide_agent.py", tmp_path / "notes") for _ in range(2))

    assert "recalled: nothing" in first
    assert "agent: I know of no allergy" in first
    assert "Bob is allergic to peanuts, traces included." in second.partition("recalled: ")[2].partition("\n")[0]
    assert "agent: The tuna sushi or the soup" in second
    assert "called tools: menu\n" in second
    assert len(list((tmp_path / "notes" / "experiences").glob("*.md"))) == 2


@pytest.mark.parametrize("name", ["plain_loop.py", "two_agents.py", "guide_agent.py"])
def test_without_extras_an_example_runs_and_imports_nothing_of_strands(name: str, tmp_path: Path) -> None:
    """An import finder that refuses the packages of the extras simulates an environment without them."""
    code = (
        "import runpy, sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in {'strands', 'opentelemetry', 'openai', 'anthropic', 'boto3'}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        f"sys.argv = ['x', {str(tmp_path / 'notes')!r}]\n"
        f"runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')\n"
        "assert not [one for one in sys.modules if one.startswith(('strands', 'memfs.integrations'))]\n"
    )

    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
