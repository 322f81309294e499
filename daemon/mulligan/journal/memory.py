"""Giving memory back: after a big piece of work the daemon goes on for weeks, and should not stay as big."""

from __future__ import annotations

import ctypes
import gc


def give_back_memory() -> None:
    """Return freed heap to the system, where the C library can (glibc)."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
