"""Trees that are gone: everything below is absent, in time proportional to it, and what comes back is seen."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from mulligan.model import Kind
from mulligan.store.catalogue import Catalogue, Live
from support.journaling import Blind, Journal
from support.trees import put


def test_a_tree_that_is_gone_is_looked_at_once(journal: Journal, blind: Blind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its directories has an event of its own; a look at all below each would be quadratic."""
    for number in range(60):
        put(journal.root, b"/".join(b"d%d" % depth for depth in range(number % 12 + 1)) + b"/f%d" % number, b"x")
    put(journal.root, b"stays", b"x")
    journal.baseline()
    shutil.rmtree(journal.root / "d0")
    looks: list[bytes] = []
    below = Catalogue.below

    def counted(catalogue: Catalogue, project: int, directory: bytes, *, there: bool = False) -> Iterator[Live]:
        looks.append(directory)
        return below(catalogue, project, directory, there=there)

    monkeypatch.setattr(Catalogue, "below", counted)
    for depth in range(12):
        blind.changes.directories.add(b"/".join(b"d%d" % each for each in range(depth + 1)))
        blind.changes.touch(b"/".join(b"d%d" % each for each in range(depth + 1)), 1, finished=True)
    journal.sync()
    assert looks == [b"d0"]
    journal.assert_equal()
    absent = [row.path for row in journal.rows if row.entry.kind == Kind.ABSENT]
    assert len(absent) == len(set(absent)) == 60 + 12


def test_what_comes_back_in_a_directory_that_was_gone_is_captured(journal: Journal, blind: Blind) -> None:
    put(journal.root, b"d/e/f", b"x")
    journal.baseline()
    shutil.rmtree(journal.root / "d")
    blind.changes.directories |= {b"d", b"d/e"}
    journal.sync()
    put(journal.root, b"d/e/f", b"y")
    blind.changes.directories.add(b"d")
    for path in (b"d", b"d/e/f"):
        blind.changes.touch(path, 2, finished=True)
    journal.sync()
    journal.assert_equal()
