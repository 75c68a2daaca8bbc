"""Every code block of README and docs runs, and every link has a target."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def python_blocks() -> list[tuple[str, str]]:
    return [(page.name, code) for page in PAGES for kind, code in BLOCK.findall(page.read_text()) if kind == "python"]


@pytest.mark.parametrize(("page", "code"), python_blocks(), ids=lambda value: value[:20])
def test_a_python_block_runs(page: str, code: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    hub = {"MEMFS_HUB": request.getfixturevalue("postgres_url")} if "MEMFS_HUB" in code else {}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **hub}, capture_output=True, text=True)

    assert done.returncode == 0, f"{page}: {done.stderr}"


def test_the_readme_blocks_can_be_run_twice(tmp_path: Path) -> None:
    codes = [code for page, code in python_blocks() if page == "README.md"]
    assert len(codes) >= 3
    for code in codes * 2:
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_all_pages_can_be_run_in_one_directory(tmp_path: Path) -> None:
    order = [ROOT / "README.md", *dict.fromkeys(ROOT / name for name in re.findall(r"docs/\w+\.md", README))]
    blocks = [code for page in order for kind, code in BLOCK.findall(page.read_text()) if kind == "python"]
    codes = [code for code in blocks if "MEMFS_HUB" not in code]
    assert len(codes) > 30
    run_all = f"for code in {codes!r}: exec(compile(code, code, 'exec'), {{'__name__': '__main__'}})"
    done = subprocess.run([sys.executable, "-c", run_all], cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    blocks = [code for kind, code in BLOCK.findall((ROOT / "README.md").read_text()) if kind == "console"]
    commands = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ memfs")]

    assert len(commands) >= 3
    for command in commands:
        line = command.replace("memfs", f"{sys.executable} -m memfs", 1)
        done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_has_a_target(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]

    missing = [target for target in targets if not (page.parent / target).exists()]

    assert not missing


def test_every_test_that_a_page_names_exists() -> None:
    named = {name for page in PAGES for name in re.findall(r"test_\w+\.py", page.read_text())}
    existing = {path.name for path in (ROOT / "tests").rglob("test_*.py")}

    assert named
    assert named <= existing


def make_commands(folder: Path, target: str) -> str:
    """Return the commands that `make` would run for a target."""
    done = subprocess.run(["make", "-n", "-C", folder, target], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_demo_installs_only_memfs_and_the_tests_their_dependencies(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy2(ROOT / name, tmp_path)
    assert "-e .\n" in make_commands(tmp_path, "demo")
    assert "[dev]" not in make_commands(tmp_path, "demo")
    assert "-e '.[dev]'" in make_commands(tmp_path, "lint")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "core").touch()
    assert "pip" not in make_commands(tmp_path, "demo")
    assert "-e '.[dev]'" in make_commands(tmp_path, "lint")
    (tmp_path / ".venv" / "ready").touch()
    (tmp_path / ".venv" / "core").unlink()

    assert "pip" not in make_commands(tmp_path, "demo") + make_commands(tmp_path, "lint")


def test_the_demo_prints_its_results() -> None:
    done = subprocess.run([sys.executable, ROOT / "examples" / "demo.py"], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "200 of 200 lines kept, 0 doubled" in done.stdout
    assert "1 file changed, 1 insertion(+), 1 deletion(-)" in done.stdout
    assert "refused" in done.stdout
    assert "people/bob.md knows people/yuki.md" in done.stdout
    assert "notes/dentist.md:4: importance: 'high'" in done.stdout
