"""The public face: what can be imported, and what importing costs."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.commands import REPOSITORY

import memfs

ROOT = Path(memfs.__file__).parent


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_is_exactly_what_is_importable_and_public() -> None:
    """In a process of its own: submodules that other tests import become attributes, too."""
    code = "import memfs; [getattr(memfs, name) for name in memfs.__all__]; print(*sorted(vars(memfs)), *dir(memfs))"
    known = set(run(code).split())

    public = {name for name in known if not name.startswith("_")}
    modules = {info.name for info in pkgutil.iter_modules([str(ROOT)])}
    assert public - modules - {"lazy_attributes", "logging", "TYPE_CHECKING"} == set(memfs.__all__) - {"errors"}
    assert sorted(memfs.__all__) == list(memfs.__all__)
    assert set(dir(memfs)) == {*memfs.__all__, "__version__"}


@pytest.mark.parametrize("name", memfs.__all__)
def test_a_public_name_is_there_is_documented_and_says_where_it_lives(name: str) -> None:
    value = getattr(memfs, name)

    assert inspect.getdoc(value)
    assert inspect.ismodule(value) or value.__module__.startswith("memfs.")
    namespace: dict[str, object] = {}
    exec(f"from memfs import {name}", namespace)
    assert namespace[name] is value


def test_a_star_import_brings_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from memfs import *", namespace)

    assert set(namespace) - {"__builtins__"} == set(memfs.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'memfs' has no attribute 'Nothing'"):
        _ = memfs.Nothing


def test_importing_memfs_imports_nothing_heavy() -> None:
    heavy = {"tantivy", "pydantic", "yaml", "watchdog", "filelock", "asyncio", "hypothesis", "memfs.vault.vault"}
    heavy |= {"sqlalchemy", "redis", "numpy", "tokenizers", "pytest", "importlib.metadata", "memfs.stores"}
    loaded = set(run("import sys, memfs; print(*sys.modules)").split())

    assert loaded & heavy == set()


def test_using_a_vault_without_settings_imports_no_pydantic_and_no_tantivy(tmp_path: Path) -> None:
    code = f"""
import sys
from memfs import Vault
with Vault.init({str(tmp_path / "vault")!r}) as vault:
    vault.update(vault.add("Tea.", "n").id, importance=2)
    vault.list(), vault.check()
print(*sys.modules)
"""

    assert set(run(code).split()) & {"tantivy", "pydantic", "watchdog", "asyncio"} == set()


def test_the_version_is_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.?(dev|a|b|rc)\d+)?", memfs.__version__)


def test_every_module_says_what_it_is_for() -> None:
    for info in pkgutil.walk_packages([str(ROOT)], "memfs."):
        if info.name != "memfs.__main__":
            assert importlib.import_module(info.name).__doc__, info.name


def test_the_package_is_typed() -> None:
    assert (ROOT / "py.typed").exists()


def test_signatures_read_aloud() -> None:
    """At most two things by position; no flag by position."""
    for name, function in inspect.getmembers(memfs.Vault, inspect.isfunction):
        if name.startswith("_"):
            continue
        by_position = [
            parameter
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name != "self"
        ]
        assert len(by_position) <= 2, name
        assert not any(isinstance(parameter.default, bool) for parameter in by_position), name
        assert inspect.getdoc(function), name


def test_log_lines_of_the_library_go_nowhere_unless_asked_for(tmp_path: Path) -> None:
    code = "import logging, memfs; logging.getLogger('memfs').warning('x')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent)

    assert (done.stdout, done.stderr) == ("", "")


def test_what_judges_the_code_is_bounded_and_installed_within_its_bounds() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = {one.name: one.specifier for one in map(Requirement, project["optional-dependencies"]["dev"])}

    for name, bounds in wanted.items():
        if name.startswith(("ruff", "mypy", "types-", "import-linter", "pytest", "hypothesis")):
            assert any(bound.operator in {"<", "<=", "=="} for bound in bounds), name
            assert bounds.contains(version(name)), name
