"""Where files came from, whose calls rows are, and which model was at work: by a store's own rows and facts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.clock import FOREVER, MILLISECOND
from mulligan.journal.history import Doing
from mulligan.model import ABSENT, Cut, Flag, Metadata, RelPath, Row
from mulligan.store.encoding import encode
from mulligan.store.questions import PROMPT_SHOWN, doings, file_lineage, marks
from mulligan.store.records import (
    AttributionFact,
    CallFact,
    CheckpointFact,
    GapFact,
    PromptFact,
    UsageFact,
)
from mulligan.store.store import Store
from support.storing import add_project, checkpoint, file_entry, opened, row, rows_fact

LIVE = Cut(FOREVER)
SECOND = 1000 * MILLISECOND
TEXT = b"".join(b"line %d\n" % number for number in range(20))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "store") as made:
        add_project(made)
        yield made


def put(store: Store, path: bytes, data: bytes | None, at: int, *, call: str = "", flags: int = 0) -> None:
    """One row, at a moment in milliseconds; None is a deletion."""
    made = row(path, ABSENT if data is None else file_entry(data), at * MILLISECOND, flags=flags)
    receipt = store.log.append([rows_fact(made)], [] if data is None else [encode(data)])
    if call:
        store.log.append([AttributionFact(1, [(store.catalogue().project(1).last_seq, call, "window")])])
    assert receipt


def life(store: Store, path: bytes, cut: Cut = LIVE) -> list[tuple[bytes, int]]:
    """(path, seq) of the rows of a file's life."""
    found: list[Row] = file_lineage(store.catalogue(), 1, RelPath(path), cut, store.contents.read).rows
    return [(one.path, one.seq) for one in found]


def test_a_file_moved_is_followed_to_its_old_name_whichever_end_was_captured_first(store: Store) -> None:
    put(store, b"a", TEXT, 0)
    put(store, b"b", TEXT, 10_001)
    put(store, b"a", None, 10_000)
    put(store, b"b", None, 20_000)
    put(store, b"c", TEXT, 20_001)
    assert life(store, b"c") == [(b"a", 1), (b"b", 2), (b"c", 5)]
    assert life(store, b"a") == [(b"a", 1), (b"a", 3)]
    assert life(store, b"b", Cut(3)) == [(b"a", 1), (b"b", 2)]


def test_the_file_of_the_same_name_is_taken_where_several_are_alike(store: Store) -> None:
    for path in (b"x/one", b"x/two"):
        put(store, path, TEXT, 0)
    for path in (b"x/one", b"x/two"):
        put(store, path, None, 10_000)
    for path in (b"y/one", b"y/two"):
        put(store, path, TEXT, 10_001)
    assert life(store, b"y/two") == [(b"x/two", 2), (b"y/two", 6)]
    assert life(store, b"y/one") == [(b"x/one", 1), (b"y/one", 5)]


@pytest.mark.parametrize("away", [-3000, 3000])
def test_what_vanished_at_another_time_is_another_file(store: Store, away: int) -> None:
    put(store, b"a", TEXT, 0)
    put(store, b"a", None, 10_000)
    put(store, b"b", TEXT, 10_000 + away)
    assert life(store, b"b") == [(b"b", 3)]


def test_what_is_only_alike_is_followed_within_one_call_and_never_otherwise(store: Store) -> None:
    changed = TEXT.replace(b"line 7\n", b"LINE 7\n")
    for call, name in (("", b"nobody"), ("t1", b"call"), ("t1", b"other")):
        put(store, name, TEXT, 0)
        put(store, name, None, 10_000, call=call)
        put(store, name + b"2", changed if name != b"other" else b"something else\n", 10_001, call=call)
        put(store, name, TEXT, 20_000)
        put(store, name, None, 30_000)
    assert life(store, b"nobody2") == [(b"nobody2", 3)]
    assert life(store, b"call2") == [(b"call", 6), (b"call2", 8)]
    assert life(store, b"other2") == [(b"other2", 13)]


def test_a_move_within_a_gap_is_found_at_its_end(store: Store) -> None:
    put(store, b"a", TEXT, 0)
    store.log.append([GapFact(1, 5 * SECOND, 100 * SECOND, "away")])
    put(store, b"b", TEXT, 20_000, flags=Flag.AWAY)  # a move sets the change time
    put(store, b"a", None, 100_001, flags=Flag.AWAY)
    assert life(store, b"b") == [(b"a", 1), (b"b", 2)]


def test_empty_files_came_from_nowhere(store: Store) -> None:
    put(store, b"a", b"", 0)
    put(store, b"a", None, 10_000)
    put(store, b"b", b"", 10_001)
    assert life(store, b"b") == [(b"b", 3)]


def test_checkpoints_come_in_the_order_of_their_times(store: Store) -> None:
    for number, timestamp in ((1, 50), (2, 70), (3, 60)):
        made = checkpoint(id=f"c{number}", ordinal=number, timestamp=timestamp * SECOND, seq=number, moment=timestamp)
        store.log.append([CheckpointFact(made)])
    assert [(mark.id, mark.cut) for mark in marks(store.catalogue(), 1, 58 * SECOND)] == [
        ("c3", Cut(3, 60)), ("c2", Cut(2, 70)),
    ]  # fmt: skip


def call(name: str, session: str, prompt: int = 1, agent: bool = False) -> CallFact:
    return CallFact(name, session, 1, "Edit", "path", 1, 2, prompt=prompt, agent=agent)


def usage(message: str, session: str, model: str) -> UsageFact:
    return UsageFact(message, session, model, 1, 1, 0, 0)


def test_a_call_has_its_prompt_and_its_model(store: Store) -> None:
    store.log.append([
        PromptFact("s1", 2, "k", 5, "fix login " + "x" * 1000, "human", 1),
        call("t1", "s1", prompt=2),
        call("t2", "s1", prompt=9),
        usage("m1", "s1", "opus"),
        usage("m2", "s1", "<synthetic>"),
        usage("m3", "s2", "haiku"),
    ])  # fmt: skip
    found = doings(store.catalogue(), ["t1", "t2", "", "unknown"])
    text = ("fix login " + "x" * 1000)[:PROMPT_SHOWN]
    assert found == {"t1": Doing("t1", "s1", "Edit", 2, text, "opus"), "t2": Doing("t2", "s1", "Edit", 9, "", "opus")}


def test_of_several_models_the_one_at_that_moment_is_named_or_none(store: Store) -> None:
    at_call = checkpoint(id="c1", event_key="tool_use:t1", metadata=Metadata(model_used="opus"))
    store.log.append([
        call("t1", "s1"), call("t2", "s1"), call("t3", "s1", agent=True),
        usage("m1", "s1", "opus"), usage("m2", "s1", "haiku"), CheckpointFact(at_call),
        CheckpointFact(checkpoint(id="c2", ordinal=2, event_key="tool_use:t3", metadata=Metadata(model_used="opus"))),
    ])  # fmt: skip
    found = doings(store.catalogue(), ["t1", "t2", "t3"])
    assert {name: one.model for name, one in found.items()} == {"t1": "opus", "t2": "", "t3": ""}
