"""A process writes a file in a tight loop while it is restored: no version is replaced that nobody has seen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mulligan import faults
from mulligan.model import ABSENT, Kind
from mulligan.restore import exchange
from mulligan.restore.plan import Change, make_plan
from mulligan.restore.tree import Seen, inode_of, look
from support.restoring import Bench, file

pytestmark = pytest.mark.disk

# Each version has the same size, so that only its bytes tell it from another one. At its end it says which was last,
# and how long that took.
WRITER = """
import os, sys, time
path, way = sys.argv[1], sys.argv[2]
number = 0
while not os.path.exists(path + ".stop"):
    number += 1
    data = b"%08d" % number
    began = time.perf_counter()
    if way == "rename":
        with open(path + ".tmp", "wb") as stream:
            stream.write(data)
        os.rename(path + ".tmp", path)
    else:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(fd, data, 0)
        os.close(fd)
    seconds = time.perf_counter() - began
print(number, seconds)
"""
#: Far longer than a write takes, and shorter than a restore. A writer that was held up for so long, by other work, may
#: have opened a file before it was exchanged, and written after it was looked at for the last time.
HELD_UP_SECONDS = 0.00005


@contextmanager
def writer(path: Path, way: str) -> Iterator[list[float]]:
    """A process that writes; at its end the list has the last version's number and how long that took."""
    last: list[float] = []
    path.write_bytes(b"%08d" % 0)
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path), way], stdout=subprocess.PIPE) as process:
        while path.read_bytes() == b"%08d" % 0:
            assert process.poll() is None
        yield last
        Path(f"{path}.stop").touch()
        assert process.stdout is not None
        last += map(float, process.stdout.read().split())
    os.unlink(f"{path}.stop")


def assert_newest_is_kept(bench: Bench, way: str, last: list[float], replaced: Sequence[bytes] = ()) -> None:
    """The last version that was written stands in the tree, is captured, or was known when it was replaced."""
    number, seconds = last
    newest = file(bench.contents, b"%08d" % number).hash
    kept = {bench.scan()[b"f"].hash, *(entry.hash for _, entry in bench.contents.captured), *replaced}
    assert newest in kept or (way == "in place" and seconds > HELD_UP_SECONDS), f"version {number:.0f} is lost"


@pytest.mark.parametrize("way", ["rename", "in place"])
def test_R10_a_version_that_is_not_expected_is_given_back(bench: Bench, way: str) -> None:
    path, then = bench.root / "f", file(bench.contents, b"restored")
    plan = make_plan([Change(b"f", then, file(bench.contents, b"expected"))])
    with writer(path, way) as last:
        for _ in range(300):
            outcome = bench.apply(plan)
            assert not outcome.done
            assert [skipped for skipped, _ in outcome.skipped] == [b"f"]
    assert not bench.leftovers()
    assert_newest_is_kept(bench, way, last)
    assert bench.scan()[b"f"].hash != then.hash


@pytest.mark.parametrize("way", ["rename", "in place"])
def test_R10_what_is_replaced_was_expected_or_is_captured(bench: Bench, way: str) -> None:
    path, then = bench.root / "f", file(bench.contents, b"restored")
    replaced: list[bytes] = []
    with writer(path, way) as last:
        while len(replaced) < 100 or not bench.contents.captured:
            root = os.open(bench.root, os.O_RDONLY)
            seen = look(root, b"f")
            os.close(root)
            if seen.kind != Kind.FILE or seen == then:
                continue
            outcome = bench.apply(make_plan([Change(b"f", then, seen)]), force=True)
            replaced += [done.before.hash for done in outcome.done]
            captured = {entry.hash for _, entry in bench.contents.captured}
            assert all(done.before in (seen, then) or done.before.hash in captured for done in outcome.done)
    assert not bench.leftovers()
    assert_newest_is_kept(bench, way, last, replaced)


def test_R10_a_deletion_takes_nothing_that_is_not_expected(bench: Bench) -> None:
    plan = make_plan([Change(b"f", ABSENT, file(bench.contents, b"expected"))])
    with writer(bench.root / "f", "rename") as last:
        for _ in range(300):
            assert not bench.apply(plan).done
    newest = file(bench.contents, b"%08d" % last[0]).hash
    assert bench.scan()[b"f"].hash == newest
    assert not bench.leftovers()


def test_R10_a_newer_version_that_comes_while_one_is_given_back_stays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.root / "f"
    path.write_bytes(b"first!!!")
    real, calls = exchange.exchange, []

    def swap(*names: Any) -> None:
        calls.append(names)
        if len(calls) == 3:  # the trial of the file system, the exchange, the exchange back
            (bench.root / "new").write_bytes(b"second!!")
            os.rename(bench.root / "new", path)
        real(*names)

    monkeypatch.setattr(exchange, "exchange", swap)
    plan = make_plan([Change(b"f", file(bench.contents, b"restored"), file(bench.contents, b"expected"))])
    outcome = bench.apply(plan)
    assert len(calls) == 4
    assert [skipped for skipped, _ in outcome.skipped] == [b"f"]
    assert bench.scan() == {b"f": file(bench.contents, b"second!!")}
    assert outcome.captured == [(b"f", file(bench.contents, b"first!!!"))]


def test_R10_what_appears_in_the_last_moment_is_not_replaced(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = exchange.move

    def move(*names: Any) -> None:
        (bench.root / "f").write_bytes(b"appeared")
        real(*names)

    monkeypatch.setattr(exchange, "move", move)
    outcome = bench.restore({b"f": file(bench.contents, b"restored")})
    assert [skipped for skipped, _ in outcome.skipped] == [b"f"]
    assert bench.scan() == {b"f": file(bench.contents, b"appeared")}


def test_an_mtime_that_could_hide_a_write_is_no_proof(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    # A write within one tick of the clock leaves the mtime as it is; a time that is set back does the same here.
    future = (4 * 10**18, 4 * 10**18)
    bench.build({b"f": file(bench.contents, b"live")})
    os.utime(bench.root / "f", ns=future)
    plan = bench.plan({b"f": file(bench.contents, b"then")})
    displaced = os.open(bench.root / "f", os.O_WRONLY)

    def write(name: str) -> None:
        if name == "restore.applied":
            os.pwrite(displaced, b"edit", 0)
            os.utime(displaced, ns=future)

    monkeypatch.setattr(faults, "point", write)
    outcome = bench.apply(plan)
    os.close(displaced)
    assert outcome.captured == [(b"f", file(bench.contents, b"edit"))]


def test_a_written_file_is_only_the_same_if_its_mtime_is_settled_or_its_bytes_are(bench: Bench) -> None:
    bench.build({b"f": file(bench.contents, b"live")})
    os.utime(bench.root / "f", ns=(4 * 10**18, 4 * 10**18))
    root = os.open(bench.root, os.O_RDONLY)
    seen = Seen(inode_of(os.lstat(bench.root / "f")), look(root, b"f"))
    assert seen.unchanged(root, b"f")
    (bench.root / "f").write_bytes(b"edit")
    os.utime(bench.root / "f", ns=(4 * 10**18, 4 * 10**18))
    assert not seen.unchanged(root, b"f")
    os.close(root)
