"""Giving memory back: after a big piece of work the daemon goes on for weeks, and should not stay as big."""

from __future__ import annotations

import ctypes
import gc

#: Below so many things the heap has not grown enough to be worth it.
_FEW = 500


def give_back_memory(things: int = _FEW) -> None:
    """Return freed heap to the system, where the C library can (glibc); `things` is the size of the work done."""
    if things < _FEW:
        return
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
