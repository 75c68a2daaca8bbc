"""What somebody may have meant who named a memory that is not there."""

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice

from memfs.data_types import Memory, lazy
from memfs.errors import MemfsError
from memfs.fs.files import open_root, spelling_on_disk, walk
from memfs.namespace import ARCHIVE, SESSIONS, fold, split_path
from memfs.vault.scope import is_below
from memfs.vault.vault import Vault

MOST_NAMES = 50_000
MOST_TITLES = 2_000  # files that are read for what they are called
SHOWN = 3
NEAR = 0.75  # of what difflib measures, anywhere in the vault
CLOSE = 0.5  # in the very directory


class Names:
    """What the memories of a vault are called: read once, and only as far as it is needed."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def way_on(self, ref: str) -> str:
        """Where to go on from a name that no memory has; empty if nothing is like it."""
        place = ref.strip("/").removesuffix(".md")
        if (found := self._spelled(place)) and os.path.isdir(self._vault.root / found):
            return f"It is a namespace: `memfs list {shlex.quote(f'/{found}')}` shows what is in it."
        if (found := self._spelled(f"{ARCHIVE}/{place}.md")) and os.path.isfile(self._vault.root / found):
            folder = found.removeprefix(f"{ARCHIVE}/").rpartition("/")[0]
            return f"It is forgotten: `memfs move {shlex.quote(found)} {shlex.quote(f'/{folder}')}` brings it back."
        if self._is_outside(ref):
            return f"It lies outside the vault: name a memory in {self._vault.root}, or another vault with --vault DIR."
        *others, last = self._near(fold(place))[:SHOWN] or [""]
        return f"Did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""

    def _spelled(self, place: str) -> str:
        """A path as it is spelled on disk; empty if it can be none of a memory, or of a namespace."""
        segments = split_path(place)
        if segments is None or is_below(segments, SESSIONS):
            return ""
        root = open_root(self._vault.root)
        try:
            return "/".join(spelling_on_disk(root, segments))
        except (MemfsError, OSError):
            return ""
        finally:
            os.close(root)

    def _is_outside(self, ref: str) -> bool:
        with suppress(ValueError):
            return os.path.isfile(ref) and not os.path.abspath(ref).startswith(f"{self._vault.root}{os.sep}")
        return False

    def _near(self, name: str) -> list[str]:
        """The paths of memories that this may mean, the likeliest first."""
        folder, _, stem = name.rpartition("/")
        same = [path for path in self._paths if _stem(path) == stem]
        if same:
            return same
        beside = {_stem(path): path for path in reversed(self._paths) if fold(path).rpartition("/")[0] == folder}
        if found := _closest(stem, beside, CLOSE):
            return [beside[one] for one in found]
        stems = {_stem(path): path for path in reversed(self._paths)}
        whole = {fold(path).removesuffix(".md"): path for path in self._paths if not beside}  # the directory is amiss
        for known, wanted in ((whole, name), (stems, stem)):
            if found := _closest(wanted, known, NEAR):
                return [known[one] for one in found]
        return list(dict.fromkeys(self._titles[one] for one in _closest(name, self._titles, NEAR)))

    @lazy
    def _paths(self) -> list[str]:
        """Every path, those of forgotten memories last."""
        root = open_root(self._vault.root)
        try:
            found = [*islice(_walked(root), MOST_NAMES)]
        finally:
            os.close(root)
        return sorted(found, key=lambda path: path.startswith(f"{ARCHIVE}/"))

    @lazy
    def _titles(self) -> dict[str, str]:
        """Titles and aliases, each with a path that has it."""
        found: dict[str, str] = {}
        for path in self._paths[:MOST_TITLES]:
            with suppress(MemfsError):
                for name in _called(self._vault.read(path)):
                    found.setdefault(fold(name), path)
        return found


def _closest(wanted: str, known: Iterable[str], least: float) -> list[str]:
    """The words most like one; difflib is slow, so only those with a third of its pairs of letters are compared."""
    pairs = [wanted[start : start + 2] for start in range(max(len(wanted) - 1, 1))]
    likely = [word for word in known if 3 * sum(map(word.__contains__, pairs)) >= len(pairs)]
    return get_close_matches(wanted, likely, SHOWN, least)


def _called(memory: Memory) -> list[str]:
    aliases = memory.header.get("aliases")
    return [memory.title, *(aliases if isinstance(aliases, list | tuple) else ())]


def _walked(root: int) -> Iterator[str]:
    for listing in walk(root, archived=True):
        yield from (listing.prefix + name for name in listing.names)


def _stem(path: str) -> str:
    return fold(path).rpartition("/")[2].removesuffix(".md")
