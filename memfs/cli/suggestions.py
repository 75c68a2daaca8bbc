"""Suggest a memory, a namespace or a command for a ref that no memory has."""

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
from memfs.vault.scope import has_first_segment
from memfs.vault.vault import Vault

MAX_PATHS = 50_000
MAX_TITLE_READS = 2_000  # files that are read for their titles and aliases
MAX_SUGGESTIONS = 3
ANYWHERE_CUTOFF = 0.75  # least difflib ratio for a path anywhere in the vault
SAME_DIRECTORY_CUTOFF = 0.5  # and for one in the directory that was named


class RefSuggester:
    """Finds hints for refs that no memory has; reads the paths and titles of the vault once, and only if needed."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def hint_for(self, ref: str) -> str:
        """Return a hint for a ref that no memory has; empty if nothing is similar."""
        path = ref.strip("/").removesuffix(".md")
        if (found := self._path_on_disk(path)) and os.path.isdir(self._vault.root / found):
            return f"It is a namespace: `memfs list {shlex.quote(f'/{found}')}` shows its memories."
        if (found := self._path_on_disk(f"{ARCHIVE}/{path}.md")) and os.path.isfile(self._vault.root / found):
            namespace = f"/{found.removeprefix(f'{ARCHIVE}/').rpartition('/')[0]}"
            return f"It is archived: `memfs move {shlex.quote(found)} {shlex.quote(namespace)}` brings it back."
        if self._is_outside(ref):
            return f"It is outside the vault: name a memory in {self._vault.root}, or another vault with --vault DIR."
        *others, last = self._similar_paths(fold(path))[:MAX_SUGGESTIONS] or [""]
        return f"Did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""

    def _path_on_disk(self, path: str) -> str:
        """Return a path as it is spelled on disk; empty if no memory or namespace can have it."""
        segments = split_path(path)
        if segments is None or has_first_segment(segments, SESSIONS):
            return ""
        root = open_root(self._vault.root)
        try:
            return "/".join(spelling_on_disk(root, segments))
        except (MemfsError, OSError):
            return ""
        finally:
            os.close(root)

    def _is_outside(self, ref: str) -> bool:
        """Return whether a ref is the path of an existing file outside of the vault."""
        with suppress(ValueError):
            return os.path.isfile(ref) and not os.path.abspath(ref).startswith(f"{self._vault.root}{os.sep}")
        return False

    def _similar_paths(self, name: str) -> list[str]:
        """Return the paths of memories that a name may mean, the most similar first."""
        directory, _, stem = name.rpartition("/")
        same_stem = [path for path in self._paths if _stem(path) == stem]
        if same_stem:
            return same_stem
        siblings = {_stem(path): path for path in reversed(self._paths) if fold(path).rpartition("/")[0] == directory}
        if found := _closest_matches(stem, siblings, SAME_DIRECTORY_CUTOFF):
            return [siblings[one] for one in found]
        stems = {_stem(path): path for path in reversed(self._paths)}
        # without siblings the directory may be misspelled, too
        full_paths = {fold(path).removesuffix(".md"): path for path in self._paths if not siblings}
        for known, wanted in ((full_paths, name), (stems, stem)):
            if found := _closest_matches(wanted, known, ANYWHERE_CUTOFF):
                return [known[one] for one in found]
        return list(dict.fromkeys(self._titles[one] for one in _closest_matches(name, self._titles, ANYWHERE_CUTOFF)))

    @lazy
    def _paths(self) -> list[str]:
        """Read the paths of all memories (at most MAX_PATHS), archived ones last."""
        root = open_root(self._vault.root)
        try:
            found = [*islice(_walk_paths(root), MAX_PATHS)]
        finally:
            os.close(root)
        return sorted(found, key=lambda path: path.startswith(f"{ARCHIVE}/"))

    @lazy
    def _titles(self) -> dict[str, str]:
        """Read the folded titles and aliases of MAX_TITLE_READS memories, each with the first path that has it."""
        found: dict[str, str] = {}
        for path in self._paths[:MAX_TITLE_READS]:
            with suppress(MemfsError):
                for name in _titles_and_aliases(self._vault.read(path)):
                    found.setdefault(fold(name), path)
        return found


def _closest_matches(wanted: str, known: Iterable[str], cutoff: float) -> list[str]:
    """Return the known words that are most similar to the wanted one.

    As difflib is slow, it compares only words that have at least a third of the pairs of adjacent letters.
    """
    pairs = [wanted[start : start + 2] for start in range(max(len(wanted) - 1, 1))]
    likely = [word for word in known if 3 * sum(map(word.__contains__, pairs)) >= len(pairs)]
    return get_close_matches(wanted, likely, MAX_SUGGESTIONS, cutoff)


def _titles_and_aliases(memory: Memory) -> list[str]:
    aliases = memory.header.get("aliases")
    return [memory.title, *(aliases if isinstance(aliases, list | tuple) else ())]


def _walk_paths(root: int) -> Iterator[str]:
    for listing in walk(root, archived=True):
        yield from (listing.prefix + name for name in listing.names)


def _stem(path: str) -> str:
    return fold(path).rpartition("/")[2].removesuffix(".md")
