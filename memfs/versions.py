"""Kept versions: every acknowledged one of each memory, outside the work tree, for `restore`.

They lie in `.git/memfs/` where the vault is a git work tree, so that `git clean` and `git reset` spare them,
else in `.memfs/history/`: `<place>/<path of the memory>/<time>-<digest>`.
"""

import logging
import os
import shutil
import time
from contextlib import suppress
from datetime import UTC, datetime

from memfs.files import STATE, digest, write
from memfs.model import Version

KEEP = 20
KEEP_DAYS = 30
_TIME = "%Y%m%dT%H%M%S.%f"
log = logging.getLogger("memfs")


class Versions:
    """The versions of one vault's memories."""

    def __init__(self, root: str) -> None:
        git = f"{root}/.git"
        is_git = os.path.isdir(git) and not os.path.islink(git)
        self._place = f"{git}/memfs" if is_git else f"{root}/{STATE}/history"

    def keep(self, path: str, data: bytes) -> None:
        """Keep a version; a disk without room for it does not undo the write it belongs to."""
        place = f"{self._place}/{path}"
        name = f"{place}/{datetime.now(UTC):{_TIME}}-{digest(data)}"
        try:
            try:
                write(None, name, data, durable=False)
            except FileNotFoundError:
                os.makedirs(place, exist_ok=True)
                write(None, name, data, durable=False)
        except OSError as error:
            log.warning("%s: this version is not kept: %s", path, error.strerror)

    def keep_once(self, path: str, data: bytes) -> None:
        """Keep a version that may be kept already."""
        if not any(name.endswith(digest(data)) for name in self._names(path)):
            self.keep(path, data)

    def prune(self, path: str) -> None:
        """Drop versions past the number and the age that are kept."""
        oldest = datetime.fromtimestamp(time.time() - KEEP_DAYS * 86400, UTC).strftime(_TIME)
        for number, name in enumerate(self._names(path)):
            if number >= KEEP or (number and name < oldest):
                with suppress(FileNotFoundError):
                    os.unlink(f"{self._place}/{path}/{name}")

    def of(self, path: str) -> list[Version]:
        """The versions of a memory, newest first."""
        found = []
        for name in self._names(path):
            moment, _, code = name.partition("-")
            with suppress(FileNotFoundError):
                size = os.stat(f"{self._place}/{path}/{name}").st_size
                found.append(Version(datetime.strptime(moment, _TIME).replace(tzinfo=UTC), code, size))
        return found

    def read(self, path: str, version: Version) -> bytes:
        """The content of one version."""
        with open(f"{self._place}/{path}/{version.time:{_TIME}}-{version.hash}", "rb") as file:
            return file.read()

    def paths(self) -> list[str]:
        """The memories that have versions, also those that are gone."""
        found = [os.path.relpath(folder, self._place) for folder, _, files in os.walk(self._place) if files]
        return sorted(path for path in found if path.endswith(".md"))

    def move(self, path: str, to: str) -> None:
        """Follow a memory to its new path."""
        with suppress(OSError):
            os.makedirs(os.path.dirname(f"{self._place}/{to}"), exist_ok=True)
            os.rename(f"{self._place}/{path}", f"{self._place}/{to}")

    def purge(self, path: str) -> None:
        """Forget every version of a memory."""
        shutil.rmtree(f"{self._place}/{path}", ignore_errors=True)

    def _names(self, path: str) -> list[str]:
        """The names of a memory's versions, newest first."""
        try:
            names = os.listdir(f"{self._place}/{path}")
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted((name for name in names if "-" in name), reverse=True)
