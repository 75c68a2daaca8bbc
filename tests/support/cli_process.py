"""Run `memfs` as a process: with pipes, or at a pseudo-terminal."""

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

MEMFS = [sys.executable, "-m", "memfs"]
TIMEOUT_SECONDS = 30


def environment(**more: str) -> dict[str, str]:
    """Return a minimal environment, without any setting of the person who runs the tests."""
    return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TERM": "xterm", **more}


def run(where: Path, *words: str, stdin: bytes = b"", **more: str) -> "subprocess.CompletedProcess[bytes]":
    """Run a command in a directory; keyword arguments are environment variables."""
    command = [*MEMFS, *words]
    return subprocess.run(
        command, cwd=where, env=environment(**more), input=stdin, capture_output=True, timeout=TIMEOUT_SECONDS
    )


def on_terminal(where: Path, *words: str, typed: str = "", columns: int = 80, **more: str) -> tuple[int, str]:
    """Run a command at a terminal where `typed` is typed; return the exit code and the output."""
    master, slave = pty.openpty()
    env = environment(COLUMNS=str(columns), **more)
    process = subprocess.Popen([*MEMFS, *words], cwd=where, env=env, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    os.write(master, typed.encode())
    output = b""
    while select.select([master], [], [], TIMEOUT_SECONDS)[0]:
        try:
            output += os.read(master, 65536)
        except OSError:
            break
    os.close(master)
    return process.wait(TIMEOUT_SECONDS), output.decode().replace("\r\n", "\n")
