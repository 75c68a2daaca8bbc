"""Fixtures of all tests: real vaults, git, processes and mounts."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.commands import NOBODY, REPOSITORY, Git, Memfs, Ran, Script
from support.engines import EngineOf, recording_engine
from support.files import Snapshot
from support.hostile_files import make_traps
from support.postgres_server import postgres, postgres_url
from support.processes import WorkerPool
from support.redis_server import redis_server, redis_url

from memfs import Vault
from memfs.cli.main import main
from memfs.vault import vault as vault_module

__all__ = ["postgres", "postgres_url", "redis_server", "redis_url"]  # fixtures

settings.register_profile(
    "memfs",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.function_scoped_fixture],
)
settings.register_profile("deep", settings.get_profile("memfs"), derandomize=False, max_examples=2000)
settings.load_profile("memfs")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job of a shell; children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_vault_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMFS_VAULT", raising=False)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    """Yield an empty vault."""
    with Vault.init(tmp_path / "vault") as made:
        yield made


@pytest.fixture
def engine_of(monkeypatch: pytest.MonkeyPatch) -> EngineOf:
    """A function that returns the search engine of a vault, if the vault is opened after this fixture."""
    recorded, engine_of = recording_engine()
    monkeypatch.setattr(vault_module, "SearchEngine", recorded)
    return engine_of


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """Return a copy of the example vault."""
    return Path(shutil.copytree(REPOSITORY / "example-vault", tmp_path / "example"))


@pytest.fixture
def traps(tmp_path: Path) -> Path:
    """A vault with one good memory beside entries that are named like memories and are no files of the vault."""
    return make_traps(tmp_path)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    """A server that forks processes for the tests of a module."""
    with WorkerPool(tmp_path_factory.mktemp("pool")) as pool:
        yield pool


@pytest.fixture
def memfs(example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Memfs:
    """Return a function that runs a command in a copy of the example vault."""
    monkeypatch.chdir(example)
    for name in ("MEMFS_ACTOR", "MEMFS_LOG"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> Ran:
        code = main(list(words))
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Return a function that runs git in a directory, with its own settings, and returns the output."""
    home = tmp_path / "git-home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = T\n\temail = t@example.org\n[init]\n\tdefaultBranch = main\n")
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}

    def run(where: Path, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=where, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.fixture
def snapshot() -> Snapshot:
    """Return a function that maps all paths below a directory, without given parts, to mode, content and file time."""

    def take(root: Path, *without: str) -> dict[str, tuple[object, ...]]:
        seen: dict[str, tuple[object, ...]] = {}
        for folder, folders, files in os.walk(root):
            here = Path(folder).relative_to(root).as_posix()
            folders[:] = [name for name in folders if f"{here}/{name}".removeprefix("./") not in without]
            for name in [*folders, *files]:
                path = Path(folder, name)
                status = path.lstat()
                content: object = b""
                if path.is_symlink():
                    content = os.readlink(path)
                elif path.is_file():
                    content = path.read_bytes() if status.st_size < 1 << 20 else status.st_size
                when = 0 if path.is_dir() else status.st_mtime_ns
                seen[path.relative_to(root).as_posix()] = (status.st_mode, content, when)
        return seen

    return take


@pytest.fixture
def run_script() -> Script:
    """Return a function that runs Python code in a new process, with limits of time, memory and privileges."""

    def run(
        code: str, *arguments: object, ordinary: bool = False, memory: int = 0, timeout: float = 60
    ) -> "subprocess.CompletedProcess[str]":
        start = [
            "import os, resource, sys, json, memfs, memfs.vault.settings, memfs.vault.vault",
            "from memfs import Vault, errors",
        ]
        if ordinary and os.geteuid() == 0:
            start.append(f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})")
        if memory:
            start.append(f"resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))")
        command = [sys.executable, "-c", "\n".join([*start, code]), *map(str, arguments)]
        return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=timeout)

    return run


@pytest.fixture
def public_path() -> Iterator[Path]:
    """Yield a directory that any user can read."""
    path = Path(tempfile.mkdtemp(prefix="memfs-"))
    path.chmod(0o755)
    yield path
    subprocess.run(["chmod", "-R", "u+rwX", path], check=True)
    shutil.rmtree(path)


@pytest.fixture
def mount_tmpfs(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Yield a function that mounts a tmpfs; needs root, as in CI, else the test fails."""
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        where = tmp_path / f"disk-{len(mounted)}"
        where.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", where], check=True)
        mounted.append(where)
        return where

    yield mount
    for where in reversed(mounted):
        subprocess.run(["umount", "-l", where], check=True)
