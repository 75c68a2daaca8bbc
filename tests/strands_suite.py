"""Run the tests of strands-agents against memfs: those of memory, or those of sessions over a repository.

    python tests/strands_suite.py [memory|session] [--release 1.62.0] [--directory DIR]

memfs.integrations.strands replaces `strands.memory`; a repository over a new vault replaces the one of the session
tests. The sdist, which contains the tests, and pytest-asyncio are downloaded into the directory, or a temporary one;
all other packages are those of this environment. A test counts as public if it, and the helpers it calls, use only
names that `strands.memory` exports, no attribute or keyword that starts with an underscore, and no patch by a path.
"""

import argparse
import ast
import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

RELEASE = "1.62.0"
TESTS = {
    "memory": Path("tests", "strands", "memory"),
    "session": Path("tests", "strands", "session", "test_repository_session_manager.py"),
}
ENVIRONMENT = {
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",  # its tests check texts in spans
    "AWS_DEFAULT_REGION": "us-west-2",  # for a model that is created, but never called
    "AWS_EC2_METADATA_DISABLED": "true",
}
OUTCOME_PLUGIN = """
import json, os
outcomes = {}


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish():
    with open(os.environ["MEMFS_OUTCOMES"], "w") as file:
        json.dump(outcomes, file)
"""
MEMORY_PLUGIN = """
import importlib, pkgutil, sys
import strands.agent, strands.memory
import memfs.integrations.strands as ours

REPLACED = {name for name in sys.modules if name.startswith("strands.memory")}
for found in pkgutil.walk_packages(strands.memory.__path__, "strands.memory."):
    theirs = sys.modules[found.name] = importlib.import_module(found.name.replace("strands.memory", ours.__name__))
    parent, _, name = found.name.rpartition(".")
    setattr(ours if parent == "strands.memory" else sys.modules[parent], name, theirs)
sys.modules["strands.memory"] = strands.memory = ours


def pytest_collection_modifyitems(items):
    for module in {item.module for item in items}:
        theirs = [name for name, value in vars(module).items() if getattr(value, "__module__", "") in REPLACED]
        assert not theirs, f"{module.__name__} has {theirs} of strands.memory"
"""
SESSION_PLUGIN = """
import sys, tempfile, types
from strands.session.repository_session_manager import RepositorySessionManager
from memfs import Vault
from memfs.integrations.strands import VaultSessionRepository


class Repository(VaultSessionRepository):
    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        super().__init__(Vault.init(self.directory.name))


class Manager(RepositorySessionManager):
    def __init__(self, session_id, storage_dir):
        super().__init__(session_id, VaultSessionRepository(Vault.init(storage_dir)))


name = "tests.fixtures.mock_session_repository"
sys.modules[name] = types.ModuleType(name)
sys.modules[name].MockedSessionRepository = Repository


def pytest_collection_modifyitems(items):
    for module in {item.module for item in items}:
        assert module.MockedSessionRepository is Repository
        module.FileSessionManager = Manager
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run strands-agents' own tests on memfs.")
    parser.add_argument("suite", nargs="?", choices=TESTS, default="memory")
    parser.add_argument("--release", default=RELEASE)
    parser.add_argument("--directory", type=Path)
    arguments = parser.parse_args()
    if (installed := importlib.metadata.version("strands-agents")) != arguments.release:
        sys.exit(f"strands-agents {installed} is installed, but the tests are for {arguments.release}")
    if arguments.directory:
        arguments.directory.mkdir(parents=True, exist_ok=True)
        return report(run(arguments.directory.resolve(), arguments.release, arguments.suite))
    with tempfile.TemporaryDirectory() as directory:
        return report(run(Path(directory).resolve(), arguments.release, arguments.suite))


def run(directory: Path, release: str, suite: str) -> dict[str, tuple[str, bool]]:
    """Run the tests; return the outcome of each, and whether it is a public one."""
    source = sources(directory, release)
    packages = directory / "packages"
    if not packages.exists():
        pip("install", "--quiet", "--no-deps", "--target", str(packages), "pytest-asyncio>=1,<1.5")
    (packages / "memfs_in_place_of_strands.py").write_text(
        (MEMORY_PLUGIN if suite == "memory" else SESSION_PLUGIN) + OUTCOME_PLUGIN
    )
    (directory / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    outcomes = directory / "outcomes.json"
    outcomes.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-c", str(directory / "pytest.ini")]
    command += [
        "--rootdir",
        str(source),
        "-p",
        "memfs_in_place_of_strands",
        "-p",
        "no:cacheprovider",
        str(TESTS[suite]),
    ]
    environment = os.environ | ENVIRONMENT | {"PYTHONPATH": f"{packages}:{source}", "MEMFS_OUTCOMES": str(outcomes)}
    subprocess.run(command, cwd=source, env=environment, check=False)
    found: dict[str, str] = json.loads(outcomes.read_text()) if outcomes.exists() else {}
    path = source / TESTS[suite]
    files = sorted(path.glob("test_*.py")) if path.is_dir() else [path]
    public = {node for file in files for node in public_tests(source, file)}
    tests = {node for file in files for node in all_tests(source, file)}
    return {node: (found.get(node, "missing"), node in public) for node in sorted(tests | found.keys())}


def sources(directory: Path, release: str) -> Path:
    """Download and unpack the sdist, unless it is there; return its directory."""
    unpacked = directory / f"strands_agents-{release}"
    if not unpacked.exists():
        requirement = f"strands-agents=={release}"
        pip("download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(directory), requirement)
        with tarfile.open(directory / f"strands_agents-{release}.tar.gz") as archive:
            archive.extractall(directory, filter="data")
    return unpacked


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments], check=True)


def report(outcomes: dict[str, tuple[str, bool]]) -> int:
    for node, (outcome, _) in outcomes.items():
        if outcome != "passed":
            print(f"{outcome}: {node}")
    for title, included in (("public names only", {True}), ("other names", {False}), ("all", {True, False})):
        chosen = [outcome for outcome, is_public in outcomes.values() if is_public in included]
        print(f"{title}: {chosen.count('passed')} of {len(chosen)} pass")
    return int(not outcomes or any(outcome != "passed" for outcome, _ in outcomes.values()))


def all_tests(source: Path, file: Path) -> Iterator[str]:
    for name in definitions(ast.parse(file.read_text())):
        if name.startswith("test_"):
            yield f"{file.relative_to(source).as_posix()}::{name}"


def public_tests(source: Path, file: Path) -> Iterator[str]:
    """Yield the tests of a file that use public names only."""
    tree = ast.parse(file.read_text())
    private = {name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for name in not_exported(node)}
    known = definitions(tree)
    for name in known:
        if name.startswith("test_") and is_public(name, known, private, {name}):
            yield f"{file.relative_to(source).as_posix()}::{name}"


def definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name: node for node in tree.body if isinstance(node, kinds)}


def not_exported(node: ast.ImportFrom) -> set[str]:
    from strands.memory import __all__ as exported

    names = {alias.asname or alias.name for alias in node.names}
    return names - set(exported) if (node.module or "").startswith("strands.memory") else set()


def is_public(name: str, known: dict[str, ast.stmt], private: set[str], seen: set[str]) -> bool:
    """Return whether a definition, and each that it uses of the same file, uses public names only."""
    for node in ast.walk(known[name]):
        used = ""
        match node:
            case ast.Name(id=used) | ast.arg(arg=used):
                if used in private:
                    return False
            case ast.Attribute(attr=hidden) | ast.keyword(arg=str(hidden)):
                if hidden.startswith("_") and not hidden.startswith("__"):
                    return False
            case ast.Constant(value=str(path)):
                if path.startswith("strands."):
                    return False
        if used in known and used not in seen:
            seen.add(used)
            if not is_public(used, known, private, seen):
                return False
    return True


if __name__ == "__main__":
    sys.exit(main())
