"""Where the bytes of a damaged content are looked for."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.errors import IntegrityError
from mulligan.project.healing import heal
from mulligan.store.checking import Harm, harm_of
from mulligan.store.contents import Contents
from mulligan.store.copies import copies
from mulligan.store.damage import Damage
from mulligan.store.encoding import Encoded, Encoding, block_list, encode
from mulligan.store.records import ProjectFact
from mulligan.store.segments import RECORD_HEADER_SIZE
from mulligan.store.state import StateDatabase
from mulligan.store.store import Store
from mulligan.store.verify import find_dependants
from support.storing import armed, file_entry, flip, opened, row, rows_fact, segment

RNG = random.Random(8)
TEXT = b"".join(b"line %d of some text\n" % RNG.randrange(10**6) for _ in range(300))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def store(tmp_path: Path, root: Path) -> Iterator[Store]:
    with opened(tmp_path / "store") as made:
        made.log.append([ProjectFact(1, os.fsencode(root), "watching", 1, 2, 1, added=5)])
        yield made


def keep(store: Store, path: bytes, data: bytes, base: bytes | None = None) -> Encoded:
    encoded = encode(data, base=store.contents.base(base) if base else None)
    store.log.append([rows_fact(row(path, file_entry(data), store.clock.now()))], [encoded])
    return encoded


def damage(store: Store, digest: bytes, offset: int = RECORD_HEADER_SIZE + 1) -> None:
    place = store.catalogue().place(digest)
    assert place is not None
    flip(segment(Path(store.directory), place.segment), place.offset + offset)


def healed(store: Store, *digests: bytes) -> dict[bytes, str]:
    """From what these are healed; that they are whole then is looked at as well."""
    contents = Contents(store.pool, store.catalogue)
    try:
        harms = {digest: harm for digest in digests if (harm := harm_of(contents, digest)) is not None}
        found = heal(store, contents, harms)
        for digest in found:
            assert harm_of(contents, digest) is None
        return found
    finally:
        contents.close()


def test_a_segment_that_was_removed_is_read_as_long_as_it_is_open(store: Store) -> None:
    store.log._left = True
    one = keep(store, b"f", TEXT)
    place = store.catalogue().place(one.hash)
    store.log._left = True
    keep(store, b"g", b"in another segment\n")
    assert store.contents.read(one.hash) == TEXT and place is not None
    segment(Path(store.directory), place.segment).unlink()
    assert healed(store, one.hash) == {one.hash: "a segment that is still open"}
    store.contents.close()
    assert store.contents.read(one.hash) == TEXT


@pytest.mark.parametrize("way", ["another size", "as large", "a link", "a directory", "gone", "a link above"])
def test_what_stands_at_a_path_now_is_held_against_the_hash(store: Store, root: Path, way: str) -> None:
    data = RNG.randbytes(900)
    one = keep(store, b"d/f", data)
    damage(store, one.hash)
    (root / "d").mkdir()
    path, elsewhere = root / "d/f", root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "f").write_bytes(data)
    if way == "another size":
        path.write_bytes(data + b"!")
    elif way == "as large":
        path.write_bytes(RNG.randbytes(900))
    elif way == "a link":
        path.symlink_to(elsewhere / "f")
    elif way == "a directory":
        path.mkdir()
    elif way == "a link above":
        (root / "d").rmdir()
        (root / "d").symlink_to(elsewhere)
    assert healed(store, one.hash) == {}
    with pytest.raises(IntegrityError):
        store.contents.read(one.hash)


def test_a_missing_content_is_stored(store: Store, root: Path) -> None:
    store.log.append([rows_fact(row(b"f", file_entry(TEXT), 9))])
    (root / "f").write_bytes(TEXT)
    digest = file_entry(TEXT).hash
    assert healed(store, digest) == {digest: str(root / "f")}
    assert store.contents.read(digest) == TEXT


def test_a_delta_that_nobody_names_is_as_good_as_its_base(store: Store) -> None:
    base = keep(store, b"f", TEXT)
    edited = TEXT[:500] + b"edited" + TEXT[506:]
    last = keep(store, b"f", edited, base.hash)
    assert last.encoding == Encoding.DELTA
    store.log.append([], [encode(edited)])
    damage(store, last.hash)
    assert healed(store, last.hash) == {last.hash: "another copy in the store"}
    damage(store, last.hash)
    damage(store, base.hash)
    assert healed(store, last.hash, base.hash) == {}


def test_a_list_of_blocks_that_nobody_names_is_held_against_its_blocks(store: Store) -> None:
    data = RNG.randbytes(600_000)
    blocks = [encode(data[start : start + (256 << 10)]) for start in range(0, len(data), 256 << 10)]
    whole = block_list(file_entry(data).hash, len(data), [block.hash for block in blocks])
    store.log.append([rows_fact(row(b"f", file_entry(data), 9))], [*blocks, whole])
    store.log.append([], [block_list(whole.hash, len(data), [block.hash for block in reversed(blocks)])])
    assert harm_of(store.contents, whole.hash) is not None
    assert healed(store, whole.hash) == {whole.hash: "another copy in the store"}
    assert store.contents.read(whole.hash) == data


def test_copies_are_found_behind_what_is_broken(store: Store, tmp_path: Path) -> None:
    kept = [keep(store, b"f%d" % number, RNG.randbytes(300)) for number in range(4)]
    damage(store, kept[0].hash, 10)  # its header
    damage(store, kept[1].hash)  # its payload
    found = [each.header.hash for each in copies(store.pool, {each.hash for each in kept})]
    assert found == [kept[2].hash, kept[3].hash]
    segment(Path(store.directory), 9).write_bytes(b"short")
    segment(Path(store.directory), 10).mkdir()
    assert len([*copies(store.pool, {each.hash for each in kept})]) == 2


def test_what_cannot_be_stored_stays_damaged(store: Store, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = keep(store, b"f", TEXT)
    (root / "f").write_bytes(TEXT)
    damage(store, one.hash)
    with armed("repair.storing=eio"):
        assert healed(store, one.hash) == {}
    assert "damaged contents could not be stored again" in caplog.text
    assert healed(store, one.hash) == {one.hash: str(root / "f")}


def test_what_builds_on_a_damaged_content_is_found(store: Store) -> None:
    versions = [keep(store, b"f", TEXT)]
    for number in range(3):
        data = store.contents.read(versions[-1].hash)
        edited = data[: 100 * number] + b"edit %d" % number + data[100 * number + 6 :]
        versions.append(keep(store, b"f", edited, versions[-1].hash))
    assert versions[3].depth == 3
    whole = block_list(file_entry(TEXT * 2).hash, 2 * len(TEXT), [versions[0].hash] * 2)
    other = keep(store, b"other", b"on its own\n")
    store.log.append([], [whole])
    damage(store, versions[1].hash)
    for found, expected in ((versions[1], versions[1:]), (versions[3], versions[1:])):
        harm = harm_of(store.contents, found.hash)
        assert harm is not None and harm.culprit == versions[1].hash
        harms = {found.hash: harm}
        find_dependants(store.catalogue(), store.contents, harms)
        assert set(harms) == {each.hash for each in expected}
    damage(store, versions[0].hash)
    harms = {versions[0].hash: Harm(versions[0].hash, "", versions[0].hash)}
    find_dependants(store.catalogue(), store.contents, harms)
    assert set(harms) == {each.hash for each in (*versions, whole)} and other.hash not in harms


def test_damage_is_remembered_until_the_bytes_lie_elsewhere(store: Store, tmp_path: Path) -> None:
    state = StateDatabase(str(tmp_path / "state.db"))
    known = Damage(state, store.catalogue, store.clock.now)
    base = keep(store, b"f", TEXT)
    last = keep(store, b"f", TEXT + b"more\n", base.hash)
    damage(store, base.hash)
    harms = [harm for each in (base, last) if (harm := harm_of(store.contents, each.hash)) is not None]
    assert [harm.culprit for harm in harms] == [base.hash] * 2
    known.keep(harms, ["the log is broken"])
    marks = known.marks()
    assert set(marks) == {base.hash, last.hash}
    known.keep([Harm(last.hash, "still", base.hash)])
    assert known.marks()[last.hash].since == marks[last.hash].since
    assert known.faults() == ["the log is broken"], "they were not looked at"
    known.keep([], [])
    assert known.marks() == {} and known.faults() == []
    known.keep(harms)
    store.log.append([], [encode(TEXT)])
    assert known.marks() == {}
    state.close()


def test_a_state_database_of_a_newer_version_is_left_alone(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connection = sqlite3.connect(tmp_path / "state.db")
    connection.executescript(
        "create table setting (scope text, subject text, key text, value text); pragma user_version = 99;"
    )
    connection.close()
    state = StateDatabase(str(tmp_path / "state.db"))
    known = Damage(state, store.catalogue, store.clock.now)
    known.keep([Harm(b"\1" * 32, "gone", b"\1" * 32)])
    assert known.marks() == {}
    assert "could not be remembered" in caplog.text
    state.close()
