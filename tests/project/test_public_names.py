"""The public names, and the cost of importing them."""

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


def test_all_lists_exactly_the_public_names() -> None:
    """Runs in a new process, because submodules that other tests import become attributes."""
    code = "import memfs; [getattr(memfs, name) for name in memfs.__all__]; print(*sorted(vars(memfs)), *dir(memfs))"
    names = set(run(code).split())

    public = {name for name in names if not name.startswith("_")}
    modules = {info.name for info in pkgutil.iter_modules([str(ROOT)])}
    assert public - modules - {"lazy_attributes", "logging", "TYPE_CHECKING"} == set(memfs.__all__) - {"errors"}
    assert sorted(memfs.__all__) == list(memfs.__all__)
    assert set(dir(memfs)) == {*memfs.__all__, "__version__"}


@pytest.mark.parametrize("name", memfs.__all__)
def test_a_public_name_exists_is_documented_and_has_a_memfs_module(name: str) -> None:
    value = getattr(memfs, name)

    assert inspect.getdoc(value)
    assert inspect.ismodule(value) or value.__module__.startswith("memfs.")
    namespace: dict[str, object] = {}
    exec(f"from memfs import {name}", namespace)
    assert namespace[name] is value


def test_a_star_import_imports_the_public_names() -> None:
    namespace: dict[str, object] = {}
    exec("from memfs import *", namespace)

    assert set(namespace) - {"__builtins__"} == set(memfs.__all__)


def test_an_unknown_name_raises_attribute_error() -> None:
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


def test_every_module_has_a_docstring() -> None:
    for info in pkgutil.walk_packages([str(ROOT)], "memfs."):
        if info.name != "memfs.__main__":
            assert importlib.import_module(info.name).__doc__, info.name


def test_the_package_is_typed() -> None:
    assert (ROOT / "py.typed").exists()


def test_methods_take_few_positional_arguments() -> None:
    """At most two positional parameters, none of them a flag."""
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


def test_the_library_logs_nothing_by_default(tmp_path: Path) -> None:
    code = "import logging, memfs; logging.getLogger('memfs').warning('x')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent)

    assert (done.stdout, done.stderr) == ("", "")


def test_development_tools_have_version_bounds_and_satisfy_them() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    bounds_by_name = {one.name: one.specifier for one in map(Requirement, project["optional-dependencies"]["dev"])}

    for name, bounds in bounds_by_name.items():
        if name.startswith(("ruff", "mypy", "types-", "import-linter", "pytest", "hypothesis")):
            assert any(bound.operator in {"<", "<=", "=="} for bound in bounds), name
            assert bounds.contains(version(name)), name
