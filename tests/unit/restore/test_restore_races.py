"""A process writes a file in a tight loop while it is restored: no version is replaced that nobody has seen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mulligan.model import ABSENT, Kind
from mulligan.restore.plan import Change, make_plan
from mulligan.restore.tree import look
from support.restoring import Bench, file

# Each version has the same size, so that only its bytes tell it from another one.
WRITER = """
import os, sys
path, way = sys.argv[1], sys.argv[2]
number = 0
while not os.path.exists(path + ".stop"):
    number += 1
    data = b"%08d" % number
    if way == "rename":
        with open(path + ".tmp", "wb") as stream:
            stream.write(data)
        os.rename(path + ".tmp", path)
    else:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(fd, data, 0)
        os.close(fd)
print(number)
"""


@contextmanager
def writer(path: Path, way: str) -> Iterator[list[int]]:
    last: list[int] = []
    path.write_bytes(b"%08d" % 0)
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path), way], stdout=subprocess.PIPE) as process:
        while path.read_bytes() == b"%08d" % 0:
            assert process.poll() is None
        yield last
        Path(f"{path}.stop").touch()
        assert process.stdout is not None
        last.append(int(process.stdout.read()))
    os.unlink(f"{path}.stop")


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
    captured = {entry.hash for _, entry in bench.contents.captured}
    newest = file(bench.contents, b"%08d" % last[0])
    assert bench.scan()[b"f"].hash == newest.hash or newest.hash in captured
    assert bench.scan()[b"f"].hash != then.hash


@pytest.mark.parametrize("way", ["rename", "in place"])
def test_R10_what_is_replaced_was_expected_or_is_captured(bench: Bench, way: str) -> None:
    path, then = bench.root / "f", file(bench.contents, b"restored")
    replaced = 0
    with writer(path, way) as last:
        for _ in range(300):
            root = os.open(bench.root, os.O_RDONLY)
            seen = look(root, b"f")
            os.close(root)
            if seen.kind != Kind.FILE or seen == then:
                continue
            outcome = bench.apply(make_plan([Change(b"f", then, seen)]), force=True)
            replaced += len(outcome.done)
            captured = {entry.hash for _, entry in bench.contents.captured}
            assert all(done.before in (seen, then) or done.before.hash in captured for done in outcome.done)
    assert replaced > 10 and len(bench.contents.captured) > 10
    assert not bench.leftovers()
    newest = file(bench.contents, b"%08d" % last[0]).hash
    captured = {entry.hash for _, entry in bench.contents.captured}
    assert bench.scan()[b"f"].hash == newest or newest in captured


def test_R10_a_deletion_takes_nothing_that_is_not_expected(bench: Bench) -> None:
    plan = make_plan([Change(b"f", ABSENT, file(bench.contents, b"expected"))])
    with writer(bench.root / "f", "rename") as last:
        for _ in range(300):
            assert not bench.apply(plan).done
    newest = file(bench.contents, b"%08d" % last[0]).hash
    assert bench.scan()[b"f"].hash == newest
    assert not bench.leftovers()
