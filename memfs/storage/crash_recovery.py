"""Recover the data of killed writers and of late saves.

Killed writers leave files in `.memfs/tmp/`. A save is late if a program still had a file open when memfs replaced it,
and wrote to it afterwards. Displaced files that a program has open are therefore kept in `.memfs/late/`, named
`<time>.<digest of the expected content>.<quoted path>`, until no program has them open.
"""

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import unquote

from memfs.errors import VaultError
from memfs.fs.files import PARTIAL_MODE, STATE_DIR, digest, open_directory, open_file, read, read_fd
from memfs.fs.locks import is_open_elsewhere, try_lock
from memfs.namespace import split_path

ASSUME_CLOSED_SECONDS = 600.0  # after which a displaced file counts as closed, on systems without leases
MAX_DISPLACED_BYTES = 64 * 1024 * 1024  # a larger file is never read, nor deleted
_LATE_NAME = re.compile(r"(?P<moment>[0-9]{1,20})\.(?P<expected>[0-9a-f]{16})\.(?P<path>.+)")

SaveVersion = Callable[[str, bytes], None]  # called with the path of a memory and the content to save


def late_saves(root: int) -> list[tuple[str, str, bytes]]:
    """Return the saves into files that were already displaced, as (file name, path of the memory, content)."""
    found = []
    with suppress(FileNotFoundError), open_directory(root, (STATE_DIR, "late")) as late:
        for name in sorted(os.listdir(late)):
            match, data = _LATE_NAME.fullmatch(name), read_if_readable(late, name)
            if match and data is not None and digest(data) != match["expected"]:
                found.append((name, _memory_path(match["path"]), data))
    return found


def displaced_paths(root: int) -> list[str]:
    """Return the paths of memories with files in `.memfs/late/`, because a program has, or had, them open."""
    with suppress(FileNotFoundError), open_directory(root, (STATE_DIR, "late")) as late:
        matches = [_LATE_NAME.fullmatch(name) for name in sorted(os.listdir(late))]
        return [_memory_path(match["path"]) for match in matches if match]
    return []


def recover_late_saves(root: int, save: SaveVersion) -> None:
    """Pass every late save to `save`, and delete the displaced files that no program has open."""
    with suppress(FileNotFoundError), open_directory(root, (STATE_DIR, "late")) as late:
        for name in sorted(os.listdir(late)):
            if not (match := _LATE_NAME.fullmatch(name)):
                continue
            with suppress(OSError), open_file(late, name) as fd:
                is_open, age = is_open_elsewhere(fd), time.time_ns() - int(match["moment"])
                if is_open or (is_open is None and age < ASSUME_CLOSED_SECONDS * 1e9):
                    continue
                data = read_fd(fd, MAX_DISPLACED_BYTES).data
                if digest(data) != match["expected"]:
                    save(_memory_path(match["path"]), data)
                os.unlink(name, dir_fd=late)


def sweep_temporary_files(root: int, keep: SaveVersion) -> None:
    """Delete the temporary files of killed writers; content that they had displaced goes to `keep`."""
    with suppress(FileNotFoundError), open_directory(root, (STATE_DIR, "tmp")) as parent:
        for name in os.listdir(parent):
            with suppress(OSError, VaultError), open_directory(parent, (name,)) as fd:
                if try_lock(fd):  # its writer is dead
                    for file in os.listdir(fd):
                        _sweep_file(root, fd, file, keep)
                    os.rmdir(name, dir_fd=parent)


def _sweep_file(root: int, parent: int, name: str, keep: SaveVersion) -> None:
    """Delete a temporary file. If it was displaced, pass its content to `keep` first.

    A new file is named `<pid>.<counter>.<digest of its content>.<quoted path>`. If the digest does not match, the file
    was displaced. A displaced file that a program may still have open is moved to `.memfs/late/` instead.
    """
    with open_file(parent, name) as fd:
        content = read_fd(fd, MAX_DISPLACED_BYTES)
        parts = name.split(".", 3)
        if content.mode != PARTIAL_MODE and len(parts) == 4 and parts[2] != digest(content.data):
            keep(_memory_path(parts[3]), content.data)
            if is_open_elsewhere(fd) is not False:
                set_aside(root, parent, name, parts[3], content.data)
                return
    os.unlink(name, dir_fd=parent)


def set_aside(root: int, parent: int, name: str, quoted: str, expected: bytes) -> None:
    """Move a displaced file to `.memfs/late/`; `quoted` is the memory's path as `path_as_file_name` returns it.

    If its content is no longer the expected one, `recover_late_saves` takes it for a late save.
    """
    with open_directory(root, (STATE_DIR, "late"), create=True) as late:
        new = f"{time.time_ns()}.{digest(expected)}.{quoted}"
        os.rename(name, new, src_dir_fd=parent, dst_dir_fd=late)


def read_if_readable(parent: int, name: str) -> bytes | None:
    """Return the content of a file; None if it cannot be read, or is larger than MAX_DISPLACED_BYTES."""
    try:
        return read(parent, name, MAX_DISPLACED_BYTES).data
    except OSError:
        return None


def _memory_path(quoted: str) -> str:
    """Return the path that a file name was made from; `unclaimed.md` if the name was cut or is not that of a memory."""
    path = unquote(quoted)
    return path if path.endswith(".md") and split_path(path) else "unclaimed.md"
