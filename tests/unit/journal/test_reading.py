"""Reading one entry: what it is, whether it is of one version, and nothing through a link."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mulligan.journal import reading
from mulligan.journal.reading import Reading, read_entry, unchanged
from mulligan.model import ABSENT, Entry, Kind, Stat
from mulligan.store import encoding

NOW = 10**18


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def root_fd(root: Path) -> Iterator[int]:
    fd = os.open(root, os.O_RDONLY)
    yield fd
    os.close(fd)


def read(root_fd: int, path: bytes, limit: int = 1 << 40, blocks: dict[bytes, bytes] | None = None) -> Reading:
    kept: dict[bytes, bytes] = {} if blocks is None else blocks
    return read_entry(root_fd, path, lambda: NOW, limit, kept.__setitem__)


@pytest.mark.parametrize("data", [b"", b"\0", b"text\n", b"\xff" * 100_000, os.urandom(encoding.BLOCK_THRESHOLD)])
def test_a_file_is_its_bytes_its_size_and_its_mode(root: Path, root_fd: int, data: bytes) -> None:
    (root / "f").write_bytes(data)
    (root / "f").chmod(0o4751)
    found = read(root_fd, b"f")
    assert found.entry == Entry(Kind.FILE, 0o4751, len(data), hashlib.sha256(data).digest())
    assert (found.data, found.blocks, found.torn) == (data, None, False)
    state = (root / "f").stat()
    assert found.stat == Stat(
        state.st_dev, state.st_ino, len(data), state.st_mode, state.st_mtime_ns, state.st_ctime_ns, NOW
    )


def test_a_large_file_is_its_blocks(root: Path, root_fd: int) -> None:
    data = os.urandom(encoding.BLOCK_THRESHOLD + 1)
    (root / "f").write_bytes(data)
    blocks: dict[bytes, bytes] = {}
    found = read(root_fd, b"f", blocks=blocks)
    assert found.entry.hash == hashlib.sha256(data).digest()
    assert found.blocks is not None and found.data is None
    assert b"".join(blocks[digest] for digest in found.blocks) == data
    assert {len(blocks[digest]) for digest in found.blocks} == {encoding.BLOCK_SIZE, 1}


def test_a_large_database_has_small_blocks(root: Path, root_fd: int) -> None:
    (root / "f").write_bytes(encoding.SQLITE_MAGIC + bytes(encoding.BLOCK_THRESHOLD))
    blocks: dict[bytes, bytes] = {}
    read(root_fd, b"f", blocks=blocks)
    assert max(len(block) for block in blocks.values()) == encoding.SQLITE_BLOCK_SIZE


def test_directories_links_and_what_is_not_there(root: Path, root_fd: int) -> None:
    (root / "d").mkdir(mode=0o750)
    (root / "d").chmod(0o2750)
    (root / "l").symlink_to("no/where")
    os.symlink(b"\xff\n", os.fsencode(root / "odd"))
    assert read(root_fd, b"d").entry == Entry(Kind.DIR, 0o2750)
    assert read(root_fd, b"l").entry == Entry(Kind.LINK, target=b"no/where")
    assert read(root_fd, b"odd").entry == Entry(Kind.LINK, target=b"\xff\n")
    assert read(root_fd, b"nothing").entry == ABSENT
    assert read(root_fd, b"nothing/below").entry == ABSENT
    (root / "f").write_bytes(b"x")
    assert read(root_fd, b"f/below").entry == ABSENT


def test_special_files_are_never_opened(root: Path, root_fd: int) -> None:
    os.mkfifo(root / "fifo")  # opening it would wait for a writer
    with socket.socket(socket.AF_UNIX) as listener:
        where = os.getcwd()
        os.chdir(root)
        try:
            listener.bind("socket")
        finally:
            os.chdir(where)
        assert read(root_fd, b"fifo").entry == Entry(Kind.SPECIAL, reason="fifo")
        assert read(root_fd, b"socket").entry == Entry(Kind.SPECIAL, reason="socket")


def test_R4_nothing_is_read_through_a_link(root: Path, root_fd: int) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("outside\n")
    (root / "d").symlink_to(outside)
    (root / "f").symlink_to(outside / "secret")
    assert read(root_fd, b"d/secret").entry == ABSENT
    assert read(root_fd, b"f").entry.kind == Kind.LINK


def test_R6_a_file_over_the_limit_or_unreadable_is_unknown_never_empty(root: Path, root_fd: int) -> None:
    (root / "f").write_bytes(b"x" * 11)
    assert read(root_fd, b"f", limit=11).entry.kind == Kind.FILE
    assert read(root_fd, b"f", limit=10).entry == Entry(Kind.UNKNOWN, reason="too large: 11 bytes")


@pytest.mark.parametrize("number", [5, 13, 24])
def test_R6_an_error_of_the_disk_is_unknown_with_its_reason(
    root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (root / "f").write_bytes(b"bytes\n")

    def broken(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(reading.os, "pread", broken)
    found = read(root_fd, b"f")
    assert found.entry == Entry(Kind.UNKNOWN, reason=f"unreadable: {os.strerror(number).lower()}")


def while_reading(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    """Let something happen once, after the first bytes were read."""
    real, done = os.pread, []

    def pread(fd: int, size: int, offset: int) -> bytes:
        data = real(fd, size, offset)
        if not done:
            done.append(True)
            change()
        return data

    monkeypatch.setattr(reading.os, "pread", pread)


def test_W7_a_file_that_changes_while_it_is_read_is_torn(
    root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "f").write_bytes(b"old bytes\n")

    def change() -> None:
        with (root / "f").open("r+b") as file:
            file.write(b"NEW")

    while_reading(monkeypatch, change)
    assert read(root_fd, b"f").torn


@pytest.mark.parametrize("size", [10, encoding.BLOCK_THRESHOLD - 5, encoding.BLOCK_THRESHOLD + 5])
def test_W7_a_file_that_grows_while_it_is_read_is_torn_and_consistent(
    root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    (root / "f").write_bytes(os.urandom(size))

    def change() -> None:
        with (root / "f").open("ab") as file:
            file.write(os.urandom(1000))

    while_reading(monkeypatch, change)
    blocks: dict[bytes, bytes] = {}
    found = read(root_fd, b"f", blocks=blocks)
    assert found.torn
    whole = found.data if found.blocks is None else b"".join(blocks[each] for each in found.blocks)
    assert whole is not None
    assert (found.entry.size, found.entry.hash) == (len(whole), hashlib.sha256(whole).digest())
    assert (found.blocks is None) == (found.entry.size <= encoding.BLOCK_THRESHOLD)


def test_W7_a_file_that_never_stops_growing_is_left_for_the_next_look(
    root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = encoding.BLOCK_THRESHOLD + 1
    (root / "f").write_bytes(bytes(size))
    real = os.pread
    asked: list[int] = []

    def endless(fd: int, length: int, offset: int) -> bytes:
        asked.append(offset)
        return real(fd, length, 0)[:length]

    monkeypatch.setattr(reading.os, "pread", endless)
    assert read(root_fd, b"f").torn
    assert max(asked) < size + 65 * encoding.BLOCK_SIZE


def test_what_is_replaced_by_a_fifo_between_look_and_open_does_not_stop_the_reader(
    root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "f").write_bytes(b"x")
    real = os.open

    def open_(path: bytes | str, flags: int, *more: int, **named: int) -> int:
        if path == b"f":
            (root / "f").unlink()
            os.mkfifo(root / "f")
        return real(path, flags, *more, **named)

    monkeypatch.setattr(reading.os, "open", open_)
    assert read(root_fd, b"f").entry == Entry(Kind.SPECIAL, reason="fifo")


@pytest.mark.parametrize("field", ["dev", "ino", "size", "mode", "mtime", "ctime"])
def test_a_stat_proves_nothing_if_any_part_differs(field: str) -> None:
    before = Stat(1, 2, 3, stat.S_IFREG | 0o644, 10**17, 10**17, NOW)
    assert unchanged(before, before, 0)
    values = {name: getattr(before, name) for name in before.__struct_fields__}
    assert not unchanged(before, Stat(**(values | {field: 99})), 0)


def test_a_stat_that_was_taken_within_the_clocks_grain_proves_nothing() -> None:
    def seen(after: int) -> Stat:
        return Stat(1, 2, 3, 4, 10**17, 10**17, 10**17 + after)

    assert not unchanged(seen(19_999_999), seen(0), 0)
    assert unchanged(seen(20_000_000), seen(0), 0)
