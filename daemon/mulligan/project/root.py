"""When a root directory was made: inode numbers are reused at once, birth times are not."""

from __future__ import annotations

import ctypes
import os
import struct

_AT_FDCWD, _STATX_BTIME, _SIZE = -100, 0x800, 256
_MASK, _BIRTH = struct.Struct("<I"), struct.Struct("<qI")
_BIRTH_AT = 80  # in struct statx of <linux/stat.h>


def birth_time(path: bytes) -> int:
    """Wall-clock nanoseconds at which the file system made a directory; 0 if it does not tell."""
    try:
        found = os.stat(path)
    except OSError:
        return 0
    if (seconds := getattr(found, "st_birthtime", None)) is not None:
        return int(seconds * 1_000_000_000)
    statx = getattr(ctypes.CDLL(None), "statx", None)
    if statx is None:
        return 0
    buffer = ctypes.create_string_buffer(_SIZE)
    if statx(_AT_FDCWD, ctypes.c_char_p(path), 0, _STATX_BTIME, buffer) != 0:
        return 0
    (mask,) = _MASK.unpack_from(buffer)
    seconds, nanoseconds = _BIRTH.unpack_from(buffer, _BIRTH_AT)
    return seconds * 1_000_000_000 + nanoseconds if mask & _STATX_BTIME else 0
