"""How contents are stored: zstd frames, deltas against the previous version, lists of blocks.

Level 3 and prefix deltas were chosen by measurement: over 400 edits a version took 106 bytes as a delta and 3,972 as a
frame of its own. Chains end after 16 deltas, so a read decodes 17 frames at the most.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import zstandard

from mulligan.errors import IntegrityError

LEVEL = 3
MAX_DEPTH = 16
#: A delta is kept only if it is smaller than this part of the content.
_DELTA_SHARE = 8
_DELTA_MIN, _DELTA_MAX = 256, 4 << 20
#: Files over this size are lists of blocks.
BLOCK_THRESHOLD = 4 << 20
BLOCK_SIZE = 256 << 10
SQLITE_BLOCK_SIZE = 64 << 10
SQLITE_MAGIC = b"SQLite format 3\0"
HASH_SIZE = 32


class Encoding(IntEnum):
    """How a record's payload is to be read. The numbers are stored."""

    RAW = 0
    ZSTD = 1
    DELTA = 2
    BLOCKS = 3  # the payload is the blocks' hashes, one after another


@dataclass(frozen=True, slots=True)
class Base:
    """The previous version of a file, to encode against."""

    id: int
    hash: bytes
    data: bytes
    depth: int


@dataclass(frozen=True, slots=True)
class Encoded:
    """A content ready to be stored."""

    hash: bytes
    size: int
    encoding: int
    payload: bytes
    base: Base | None = None

    @property
    def depth(self) -> int:
        """How many deltas stand between this content and a full frame."""
        return self.base.depth + 1 if self.base else 0


class _Codecs(threading.local):
    # zstandard's objects may not be shared by threads.
    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_codecs = _Codecs()


def compress(data: bytes) -> tuple[int, bytes]:
    """(encoding, payload): a frame, or the bytes themselves where a frame is no smaller."""
    frame = _codecs.compressor.compress(data)
    return (Encoding.ZSTD, frame) if len(frame) < len(data) else (Encoding.RAW, data)


def decompress(encoding: int, payload: bytes, size: int) -> bytes:
    """The inverse of `compress`. Raises IntegrityError."""
    if encoding == Encoding.RAW:
        return payload
    try:
        return _codecs.decompressor.decompress(payload, max_output_size=max(size, 1))
    except zstandard.ZstdError as error:
        raise IntegrityError(f"a stored frame cannot be decoded: {error}", hint="mulligan verify") from error


def _delta(data: bytes, base: Base) -> bytes:
    window = max(10, (len(base.data) + len(data)).bit_length() + 1)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, source_size=len(data), dict_size=len(base.data), window_log=window
    )
    prefix = zstandard.ZstdCompressionDict(base.data, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    return zstandard.ZstdCompressor(dict_data=prefix, compression_params=parameters).compress(data)


def wants_delta(size: int, base_size: int, base_depth: int) -> bool:
    """Whether it is worth loading the previous version to encode against."""
    similar = base_size // 4 <= size <= base_size * 4
    return _DELTA_MIN < size <= _DELTA_MAX and base_size <= _DELTA_MAX and similar and base_depth < MAX_DEPTH


def encode(data: bytes, digest: bytes | None = None, base: Base | None = None) -> Encoded:
    """Encode one content of up to `BLOCK_THRESHOLD` bytes (or one block)."""
    digest = digest or hashlib.sha256(data).digest()
    if base is not None:
        payload = _delta(data, base)
        if len(payload) < len(data) // _DELTA_SHARE:
            return Encoded(digest, len(data), Encoding.DELTA, payload, base)
    encoding, payload = compress(data)
    return Encoded(digest, len(data), encoding, payload)


def apply_delta(payload: bytes, base: bytes, size: int) -> bytes:
    """The content of a delta. Raises IntegrityError."""
    prefix = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    try:
        return zstandard.ZstdDecompressor(dict_data=prefix).decompress(payload, max_output_size=max(size, 1))
    except zstandard.ZstdError as error:
        raise IntegrityError(f"a stored delta cannot be decoded: {error}", hint="mulligan verify") from error


def block_size(head: bytes) -> int:
    """The size of a large file's blocks, by its first bytes: SQLite rewrites scattered pages."""
    return SQLITE_BLOCK_SIZE if head.startswith(SQLITE_MAGIC) else BLOCK_SIZE


def block_list(digest: bytes, size: int, blocks: Iterable[bytes]) -> Encoded:
    """The content of a large file: the hashes of its blocks in order."""
    return Encoded(digest, size, Encoding.BLOCKS, b"".join(blocks))


def block_hashes(payload: bytes) -> Iterator[bytes]:
    """The blocks that a list names."""
    for start in range(0, len(payload), HASH_SIZE):
        yield payload[start : start + HASH_SIZE]
