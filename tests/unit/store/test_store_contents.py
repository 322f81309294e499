"""Contents: how they are encoded, and that nothing comes out that is not what its hash says."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from mulligan.errors import IntegrityError
from mulligan.store import encoding
from mulligan.store.catalogue import Place
from mulligan.store.encoding import BLOCK_SIZE, MAX_DEPTH, SQLITE_BLOCK_SIZE, Encoded, Encoding, block_list, encode
from mulligan.store.segments import RECORD_HEADER_SIZE, RecordKind, pack_record
from mulligan.store.store import Store
from mulligan.store.verify import verify
from support.storing import add_project, file_entry, flip, opened, row, rows_fact, segment, write

RNG = random.Random(5)
TEXT = b"".join(b"line %d of some text\n" % RNG.randrange(10**6) for _ in range(300))


def edited(data: bytes, number: int) -> bytes:
    place = (number * 977) % (len(data) - 10)
    return data[:place] + b"edit %d" % number + data[place + 6 :]


def keep(store: Store, path: bytes, data: bytes, base: bytes | None = None) -> Encoded:
    """Store one version of a file, against another one if it is given."""
    encoded = encode(data, base=store.contents.base(base) if base else None)
    now = store.clock.now()
    store.log.append([rows_fact(row(path, file_entry(data), now))], [encoded])
    return encoded


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path) as made:
        add_project(made)
        yield made


@pytest.mark.parametrize("data", [b"", b"\0", b"x" * 5000, TEXT, RNG.randbytes(3000), b"\xff\xfe\r\n"])
def test_bytes_come_back_as_they_were(store: Store, data: bytes) -> None:
    encoded = keep(store, b"f", data)
    assert store.contents.read(encoded.hash) == data
    assert b"".join(store.contents.chunks(encoded.hash)) == data
    assert store.contents.holds(encoded.hash)
    assert encoded.encoding == (Encoding.ZSTD if len(encoded.payload) < len(data) else Encoding.RAW)


def test_an_edited_file_is_a_small_delta_and_chains_end(store: Store) -> None:
    versions, kinds = [TEXT], [keep(store, b"f", TEXT)]
    for number in range(40):
        versions.append(edited(versions[-1], number))
        kinds.append(keep(store, b"f", versions[-1], kinds[-1].hash))
    depths = [each.depth for each in kinds]
    assert max(depths) == MAX_DEPTH
    assert depths[:18] == [*range(17), 0]
    assert [each.encoding for each in kinds[1:17]] == [Encoding.DELTA] * 16
    deltas = [len(each.payload) for each in kinds if each.encoding == Encoding.DELTA]
    assert max(deltas) < len(TEXT) // 20
    for version, kind in zip(versions, kinds, strict=True):
        assert store.contents.read(kind.hash) == version


@pytest.mark.parametrize(
    ("size", "base", "depth", "wanted"),
    [
        (256, 300, 0, False), (257, 300, 0, True), (4 << 20, 4 << 20, 0, True), ((4 << 20) + 1, 4 << 20, 0, False),
        (1000, 4001, 0, True), (1000, 4004, 0, False), (1000, 4000, 0, True), (1000, 250, 0, True),
        (1000, 249, 0, False), (1000, 1000, 16, False), (1000, 1000, 15, True), (1000, 0, 0, False),
    ],
)  # fmt: skip
def test_a_delta_is_wanted_for_similar_sizes_and_short_chains(size: int, base: int, depth: int, wanted: bool) -> None:
    assert encoding.wants_delta(size, base, depth) == wanted


def test_a_delta_that_saves_little_is_none(store: Store) -> None:
    base = keep(store, b"f", RNG.randbytes(4000))
    other = keep(store, b"f", RNG.randbytes(4000), base.hash)
    assert (other.encoding, other.base) == (Encoding.RAW, None)


def blocks_of(data: bytes) -> tuple[Encoded, list[Encoded]]:
    size = encoding.block_size(data[:16])
    blocks = [encode(data[start : start + size]) for start in range(0, len(data), size)]
    whole = block_list(hashlib.sha256(data).digest(), len(data), [block.hash for block in blocks])
    return whole, list({block.hash: block for block in blocks}.values())


@pytest.mark.parametrize(("head", "size"), [(b"", BLOCK_SIZE), (b"SQLite format 3\0", SQLITE_BLOCK_SIZE)])
def test_a_large_file_is_a_list_of_blocks(store: Store, head: bytes, size: int) -> None:
    data = head + RNG.randbytes(5 * BLOCK_SIZE + 17)
    whole, blocks = blocks_of(data)
    assert {block.size for block in blocks[:-1]} == {size}
    store.log.append([], [*blocks, whole])
    assert store.contents.read(whole.hash) == data
    assert store.contents.base(whole.hash) is None
    changed = data[:-1] + b"!"
    again, more = blocks_of(changed)
    assert len({block.hash for block in more} - {block.hash for block in blocks}) == 1
    store.log.append([], [*more, again])
    assert b"".join(store.contents.chunks(again.hash)) == changed


def test_one_hash_is_stored_once_but_for_what_stands_on_its_own(store: Store) -> None:
    first = keep(store, b"f", TEXT)
    second = keep(store, b"f", edited(TEXT, 1), first.hash)
    assert second.encoding == Encoding.DELTA
    place = store.catalogue().place(second.hash)
    keep(store, b"g", edited(TEXT, 1), first.hash)
    assert store.catalogue().place(second.hash) == place
    keep(store, b"g", edited(TEXT, 1))
    moved = store.catalogue().place(second.hash)
    assert moved is not None and place is not None
    assert (moved.id, moved.base, moved.depth, moved.encoding) == (place.id, 0, 0, Encoding.ZSTD)
    assert moved.offset > place.offset


# damage


def place_of(store: Store, encoded: Encoded) -> Place:
    place = store.catalogue().place(encoded.hash)
    assert place is not None
    return place


def assert_found(store: Store, *broken: Encoded) -> None:
    """Reading fails, `verify` names exactly these contents, and the rows that need them."""
    for encoded in broken:
        with pytest.raises(IntegrityError) as found:
            store.contents.read(encoded.hash)
        assert found.value.exit_status == 9
        with pytest.raises(IntegrityError):
            list(store.contents.chunks(encoded.hash))
        assert store.contents.base(encoded.hash) is None
    report = verify(store.catalogue(), store.contents)
    assert {digest for digest, _ in report.damaged if digest} == {encoded.hash.hex() for encoded in broken}
    assert not report.clean


def test_R17_every_flipped_byte_of_a_stored_content_is_found(store: Store, tmp_path: Path) -> None:
    encoded = keep(store, b"f", TEXT[:400])
    place = place_of(store, encoded)
    assert place.encoding == Encoding.ZSTD
    for offset in range(RECORD_HEADER_SIZE + place.stored):
        flip(segment(tmp_path), place.offset + offset)
        with pytest.raises(IntegrityError):
            store.contents.read(encoded.hash)
        assert store.contents.check(place) != ""
        flip(segment(tmp_path), place.offset + offset)
    assert store.contents.read(encoded.hash) == TEXT[:400]
    assert verify(store.catalogue(), store.contents).clean


def replaced(place: Place, payload: bytes, size: int, digest: bytes, kind: int) -> bytes:
    """A valid record of another content, in place of one that is at least as long."""
    return pack_record(RecordKind.CONTENT, kind, payload, size, digest)[: RECORD_HEADER_SIZE + place.stored]


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize("way", ["truncated", "missing", "a directory", "replaced", "forged", "huge frame", "zeros"])
def test_R17_a_content_that_is_missing_truncated_or_replaced_is_found(store: Store, tmp_path: Path, way: str) -> None:
    store.log._left = True
    victim = keep(store, b"victim", RNG.randbytes(500))
    store.log._left = True
    fine = keep(store, b"fine", TEXT)
    place, path = place_of(store, victim), segment(tmp_path, 2)
    if way == "truncated":
        os.truncate(path, place.offset + RECORD_HEADER_SIZE + 17)
    elif way == "zeros":
        overwrite(path, place.offset, bytes(RECORD_HEADER_SIZE + place.stored))
    elif way == "replaced":
        other = RNG.randbytes(500)
        overwrite(path, place.offset, replaced(place, other, 500, hashlib.sha256(other).digest(), Encoding.RAW))
    elif way == "forged":
        overwrite(path, place.offset, replaced(place, RNG.randbytes(500), 500, victim.hash, Encoding.RAW))
    elif way == "huge frame":
        frame = bytearray(zstandard.ZstdCompressor().compress(bytes(500)))
        frame[4:7] = b"\xe0" + b"\xff" * 2  # a frame that says to be of almost 2**64 bytes
        overwrite(path, place.offset + RECORD_HEADER_SIZE, bytes(frame))
    else:
        path.unlink()
        if way == "a directory":
            path.mkdir()
    store.contents.close()
    assert_found(store, victim)
    assert store.contents.holds(victim.hash) == (way == "forged"), "a record that is whole is not decoded to be held"
    assert store.contents.read(fine.hash) == TEXT
    report = verify(store.catalogue(), store.contents)
    assert [found for _, found, _ in report.paths] == [b"victim"]


def test_R17_a_delta_is_as_broken_as_what_it_builds_on(store: Store, tmp_path: Path) -> None:
    base = keep(store, b"f", TEXT)
    middle = keep(store, b"f", edited(TEXT, 1), base.hash)
    last = keep(store, b"f", edited(edited(TEXT, 1), 2), middle.hash)
    assert last.depth == 2
    flip(segment(tmp_path), place_of(store, middle).offset + RECORD_HEADER_SIZE + 3)
    assert store.contents.read(base.hash) == TEXT
    assert_found(store, middle, last)


def test_R17_a_broken_block_breaks_its_files_and_no_other_block(store: Store, tmp_path: Path) -> None:
    data = RNG.randbytes(3 * BLOCK_SIZE)
    whole, blocks = blocks_of(data)
    store.log.append([rows_fact(row(b"large", file_entry(data), 9))], [*blocks, whole])
    flip(segment(tmp_path), place_of(store, blocks[1]).offset + RECORD_HEADER_SIZE + 1000)
    with pytest.raises(IntegrityError):
        store.contents.read(whole.hash)
    pieces = store.contents.chunks(whole.hash)
    assert next(pieces) == data[:BLOCK_SIZE]
    with pytest.raises(IntegrityError):
        next(pieces)
    assert store.contents.read(blocks[2].hash) == data[2 * BLOCK_SIZE :]
    report = verify(store.catalogue(), store.contents)
    assert {digest for digest, _ in report.damaged} == {blocks[1].hash.hex(), whole.hash.hex()}


def test_R17_blocks_in_another_order_are_found(store: Store) -> None:
    data = RNG.randbytes(2 * BLOCK_SIZE)
    whole, blocks = blocks_of(data)
    wrong = block_list(whole.hash, whole.size, [blocks[1].hash, blocks[0].hash])
    store.log.append([], [*blocks, wrong])
    with pytest.raises(IntegrityError, match="do not add up"):
        store.contents.read(whole.hash)


def test_R17_a_content_that_nobody_has_stored_is_found(store: Store) -> None:
    store.log.append([rows_fact(row(b"f", file_entry(b"never stored"), 9))])
    with pytest.raises(IntegrityError):
        store.contents.read(file_entry(b"never stored").hash)
    report = verify(store.catalogue(), store.contents)
    assert [(path, digest) for _, path, digest in report.paths] == [(b"f", file_entry(b"never stored").hash.hex())]


def test_R17_storing_it_again_heals_a_content_and_what_builds_on_it(store: Store, tmp_path: Path) -> None:
    base = keep(store, b"f", TEXT)
    last = keep(store, b"f", edited(TEXT, 1), base.hash)
    flip(segment(tmp_path), place_of(store, base).offset + RECORD_HEADER_SIZE + 3)
    assert_found(store, base, last)
    assert not store.contents.holds(base.hash)
    assert not store.contents.holds(last.hash)
    keep(store, b"again", TEXT)
    assert store.contents.read(base.hash) == TEXT
    assert store.contents.read(last.hash) == edited(TEXT, 1)
    assert verify(store.catalogue(), store.contents).clean


def test_more_segments_than_may_be_open_are_read(store: Store) -> None:
    kept = []
    for number in range(40):
        store.log._left = True
        kept.append(keep(store, b"f%d" % number, b"content %d\n" % number))
    for _ in range(2):
        for number, encoded in enumerate(kept):
            assert store.contents.read(encoded.hash) == b"content %d\n" % number
    assert len(os.listdir("/proc/self/fd")) < 60 if os.path.isdir("/proc/self/fd") else True


def test_verify_finds_a_break_in_the_log_itself(store: Store, tmp_path: Path) -> None:
    for number in range(3):
        write(store, {b"f": b"%d\n" % number})
    assert verify(store.catalogue(), store.contents).clean
    place = place_of(store, encode(b"1\n"))
    batch = place.offset + RECORD_HEADER_SIZE + place.stored  # the batch record follows its content
    flip(segment(tmp_path), batch + RECORD_HEADER_SIZE + 2)
    report = verify(store.catalogue(), store.contents)
    assert [digest for digest, _ in report.damaged] == [""]
    assert not report.clean


def test_verify_finds_a_lost_segment_of_the_log(store: Store, tmp_path: Path) -> None:
    store.log._left = True
    store.log.append([rows_fact(row(b"gone", at=9))])
    store.log._left = True
    store.log.append([rows_fact(row(b"later", at=9))])
    segment(tmp_path, 2).unlink()
    report = verify(store.catalogue(), store.contents)
    assert report.damaged == [("", "segment 3: batch 3 is missing before batch 4")]
