"""Sharing blocks: what is not the wanted content is not taken, and a file system that cannot is asked once."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.model import Entry, Kind
from mulligan.restore import reflink
from mulligan.restore.reflink import Origin

pytestmark = pytest.mark.disk

DATA = b"some text, again and again\n" * 400


def entry(data: bytes = DATA) -> Entry:
    return Entry(Kind.FILE, 0o644, len(data), hashlib.sha256(data).digest())


def shared(origin: Origin, path: bytes, target: Entry, place: Path) -> tuple[bool, bytes]:
    """Whether a new file shares blocks, and what is in it."""
    fd = os.open(place, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        return origin.share(path, target, fd), os.pread(fd, 1 << 20, 0)
    finally:
        os.close(fd)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A file system that can, by copying; the descriptors that it was asked to clone."""
    found: list[int] = []

    def copy(fd: int, request: int, source: int) -> None:
        assert request == reflink._FICLONE
        found.append(source)
        os.pwrite(fd, os.pread(source, 1 << 20, 0), 0)

    monkeypatch.setattr(reflink.fcntl, "ioctl", copy)
    return found


def test_only_the_wanted_content_is_taken(tmp_path: Path, asked: list[int]) -> None:
    root = tmp_path / "root"
    (root / "d").mkdir(parents=True)
    (root / "d" / "same").write_bytes(DATA)
    (root / "other").write_bytes(DATA[::-1])
    (root / "longer").write_bytes(DATA + b"x")
    (root / "small").write_bytes(b"small")
    os.symlink("d", root / "link")
    os.symlink("d/same", root / "to file")
    os.mkfifo(root / "pipe")
    with Origin(os.fsencode(root)) as origin:
        assert shared(origin, b"d/same", entry(), tmp_path / "a") == (True, DATA)
        assert shared(origin, b"other", entry(), tmp_path / "a") == (False, b"")
        assert len(asked) == 2
        for path in (b"longer", b"missing", b"d", b"link/same", b"to file", b"pipe"):
            assert shared(origin, path, entry(), tmp_path / "a") == (False, b""), path
        assert shared(origin, b"small", entry(b"small"), tmp_path / "a") == (False, b"")
        assert len(asked) == 2


def test_a_file_system_that_cannot_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*_: int) -> None:
        asked.append(1)
        raise OSError(errno.EOPNOTSUPP, "no")

    monkeypatch.setattr(reflink.fcntl, "ioctl", refuse)
    (tmp_path / "f").write_bytes(DATA)
    with Origin(os.fsencode(tmp_path)) as origin:
        assert not any(shared(origin, b"f", entry(), tmp_path / "new")[0] for _ in range(3))
    assert asked == [1]


def test_without_a_tree_nothing_is_shared(tmp_path: Path) -> None:
    for root in (b"", os.fsencode(tmp_path / "nowhere")):
        with Origin(root) as origin:
            assert shared(origin, b"f", entry(), tmp_path / "new") == (False, b"")


@pytest.fixture
def btrfs() -> Iterator[Path]:
    """A small file system that can share blocks."""
    make = shutil.which("mkfs.btrfs")
    if os.geteuid() != 0 or make is None:
        pytest.skip("a file system that shares blocks needs root and mkfs.btrfs")
    with tempfile.TemporaryDirectory(prefix="mg") as directory:
        image, place = Path(directory) / "image", Path(directory) / "mounted"
        place.mkdir()
        image.touch()
        os.truncate(image, 120 << 20)
        subprocess.run([make, "-q", image], check=True, capture_output=True)
        if subprocess.run(["mount", "-o", "loop", image, place], check=False, capture_output=True).returncode:
            pytest.skip("a file system cannot be mounted here")
        try:
            yield place
        finally:
            subprocess.run(["umount", place], check=True)


def test_blocks_are_shared_where_the_file_system_can(btrfs: Path) -> None:
    (btrfs / "f").write_bytes(DATA)
    with Origin(os.fsencode(btrfs)) as origin:
        assert shared(origin, b"f", entry(), btrfs / "new") == (True, DATA)
    with (btrfs / "f").open("r+b") as file:
        file.write(b"changed")
    assert (btrfs / "new").read_bytes() == DATA
