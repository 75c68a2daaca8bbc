"""Which memory a link means: by path, id, file name, title or alias. Pure: no link is ever looked up on disk."""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from memfs.data_types import Memory
from memfs.namespace import ARCHIVE, fold
from memfs.vault.scope import is_below

ALIAS_KEYS = ("permalink", "name")  # by which basic-memory and Claude Code link, beside our `aliases`
KINDS = ("paths", "ids", "names", "titles", "aliases")  # of names, in the order in which they count
Names = dict[str, list[str]]  # folded name -> paths
Nest = dict[str, tuple[float, list[str]]]  # directory -> how far down, and what is there
ATTACHMENTS = frozenset(
    "avif bmp gif heic jpeg jpg png svg tif tiff webp 3gp flac m4a mp3 ogg opus wav webm avi mkv mov mp4 ogv "
    "base canvas csv doc docx epub excalidraw html ics ipynb json jsonl odt pdf pptx tex txt xls xlsx xml yaml yml "
    "zip".split()
)


class Node(NamedTuple):
    """A memory as a graph knows it."""

    path: str
    id: str
    title: str

    @property
    def is_archived(self) -> bool:
        return is_archived(self.path)


def is_archived(path: str) -> bool:
    """Tell whether a memory is forgotten."""
    return is_below(path.split("/"), ARCHIVE)


def is_attachment(target: str) -> bool:
    """Tell whether a link means a file that is no memory: a picture, a document, the README of the vault."""
    name = fold(target)
    return name.rpartition(".")[2] in ATTACHMENTS if "." in name else name == "readme"


class Targets:
    """The memories of a vault by what a link may call them; of what is forgotten only what nothing else is called."""

    def __init__(self) -> None:
        self._live, self._forgotten = _Tiers(), _Tiers()
        self._nests: dict[tuple[str, str], Nest] = {}

    def add(self, memory: Memory, node: Node) -> None:
        """Take in a memory with all of its names."""
        tiers, path = self._live, fold(node.path).removesuffix(".md")
        if node.is_archived:
            tiers = self._forgotten
            tiers.paths.setdefault(path, []).append(node.path)
            path = path.partition("/")[2]
        folder, _, name = path.rpartition("/")
        tiers.paths.setdefault(path, []).append(node.path)
        tiers.names.setdefault(name, []).append(node.path)
        tiers.ends.setdefault(f"{folder.rpartition('/')[2]}/{name}", []).append(node.path)
        if (found := fold(node.id)) != path:
            tiers.ids.setdefault(found, []).append(node.path)
        if (found := fold(node.title)) != name:
            tiers.titles.setdefault(found, []).append(node.path)
        for alias in {fold(one) for one in _aliases(memory)}:
            tiers.aliases.setdefault(alias, []).append(node.path)

    def resolve(self, target: str, origin: str | None = None) -> Sequence[str]:
        """The paths that a target may mean for a link in the memory `origin`: one, none, or those it cannot choose
        among. The first kind of name that fits counts, and among equals the nearest directory."""
        name = fold(target).removeprefix("/").removesuffix(".md")
        if name.startswith(("./", "../")):
            name = posixpath.normpath(posixpath.join(fold(origin or "").rpartition("/")[0], name))
        is_path = origin is None or "/" in target  # a bare name is no path, or the root would be near to everything
        kind, paths = next(self._found(name, KINDS if is_path else KINDS[1:]), ("", ()))
        if origin is None or len(paths) <= 1:
            return paths
        nest = self._nests.get((kind, name)) or self._nests.setdefault((kind, name), _nested(paths))
        return _nearest(nest, origin)

    def _found(self, name: str, kinds: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
        """The memories of a name, by what kind of name it is."""
        for tiers, when in ((self._live, ""), (self._forgotten, "forgotten ")):
            for kind in kinds:
                if paths := getattr(tiers, kind).get(name):
                    yield when + kind, paths
            if "/" in name:
                ending = "/".join(name.rsplit("/", 2)[-2:])
                paths = [path for path in tiers.ends.get(ending, ()) if _ends_with(path, name)]
                if paths:
                    yield f"{when}ends", paths


class _Tiers:
    """Folded names of each kind, and the paths of the memories that have them."""

    def __init__(self) -> None:
        self.paths, self.ids, self.names, self.titles, self.aliases, self.ends = (Names() for _ in range(6))


def leaves(target: str, origin: str) -> bool:
    """Tell whether a link leads out of the vault."""
    place = posixpath.normpath(posixpath.join(origin.rpartition("/")[0], target.removeprefix("/")))
    return place == ".." or place.startswith("../")


def _ends_with(path: str, name: str) -> bool:
    return fold(path).removesuffix(".md").endswith(f"/{name}")


def _nested(paths: Iterable[str]) -> Nest:
    """For each directory above some memories, those that are the fewest steps down from it, and how many that are."""
    nest: Nest = {}
    for path in paths:
        folder, steps = path, -1
        while folder:
            folder, steps = folder.rpartition("/")[0], steps + 1
            least, found = nest.get(folder, (steps + 1, []))
            if steps < least:
                nest[folder] = steps, [path]
            elif steps == least:
                found.append(path)
    return nest


def _nearest(nest: Nest, origin: str) -> list[str]:
    """The memories whose directory is the fewest steps, up and down, from that of `origin`."""
    best, near = float("inf"), dict[str, None]()
    folder, up = origin, -1
    while folder:
        folder, up = folder.rpartition("/")[0], up + 1
        down, found = nest.get(folder, (float("inf"), []))
        if up + down < best:
            best, near = up + down, dict.fromkeys(found)
        elif found and up + down == best:
            near |= dict.fromkeys(found)
    return [*near]


def _aliases(memory: Memory) -> list[str]:
    values = memory.header.values
    aliases: list[str] = [*values.get("aliases", ())]
    return aliases + [values[key] for key in ALIAS_KEYS if key in values and isinstance(values[key], str)]
