"""Resolve the target of a link to a memory, by path, id, file name, title or alias. Pure: never reads the disk."""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from memfs.data_types import Memory
from memfs.namespace import ARCHIVE, fold
from memfs.vault.scope import has_first_segment

ALIAS_KEYS = ("permalink", "name")  # that basic-memory and Claude Code use, besides `aliases`
NAME_KINDS = ("paths", "ids", "names", "titles", "aliases")  # in order of precedence
Names = dict[str, list[str]]  # folded name -> paths of the memories that have it
NearestBelow = dict[str, tuple[float, list[str]]]  # directory -> levels down to the nearest memories, and their paths
ATTACHMENTS = frozenset(
    "avif bmp gif heic jpeg jpg png svg tif tiff webp 3gp flac m4a mp3 ogg opus wav webm avi mkv mov mp4 ogv "
    "base canvas csv doc docx epub excalidraw html ics ipynb json jsonl odt pdf pptx tex txt xls xlsx xml yaml yml "
    "zip".split()
)


class Node(NamedTuple):
    """A memory as a node of the graph."""

    path: str
    id: str
    title: str

    @property
    def is_archived(self) -> bool:
        return is_archived(self.path)


def is_archived(path: str) -> bool:
    """Return whether a memory is in the archive."""
    return has_first_segment(path.split("/"), ARCHIVE)


def is_attachment(target: str) -> bool:
    """Return whether a link is to a file that is not a memory: a picture, a document, the README of the vault."""
    name = fold(target)
    return name.rpartition(".")[2] in ATTACHMENTS if "." in name else name == "readme"


class LinkResolver:
    """The memories of a vault by the names that a link may use. Archived memories count only if no other matches."""

    def __init__(self) -> None:
        self._live, self._archived = _NameTables(), _NameTables()
        self._nearest_cache: dict[tuple[str, str], NearestBelow] = {}

    def add(self, memory: Memory, node: Node) -> None:
        """Add a memory with all of its names."""
        tables, path = self._live, fold(node.path).removesuffix(".md")
        if node.is_archived:
            tables = self._archived
            tables.paths.setdefault(path, []).append(node.path)
            path = path.partition("/")[2]
        directory, _, name = path.rpartition("/")
        tables.paths.setdefault(path, []).append(node.path)
        tables.names.setdefault(name, []).append(node.path)
        tables.ends.setdefault(f"{directory.rpartition('/')[2]}/{name}", []).append(node.path)
        if (found := fold(node.id)) != path:
            tables.ids.setdefault(found, []).append(node.path)
        if (found := fold(node.title)) != name:
            tables.titles.setdefault(found, []).append(node.path)
        for alias in {fold(one) for one in _aliases(memory)}:
            tables.aliases.setdefault(alias, []).append(node.path)

    def resolve(self, target: str, origin: str | None = None) -> Sequence[str]:
        """Return the paths that a link in the memory `origin` may refer to: one, none, or several if it is ambiguous.

        The first kind of name that matches counts, and among its matches those in the nearest directory. Without an
        origin (the target is a ref that a caller gives), all matches of the kind are returned.
        """
        name = fold(target).removeprefix("/").removesuffix(".md")
        if name.startswith(("./", "../")):
            name = posixpath.normpath(posixpath.join(fold(origin or "").rpartition("/")[0], name))
        # in a link, a bare name is not a path: otherwise files in the root would always win
        is_path = origin is None or "/" in target
        kind, paths = next(self._matches(name, NAME_KINDS if is_path else NAME_KINDS[1:]), ("", ()))
        if origin is None or len(paths) <= 1:
            return paths
        nearest = self._nearest_cache.get((kind, name)) or self._nearest_cache.setdefault(
            (kind, name), _nearest_below(paths)
        )
        return _nearest(nearest, origin)

    def _matches(self, name: str, kinds: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the kinds of name that match, in order of precedence, with the paths of the memories."""
        for tables, prefix in ((self._live, ""), (self._archived, "archived ")):
            for kind in kinds:
                if paths := getattr(tables, kind).get(name):
                    yield prefix + kind, paths
            if "/" in name:
                ending = "/".join(name.rsplit("/", 2)[-2:])
                paths = [path for path in tables.ends.get(ending, ()) if _ends_with(path, name)]
                if paths:
                    yield f"{prefix}ends", paths


class _NameTables:
    """For each kind of name: the folded names, and the paths of the memories that have them.

    `ends` has the last two segments of each path, to find the memories whose path ends with a target.
    """

    def __init__(self) -> None:
        self.paths, self.ids, self.names, self.titles, self.aliases, self.ends = (Names() for _ in range(6))


def is_outside_vault(target: str, origin: str) -> bool:
    """Return whether a link points outside of the vault."""
    path = posixpath.normpath(posixpath.join(origin.rpartition("/")[0], target.removeprefix("/")))
    return path == ".." or path.startswith("../")


def _ends_with(path: str, name: str) -> bool:
    return fold(path).removesuffix(".md").endswith(f"/{name}")


def _nearest_below(paths: Iterable[str]) -> NearestBelow:
    """Return for each directory above some memories the nearest of them and how many levels down they are."""
    nearest: NearestBelow = {}
    for path in paths:
        directory, steps = path, -1
        while directory:
            directory, steps = directory.rpartition("/")[0], steps + 1
            least, found = nearest.get(directory, (steps + 1, []))
            if steps < least:
                nearest[directory] = steps, [path]
            elif steps == least:
                found.append(path)
    return nearest


def _nearest(nearest: NearestBelow, origin: str) -> list[str]:
    """Return the memories whose directory is the fewest levels, up and down, from that of `origin`."""
    best, found_paths = float("inf"), dict[str, None]()
    directory, up = origin, -1
    while directory:
        directory, up = directory.rpartition("/")[0], up + 1
        down, found = nearest.get(directory, (float("inf"), []))
        if up + down < best:
            best, found_paths = up + down, dict.fromkeys(found)
        elif found and up + down == best:
            found_paths |= dict.fromkeys(found)
    return [*found_paths]


def _aliases(memory: Memory) -> list[str]:
    """Return the other names in the header of a memory."""
    values = memory.header.values
    aliases: list[str] = [*values.get("aliases", ())]
    return aliases + [values[key] for key in ALIAS_KEYS if key in values and isinstance(values[key], str)]
