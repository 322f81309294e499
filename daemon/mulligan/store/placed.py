"""A content that a child process has stored, on its way into the log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placed:
    """A content that a child process has already stored durably in a segment of its own."""

    hash: bytes
    size: int
    encoding: int
    segment: int
    offset: int
    stored: int
