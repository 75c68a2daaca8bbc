"""Linux system calls that Python lacks: rename with flags, and open without following any symlink of the path."""

import ctypes
import errno
import os
import sys
from functools import cache
from typing import Any

RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
# of renameat2, and of open with O_TMPFILE, which a system without that flag takes for an open of the directory itself
UNSUPPORTED_ERRNOS = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EISDIR}
_OPENAT2_NUMBER = 437  # the same on every architecture
_RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 4, 8


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _libc_function(name: str) -> Any:
    return getattr(ctypes.CDLL(None, use_errno=True), name, None) if sys.platform == "linux" else None


_syscall = _libc_function("syscall")
_OPEN_HOW_SIZE = ctypes.sizeof(_OpenHow)


def rename_with_flags(parent: int, name: str, to_parent: int, to_name: str, flags: int) -> bool:
    """Rename with flags of renameat2; return False if the system or the file system does not support it."""
    call = _libc_function("renameat2")
    if call is None:
        return False
    if call(parent, os.fsencode(name), to_parent, os.fsencode(to_name), flags) == 0:
        return True
    code = ctypes.get_errno()
    if code in UNSUPPORTED_ERRNOS:
        return False
    raise OSError(code, os.strerror(code), to_name)


@cache
def _open_how(flags: int) -> Any:
    return ctypes.byref(_OpenHow(flags, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH))


def open_beneath(root: int, path: str, flags: int) -> int | None:
    """Open a path below an open directory, following no symlink. Raises OSError.

    Return None if this call cannot decide, for one of the reasons below: the caller then opens it step by step.
    """
    if _syscall is None:
        return None
    fd: int = _syscall(_OPENAT2_NUMBER, root, path.encode("utf-8", "surrogateescape"), _open_how(flags), _OPEN_HOW_SIZE)
    if fd >= 0:
        return fd
    code = ctypes.get_errno()
    if code in {errno.ENOSYS, errno.EPERM, errno.EAGAIN}:  # an old kernel, a sandbox, a concurrent rename
        return None
    raise OSError(code, os.strerror(code), path)
