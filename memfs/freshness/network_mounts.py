"""Detect vaults on network and shared file systems, whose files may change without an event on this machine."""

import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress

_REMOTE = re.compile(
    r"9p|afs|beegfs|ceph|cifs|coda|drvfs|fakeowner|fuse|fuse\..*|gfs2|glusterfs|gpfs|lustre|ncpfs|nfs4?|ocfs2|orangefs|"
    r"panfs|prl_fs|smb3|smbfs|vboxsf|virtiofs|vmhgfs"
)


def is_remote(root: str) -> bool:
    """Return whether files of the vault may change without an event on this machine; on Linux, True if unknown."""
    with suppress(OSError), open("/proc/self/mountinfo", "rb") as mounts:
        return has_remote_mount(map(os.fsdecode, mounts), os.path.realpath(root))
    return sys.platform == "linux"


def has_remote_mount(mountinfo: Iterable[str], root: str) -> bool:
    """Return whether a file system that other machines write to holds the root, or is mounted below it."""
    types = {}
    for line in mountinfo:
        mount, type_and_rest = line.split(" - ", 1)
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mount.split(" ")[4])
        types[point.rstrip("/") + "/"] = type_and_rest.split(" ", 1)[0]  # the last mount on a point hides the others
    inside = root.rstrip("/") + "/"
    holder = max((point for point in types if inside.startswith(point)), key=len, default=inside)
    return any(_REMOTE.fullmatch(types[point]) for point in types if point == holder or point.startswith(inside))
