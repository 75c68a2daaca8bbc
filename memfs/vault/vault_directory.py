"""The directory of a vault: create one, find the nearest one, and read its settings."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from memfs.errors import SettingsError, VaultNotFoundError
from memfs.fs.files import STATE_DIR, open_root, read, translate_os_error, write
from memfs.namespace import SESSIONS
from memfs.storage.state_dir import create_state_dir
from memfs.vault import settings

FILES = {  # the files of a new vault, by name
    settings.FILE_NAME: f"version: {settings.FORMAT_VERSION}\n",
    ".gitignore": f"{STATE_DIR}/\n",
    ".gitattributes": f"{SESSIONS}/**/*.jsonl merge=union\n*.md merge=memfs\n",
}
_UTF8_HINT = "Set PYTHONUTF8=1, or LC_ALL to a locale with UTF-8 such as C.UTF-8."


def create_vault(root: str | os.PathLike[str]) -> None:
    """Create the directory, its `.memfs/` and `FILES` if they are missing; existing files stay as they are."""
    try:
        os.makedirs(root, exist_ok=True)
        fd = open_root(Path(root))
        try:
            create_state_dir(fd)
            for name, text in FILES.items():
                with suppress(FileExistsError):
                    write(fd, name, text.encode())
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise translate_os_error(str(root), error) from error


def find_vault(start: str | os.PathLike[str]) -> Path:
    """Return the nearest directory from `start` upwards with a `memfs.yaml` or `.memfs/`. Raises VaultNotFoundError."""
    here = Path(os.path.abspath(start))
    for directory in (here, *here.parents):
        if (directory / settings.FILE_NAME).is_file() or (directory / STATE_DIR).is_dir():
            return directory
    raise VaultNotFoundError(str(here))


def check_root(root: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a vault's directory.

    Raises VaultNotFoundError if it is not a directory, and SettingsError if Python does not use UTF-8 for file names,
    because it would then misread or miswrite names that are not ASCII.
    """
    if (encoding := sys.getfilesystemencoding()) != "utf-8":
        raise SettingsError("the locale", f"has {encoding} file names, but a vault needs UTF-8").with_hint(_UTF8_HINT)
    path = Path(os.path.abspath(root))
    if not path.is_dir():
        raise VaultNotFoundError(str(root))
    return path


def read_settings(root: Path) -> Mapping[str, Any]:
    """Return the checked settings of `memfs.yaml`; empty if it is missing or unreadable. Raises SettingsError."""
    fd = open_root(root)
    try:
        return settings.load(read(fd, settings.FILE_NAME).data.decode(errors="replace"))
    except OSError:
        return {}
    finally:
        os.close(fd)
