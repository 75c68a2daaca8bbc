"""Calls of Linux that Python does not have: rename with flags, and open without following any symlink on the way."""

import ctypes
import errno
import os
import sys
from functools import cache
from typing import Any

NOREPLACE, EXCHANGE = 1, 2
NOT_THERE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EISDIR}
_OPENAT2 = 437  # the same on every architecture
_NO_SYMLINKS, _BENEATH = 4, 8


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _call(name: str) -> Any:
    return getattr(ctypes.CDLL(None, use_errno=True), name, None) if sys.platform == "linux" else None


_syscall = _call("syscall")
_SIZE = ctypes.sizeof(_How)


def rename(parent: int, name: str, to_parent: int, to_name: str, flags: int) -> bool:
    """Rename with flags; False where there is no such call."""
    call = _call("renameat2")
    if call is None:
        return False
    if call(parent, os.fsencode(name), to_parent, os.fsencode(to_name), flags) == 0:
        return True
    code = ctypes.get_errno()
    if code in NOT_THERE:
        return False
    raise OSError(code, os.strerror(code), to_name)


@cache
def _how(flags: int) -> Any:
    return ctypes.byref(_How(flags, 0, _NO_SYMLINKS | _BENEATH))


def open_beneath(root: int, path: str, flags: int) -> int | None:
    """Open a file at a path below an open directory, with no symlink on the way; None where there is no such call."""
    if _syscall is None:
        return None
    fd: int = _syscall(_OPENAT2, root, path.encode("utf-8", "surrogateescape"), _how(flags), _SIZE)
    if fd >= 0:
        return fd
    code = ctypes.get_errno()
    if code in {errno.ENOSYS, errno.EPERM, errno.EAGAIN}:  # an old kernel, a sandbox, a rename at the same time
        return None
    raise OSError(code, os.strerror(code), path)
