"""A content that a child process has stored, on its way into the log."""

from __future__ import annotations

import msgspec


class Placed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A content that a child process has already stored durably in a segment of its own."""

    hash: bytes
    size: int
    encoding: int
    segment: int
    offset: int
    stored: int
