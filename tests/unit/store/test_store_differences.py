"""Differences between cuts: for some paths the same as for all of them, by either way to find them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.model import ABSENT, Cut, covers
from mulligan.store import catalogue as catalogue_module
from support.journaling import Journal
from support.storing import write
from support.trees import put


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("few", [0, 1000], ids=["by-rows", "by-paths"])
def test_differences_of_some_paths_are_those_of_all_that_lie_there(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(catalogue_module, "_FEW", few)
    rng = random.Random(1)
    # "a.b" and "a0" lie around "a/" in the order of bytes
    names = [b"a/b/f%d" % n for n in range(9)] + [b"a.b/f", b"a0/f", b"a/g", b"z", b"a/bc/f"]
    cuts = []
    for turn in range(6):
        for name in rng.sample(names, 6):
            put(journal.root, name, b"%d" % turn)
        if turn == 3:
            shutil.rmtree(journal.root / "a/b")
        journal.everything()
        cuts.append(Cut(journal.store.catalogue().project(1).last_seq))
    catalogue, project = journal.store.catalogue(), journal.store.catalogue().project(1)
    for cut in cuts:
        whole = {path: (old, new) for path, old, new in catalogue.differences(1, cut, cuts[-1])}
        back = {way.path: (way.entry, way.live) for way in catalogue.ways_back(project, cut)}
        assert back == whole
        for only in ([b"a/b"], [b"a"], [b"a.b", b"a/b/f1"], [b"nothing"], [b"z", b""]):
            chosen = {path: (old, new) for path, old, new in catalogue.differences(1, cut, cuts[-1], only)}
            wanted = {path: pair for path, pair in whole.items() if covers(only, path)}
            above = {path: pair for path, pair in whole.items() if any(each.startswith(path + b"/") for each in only)}
            assert chosen == (whole if b"" in only else wanted | above)
    assert any(old.there and not new.there for _, old, new in catalogue.differences(1, cuts[0], cuts[3]))


def test_a_path_that_comes_back_while_the_way_back_is_read_is_in_it_once(journal: Journal) -> None:
    put(journal.root, b"f", b"one")
    journal.everything()
    catalogue = journal.store.catalogue()
    cut = Cut(catalogue.project(1).last_seq)
    (journal.root / "f").unlink()
    journal.everything()
    project = catalogue.project(1)
    turns = []

    def come_back(statement: str) -> None:
        if "not (p.kind" in statement and not turns:
            turns.append(statement)
            write(journal.store, {b"f": b"two"})

    catalogue.db.set_trace_callback(come_back)
    ways = catalogue.ways_back(project, cut)
    catalogue.db.set_trace_callback(None)
    assert turns
    assert [(way.path, way.live) for way in ways] == [(b"f", ABSENT)]
