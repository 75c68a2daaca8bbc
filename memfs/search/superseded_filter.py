"""Succession: which memories supersede others, and by what names their links call them. Pure."""

from collections.abc import Collection
from datetime import datetime

from memfs.data_types import Memory
from memfs.namespace import ARCHIVE, fold


def is_withdrawn(memory: Memory, now: datetime) -> bool:
    """Tell whether a memory is forgotten, deprecated or expired; such a one supersedes nothing."""
    expires = memory.header.expires
    is_out = memory.header.status == "deprecated" or fold(memory.path).startswith(f"{ARCHIVE}/")
    return is_out or (expires is not None and expires < now)


def target_of(link: str) -> str:
    """What a link such as [[facts/alice/atlas|Atlas]] points to, with brackets or without."""
    target = link.strip().removeprefix("[[").removesuffix("]]").partition("|")[0].partition("#")[0]
    return fold(target.strip().removeprefix("/").removesuffix(".md"))


def names_of(memory: Memory) -> set[str]:
    """What a link to a memory may say: its path, its file name, its id."""
    return {*_places(memory), fold(memory.id)}


def is_superseded(memory: Memory, targets: Collection[str]) -> bool:
    """Tell whether a link of another memory than itself names it; `targets` is what such links point to."""
    return _is_named(memory, targets) and not _is_named(memory, {target_of(link) for link in memory.header.supersedes})


def _is_named(memory: Memory, targets: Collection[str]) -> bool:
    if not targets:
        return False
    has_ids = any(target.startswith("m-") for target in targets)  # a header takes a while to read
    return any(name in targets for name in _places(memory)) or (has_ids and fold(memory.id) in targets)


def _places(memory: Memory) -> tuple[str, str]:
    path = fold(memory.path.removesuffix(".md"))
    return path, path.rpartition("/")[2]
