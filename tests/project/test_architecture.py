"""ARCHITECTURE.md and the layout of the package agree."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "memfs"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SECTION = re.compile(r"^### `memfs/([\w/]+)/`\n\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
SECTIONS: dict[str, str] = dict(SECTION.findall(PAGE))
PACKAGES = sorted(str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("*/__init__.py"))
NESTED = {"integrations/strands/extraction"}  # described with integrations/strands


@pytest.mark.parametrize("package", [name for name in PACKAGES if name not in NESTED])
def test_the_section_of_a_package_starts_with_its_docstring_and_names_its_modules(package: str) -> None:
    docstring = ast.get_docstring(ast.parse((PACKAGE / package / "__init__.py").read_text())) or ""
    modules = [path.stem for path in (PACKAGE / package).glob("*.py") if path.stem != "__init__"]

    assert SECTIONS[package].split("\n")[0] == docstring.split("\n")[0]
    assert [module for module in modules if f"`{module}`" not in SECTIONS[package]] == []


def test_every_section_describes_a_package() -> None:
    assert set(SECTIONS) == set(PACKAGES) - NESTED


def test_the_modules_directly_in_the_package_are_few_and_described() -> None:
    modules = [path.stem for path in PACKAGE.glob("*.py")]

    assert len(modules) <= 14
    assert [name for name in modules if not name.startswith("__") and f"`{name}`" not in PAGE] == []


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`([\w/]+\.(?:py|md|svg))`", PAGE))
    roots = (ROOT, PACKAGE)

    assert len(named) > 30
    assert [name for name in sorted(named) if not any((root / name).exists() for root in roots)] == []


def test_the_picture_is_that_of_the_layers() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts/architecture_picture.py", "--check"])

    assert done.returncode == 0, "run python scripts/architecture_picture.py"


def test_no_module_has_more_than_400_lines() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in PACKAGE.rglob("*.py")}

    assert {path: number for path, number in lines.items() if number > 400} == {}


def test_every_change_request_names_a_file() -> None:
    requests = tomllib.loads((ROOT / "tests/data/change_requests.toml").read_text())["request"]

    assert len(requests) == 10
    assert [request["file"] for request in requests if not (ROOT / request["file"]).is_file()] == []
