"""The digest of a tree: the sum, modulo 2**256, of one SHA-256 per entry that is there.

It is kept in O(changes), finds our own mistakes and answers at once whether two trees differ.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from mulligan.model import Entry, Kind

_MODULUS = 1 << 256
ZERO_DIGEST = b"\0" * 32
#: Kinds that a tree consists of.
THERE = (Kind.FILE, Kind.DIR, Kind.LINK)

_PREFIX = b"mulligan-entry-1"
_BEFORE_PATH = len(_PREFIX).to_bytes(8, "big") + _PREFIX


@lru_cache(4096)
def _between(kind: Kind, mode: int, length: int) -> bytes:
    """What stands between the path and the last field; few differ in a tree."""
    fields = (1).to_bytes(8, "big"), kind.to_bytes(1, "big"), (2).to_bytes(8, "big"), mode.to_bytes(2, "big")
    return b"".join((*fields, length.to_bytes(8, "big")))


def entry_digest(path: bytes, entry: Entry) -> int:
    """The summand of one entry; 0 for what is not there.

    SHA-256 over prefix, path, kind (1 byte), mode (2 bytes) and hash or link target, each behind its length (8 bytes).
    """
    kind = entry.kind
    if kind not in THERE:
        return 0
    last = entry.hash if kind == Kind.FILE else entry.target
    middle = _between(kind, entry.mode, len(last))
    data = _BEFORE_PATH + len(path).to_bytes(8, "big") + path + middle + last
    return int.from_bytes(hashlib.sha256(data).digest(), "big")


def add_digest(digest: bytes, difference: int) -> bytes:
    """A digest after entries came (positive) and went (negative)."""
    return ((int.from_bytes(digest, "big") + difference) % _MODULUS).to_bytes(32, "big")
