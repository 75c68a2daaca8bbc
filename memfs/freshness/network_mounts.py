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
    """Return whether files of the vault may change without an event on this machine.

    Only Linux lists its mounts: True there if the list cannot be read, False on other systems.
    """
    with suppress(OSError), open("/proc/self/mountinfo", "rb") as mounts:
        return has_remote_mount(map(os.fsdecode, mounts), os.path.realpath(root))
    return sys.platform == "linux"


def has_remote_mount(mountinfo: Iterable[str], root: str) -> bool:
    """Return whether the root is on a file system that other machines write to, or has one mounted below it."""
    types = {}
    for line in mountinfo:
        mount, type_and_rest = line.split(" - ", 1)
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), mount.split(" ")[4])
        types[point.rstrip("/") + "/"] = type_and_rest.split(" ", 1)[0]  # the last mount on a point hides the others
    prefix = root.rstrip("/") + "/"
    root_mount = max((point for point in types if prefix.startswith(point)), key=len, default=prefix)
    return any(_REMOTE.fullmatch(types[point]) for point in types if point == root_mount or point.startswith(prefix))
