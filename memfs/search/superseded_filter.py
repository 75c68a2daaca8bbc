"""Which memories are superseded: the links of `supersedes`, and the names by which links refer to a memory. Pure."""

from collections.abc import Collection
from datetime import datetime

from memfs.data_types import Memory
from memfs.namespace import ARCHIVE, fold


def is_withdrawn(memory: Memory, now: datetime) -> bool:
    """Return whether a memory is archived, deprecated or expired; such a memory supersedes nothing."""
    expires = memory.header.expires
    is_inactive = memory.header.status == "deprecated" or fold(memory.path).startswith(f"{ARCHIVE}/")
    return is_inactive or (expires is not None and expires < now)


def target_of(link: str) -> str:
    """Return the target of a link such as [[facts/alice/atlas|Atlas]], with brackets or without, in folded form."""
    target = link.strip().removeprefix("[[").removesuffix("]]").partition("|")[0].partition("#")[0]
    return fold(target.strip().removeprefix("/").removesuffix(".md"))


def names_of(memory: Memory) -> set[str]:
    """Return the link targets that refer to a memory: its path, its file name and its id, in folded form."""
    return {*_path_and_file_name(memory), fold(memory.id)}


def is_superseded(memory: Memory, targets: Collection[str]) -> bool:
    """Return whether one of the link targets refers to a memory; its own `supersedes` links do not count."""
    return _is_target(memory, targets) and not _is_target(memory, {target_of(one) for one in memory.header.supersedes})


def _is_target(memory: Memory, targets: Collection[str]) -> bool:
    if not targets:
        return False
    has_ids = any(
        target.startswith("m-") for target in targets
    )  # else do not parse the header for the id: that is slow
    return any(name in targets for name in _path_and_file_name(memory)) or (has_ids and fold(memory.id) in targets)


def _path_and_file_name(memory: Memory) -> tuple[str, str]:
    path = fold(memory.path.removesuffix(".md"))
    return path, path.rpartition("/")[2]
