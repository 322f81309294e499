"""Whether the files of a store hold some bytes, as they lie there or decoded."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import zstandard

from mulligan.store import encoding
from mulligan.store.encoding import Encoding
from mulligan.store.segments import RECORD_HEADER_SIZE, records_in, segment_numbers, segment_path


def holding(directory: Path, wanted: bytes) -> list[str]:
    """The files below a directory that hold some bytes: raw, in a record of a segment, or in a snapshot."""
    found = set()
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file() and wanted in path.read_bytes():
                found.add(path.name)
    pool = directory / "content_pool"
    for number in segment_numbers(str(pool)):
        with suppress(FileNotFoundError):  # collected meanwhile
            if _in_segment(str(pool), number, wanted):
                found.add(f"{number:06d}.seg")
    for path in pool.glob("*.snap"):
        with suppress(FileNotFoundError):
            if wanted in zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()[32:-32]):
                found.add(path.name)
    return sorted(found)


def _in_segment(pool: str, number: int, wanted: bytes) -> bool:
    data = Path(segment_path(pool, number)).read_bytes()
    for offset, header in list(records_in(pool, number)):
        start = offset + RECORD_HEADER_SIZE
        payload = data[start : start + header.stored]
        if header.encoding == Encoding.ZSTD and wanted in encoding.decompress(header.encoding, payload, header.size):
            return True
        if header.encoding == Encoding.DELTA and wanted in _literals(payload):
            return True
    return False


def _literals(delta: bytes) -> bytes:
    """What a delta says by itself: decoded on a base of zeros, if that is possible at all."""
    prefix = zstandard.ZstdCompressionDict(bytes(1 << 16), dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    try:
        return zstandard.ZstdDecompressor(dict_data=prefix).decompress(delta, max_output_size=1 << 24)
    except zstandard.ZstdError:
        return b""
