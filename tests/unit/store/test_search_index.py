"""The index names every text that may fit; it can be thrown away, damaged, full or behind, and is made again."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.errors import IntegrityError
from mulligan.journal.search import Query
from mulligan.store import search_index
from mulligan.store.search_index import TEXT_LIMIT, SearchIndex, State, lacks
from mulligan.store.store import Store
from support.storing import add_project, opened, write

MUCH = 1 << 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "store") as made:
        add_project(made)
        yield made


def index_of(store: Store, budget: int = MUCH) -> SearchIndex:
    return SearchIndex(store.directory, store.catalogue(), store.contents, budget)


def built(store: Store, budget: int = MUCH) -> State:
    index = index_of(store, budget)
    try:
        return index.build(lambda: True)
    finally:
        index.close()


def paths(store: Store, text: str) -> set[bytes]:
    """The paths at which a text may stand, by the index alone."""
    index = index_of(store)
    try:
        found = index.candidates(Query(text).trigrams)
        assert found is not None
        known = dict(store.catalogue().db.execute("select id, name from path"))
        return {known[number] for number in found}
    finally:
        index.close()


def test_this_python_can_keep_an_index() -> None:
    assert lacks() == ""


def test_texts_are_named_by_what_is_in_them_in_any_case(store: Store) -> None:
    write(
        store, {b"a": b"def login(user):\n", b"b": b"DEF LOGOUT\n", b"c": b"\0login\0", b"d": b"caf\xc3\xa9 \xff login"}
    )
    assert built(store).pending == 0
    assert paths(store, "login") == {b"a", b"d"}
    assert paths(store, "def log") == {b"a", b"b"}
    assert paths(store, "café") == {b"d"}
    assert paths(store, 'quo"te AND "x') == set()


def test_no_part_of_a_text_is_missed_whatever_its_letters_are(store: Store) -> None:
    rng = random.Random(5)
    letters = "aAzZ09 \t\n\"'*%_.éÉßſİıΣςﬁ\u0301\u200d中𝔸😀\ufffd"
    texts = {b"f%d" % number: "".join(rng.choices(letters, k=rng.randrange(3, 80))) for number in range(200)}
    write(store, {path: text.encode() for path, text in texts.items()})
    built(store)
    index = index_of(store)
    known = dict(store.catalogue().db.execute("select name, id from path"))
    for path, text in texts.items():
        start = rng.randrange(len(text) - 2)
        part = text[start : start + rng.randrange(3, 12)]
        found = index.candidates(Query(part).trigrams)
        assert found is not None and known[path] in found, part
    index.close()


def test_every_version_and_every_path_of_a_text_is_named(store: Store) -> None:
    write(store, {b"a": b"first text\n"})
    write(store, {b"a": b"second text\n", b"b": b"first text\n"})
    built(store)
    assert paths(store, "first") == {b"a", b"b"}
    assert paths(store, "second") == {b"a"}


def test_what_came_later_is_taken_in_and_told_of_before(store: Store) -> None:
    write(store, {b"a": b"one\n"})
    built(store)
    write(store, {b"b": b"later words\n"})
    index = index_of(store)
    assert index.state().pending == 1
    assert [digest for _, digest in index.unindexed()] == [store.catalogue().live(1, b"b").entry.hash]  # type: ignore[union-attr]
    assert index.build(lambda: False).pending == 1
    assert index.build(lambda: True).pending == 0
    index.close()
    assert paths(store, "later") == {b"b"}


def test_large_and_damaged_texts_are_left_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, {b"a": b"words " * (TEXT_LIMIT // 6 + 1), b"b": b"words\n"})
    monkeypatch.setattr(store.contents, "read", _damaged)
    assert built(store).pending == 0
    assert paths(store, "words") == set()


def _damaged(_digest: bytes) -> bytes:
    raise IntegrityError("damaged")


def test_short_texts_say_nothing(store: Store) -> None:
    index = index_of(store)
    assert index.candidates(Query("ab").trigrams) is None
    index.close()


@pytest.mark.parametrize("harm", ["removed", "no database", "newer", "another store", "ahead"])
def test_an_index_that_does_not_fit_is_made_again(store: Store, harm: str) -> None:
    write(store, {b"a": b"some words\n"})
    built(store)
    place = Path(store.directory, search_index.NAME)
    if harm == "removed":
        search_index.remove(str(place))
    elif harm == "no database":
        place.write_bytes(b"this is no database" * 1000)
    else:
        change = {
            "newer": "pragma user_version = 99",
            "another store": "update meta set value = 7 where key = 'store'",
            "ahead": "update meta set value = 999 where key = 'row'",
        }[harm]
        with sqlite3.connect(place) as connection:
            connection.execute("delete from at_path")
            connection.execute(change)
        connection.close()
    assert built(store).pending == 0
    assert paths(store, "some words") == {b"a"}


def test_it_is_private(store: Store) -> None:
    before = os.umask(0o022)
    try:
        write(store, {b"a": b"some words\n"})
        index = index_of(store)
        index.build(lambda: True)
        modes = {path.name: path.stat().st_mode & 0o777 for path in Path(store.directory).glob(search_index.NAME + "*")}
        index.close()
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600} and len(modes) == 3


def test_it_stops_at_its_budget_and_says_what_it_lacks(store: Store) -> None:
    for number in range(30):
        write(store, {b"f%d" % (10 * number + part): os.urandom(2000).hex().encode() for part in range(10)})
    state = built(store, budget=300_000)
    assert state.full and 0 < state.pending < 300 and 300_000 <= state.size < 3_000_000
    assert built(store).pending == 0


def test_two_builders_do_not_disturb_each_other(store: Store) -> None:
    write(store, {b"a": b"some words\n"})
    first, second = index_of(store), index_of(store)
    first._db.execute("begin immediate")
    assert second.build(lambda: True).pending == 1
    first._db.execute("rollback")
    assert second.build(lambda: True).pending == 0
    first.close()
    second.close()


def test_a_child_builds_it_and_may_be_killed(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        add_project(store)
        for number in range(40):
            write(store, {b"f%d" % (50 * number + part): b"words of %d %d\n" % (number, part) for part in range(50)})
        command = [sys.executable, "-m", "mulligan.store.search_child", store.directory, str(MUCH)]
        killed = subprocess.Popen(command, cwd="/")
        while not Path(store.directory, search_index.NAME).exists():
            assert killed.poll() is None
        killed.kill()
        killed.wait()
        index = index_of(store)
        assert index.state().pending > 0
        index.close()
        subprocess.run(command, check=True, cwd="/")
        index = index_of(store)
        assert index.state().pending == 0
        index.close()
        assert paths(store, "words of 39 49") >= {b"f1999"}


def test_a_python_without_trigrams_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("no such tokenizer: trigram")

    monkeypatch.setattr(search_index.sqlite3, "connect", refuse)
    assert "has no FTS5 with trigrams (no such tokenizer: trigram)" in lacks()
