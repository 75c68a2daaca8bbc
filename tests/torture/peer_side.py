"""The same jobs for memfs and other programs. Each program's own environment runs it, so it imports only that program.

`python peer_side.py PEER ROOT JOB [ARGUMENT...]`. Each adapter uses the documented calls of its program.
"""

import asyncio
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

FILES = {  # path, below the root, of the memory that the jobs use
    "memfs": "log.md",
    "strands-agents": "memory/notes/log.md",
    "markdown-vault-mcp": "log.md",
    "anthropic": "memories/log.md",
}
LINES = 333_334  # of nine bytes: 3 MB


def checksummed(token: str) -> str:
    """Return a line with a checksum of its token."""
    return f"token {token} {hashlib.blake2b(token.encode(), digest_size=4).hexdigest()}"


def large(number: int) -> str:
    return f"begin {number:08d}\n" + f"{number:08d}\n" * LINES + "end"


class Memfs:
    """`add`, `append`, `update`, `search` of a Vault."""

    def __init__(self, root: Path) -> None:
        self._vault = import_module("memfs").Vault(root)

    def append(self, line: str) -> None:
        self._vault.append("log.md", line)

    def add_large(self, number: int) -> None:
        self._vault.add(large(number), "/large", title=f"large {number}")

    def update_large(self, number: int) -> None:
        self._vault.update("log.md", body=large(number))

    def set_key(self) -> None:
        self._vault.update("log.md", importance=5)

    def index(self) -> None:
        self._vault.sync()
        self._vault.search("tea")

    def search(self, question: str) -> None:
        self._vault.search(question)


class Strands:
    """`add` and `search` of a FileMemoryStore on LocalFileStorage; facts under the heading of a topic are appended."""

    def __init__(self, root: Path) -> None:
        storage = import_module("strands.storage").LocalFileStorage(str(root))
        stores = import_module("strands.vended_memory_stores.file_memory_store")
        self._store = stores.FileMemoryStore(name="notes", storage=storage)

    def append(self, line: str) -> None:
        asyncio.run(self._store.add(f"# Log\n{line}"))

    def add_large(self, number: int) -> None:
        asyncio.run(self._store.add(f"# Large {number}\n{large(number)}"))

    def search(self, question: str) -> None:
        asyncio.run(self._store.search(question))


class MarkdownVault:
    """The library of the server: `writer.append`, `write` with the etag that was read, `edit`; `reader.search`."""

    def __init__(self, root: Path) -> None:
        vault = import_module("markdown_vault_mcp.vault")
        settings = vault.VaultSettings(read_only=False, write_protect_existing=True, max_note_read_bytes=0)
        self._vault = vault.Vault(source_dir=root, settings=settings)
        self._vault.index.build_index()

    def append(self, line: str) -> None:
        self._vault.writer.append("log.md", line)

    def add_large(self, number: int) -> None:
        self._vault.writer.write(f"large/{number}.md", large(number))

    def update_large(self, number: int) -> None:
        self._vault.writer.write("log.md", large(number), if_match=self._vault.reader.read("log.md").etag)

    def set_key(self) -> None:
        self._vault.writer.edit("log.md", "importance: 3", "importance: 5")

    def set_key_whole(self) -> None:
        note = self._vault.reader.read("log.md")
        body = note.content.split("---\n", 2)[2]
        self._vault.writer.write("log.md", body, frontmatter={**note.frontmatter, "importance": 5}, if_match=note.etag)

    def index(self) -> None:
        self._vault.reader.search("tea")

    def search(self, question: str) -> None:
        self._vault.reader.search(question)


class Anthropic:
    """The commands of BetaLocalFilesystemMemoryTool, as a model sends them: `view` and `insert` to append a line."""

    def __init__(self, root: Path) -> None:
        self._tool = import_module("anthropic.tools.memory").BetaLocalFilesystemMemoryTool(str(root))
        self._number = 0

    def _call(self, command: str, name: str, **keys: Any) -> str:
        return str(self._tool.call({"command": command, "path": f"/memories/{name}", **keys}))

    def append(self, line: str) -> None:
        shown = self._call("view", "log.md").split("\n")[1:]
        last = [text for text in shown if text.partition("\t")[2]]
        self._call("insert", "log.md", insert_line=len(last), insert_text=line)

    def add_large(self, number: int) -> None:
        self._call("create", f"large-{number}.md", file_text=large(number))

    def update_large(self, number: int) -> None:
        first = self._call("view", "log.md", view_range=[1, 1]).split("\n")[1].partition("\t")[2]
        self._call("str_replace", "log.md", old_str=first, new_str=f"begin {number:08d}")

    def set_key(self) -> None:
        self._call("str_replace", "log.md", old_str="importance: 3", new_str="importance: 5")


PEERS: dict[str, Callable[[Path], Any]] = {
    "memfs": Memfs,
    "strands-agents": Strands,
    "markdown-vault-mcp": MarkdownVault,
    "anthropic": Anthropic,
}


# --- jobs


def append(peer: Any, number: str, lines: str, log: str) -> None:
    """Report that this process is ready, wait for a line, and append a share of lines."""
    _print("ready")
    sys.stdin.readline()
    for line in range(int(lines)):
        _append(peer, f"{number}-{line}", log)


def update(peer: Any, stop: str, log: str) -> None:
    """Append lines until the file `stop` exists."""
    _print("ready")
    number = 0
    while not os.path.exists(stop):
        number += 1
        _append(peer, f"append-{number}", log)


def write(peer: Any, start: str, log: str) -> None:
    """Write large memories, new ones and the same one repeatedly, until killed."""
    number = int(start)
    _print("ready")
    while True:
        number += 1
        peer.add_large(number)
        _note(log, done=number)
        if hasattr(peer, "update_large"):
            peer.update_large(number)
            _note(log, done=number)


def search(peer: Any, file: str) -> None:
    """Search for every question of a file; print how many raised each error, and the slowest time."""
    raised: dict[str, int] = {}
    slowest = 0.0
    for question in json.loads(Path(file).read_text(encoding="utf-8")):
        began = time.monotonic()
        try:
            peer.search(question)
        except Exception as error:
            raised[type(error).__name__] = raised.get(type(error).__name__, 0) + 1
        slowest = max(slowest, time.monotonic() - began)
    _print(json.dumps({"raised": raised, "slowest": slowest}))


def call(peer: Any, method: str) -> None:
    """Call one method."""
    getattr(peer, method)()


def _append(peer: Any, token: str, log: str) -> None:
    """Append a line and record the result, or the refusal."""
    began = time.monotonic()
    try:
        peer.append(checksummed(token))
    except Exception as error:
        _note(log, kind="refused", token=token, error=f"{type(error).__name__}: {error}"[:200])
    else:
        _note(log, kind="append", token=token, began=began)


def _note(log: str, **event: Any) -> None:
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(fd, json.dumps({"time": time.monotonic(), **event}).encode() + b"\n")
    os.close(fd)


def _print(text: str) -> None:
    print(text, flush=True)


JOBS: dict[str, Callable[..., None]] = {
    "append": append,
    "update": update,
    "write": write,
    "search": search,
    "call": call,
}

if __name__ == "__main__":
    JOBS[sys.argv[3]](PEERS[sys.argv[1]](Path(sys.argv[2])), *sys.argv[4:])
    os._exit(0)  # do not wait for the program's threads
