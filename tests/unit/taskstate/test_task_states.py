"""The states of sessions in a real database: saving, snapshots, versions, triggers, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mulligan.config import Config
from mulligan.errors import NotFoundError, UsageError
from mulligan.store.state import StateDatabase
from mulligan.taskstate.imports import imports, keep_import, mark_adopted
from mulligan.taskstate.store import PLACEHOLDER, TaskStates

P = b"/home/u/shop \xff"


class Clock:
    """Journal time that goes on by a millisecond each time it is looked at."""

    now = 1_800_000_000_000_000_000

    def __call__(self) -> int:
        Clock.now += 1_000_000
        return Clock.now


@pytest.fixture
def states(tmp_path: Path) -> Iterator[TaskStates]:
    database = StateDatabase(str(tmp_path / "state.db"))
    yield TaskStates(database, Config, Clock())
    database.close()


def with_config(states: TaskStates, **keys: object) -> TaskStates:
    return TaskStates(states.database, lambda: msgspec.structs.replace(Config(), **keys), Clock())


def test_T1_a_partial_save_clobbers_nothing(states: TaskStates) -> None:
    assert states.load("a") is None
    first = states.save("a", P, {"title": "t", "steps": [{"id": "1", "text": "x"}, {"id": "2", "text": "y"}]})
    assert first.changed and first.snapshot is None
    states.save("a", P, {"steps": [{"id": "2", "status": "done"}], "free": {"deep": {"k": 1}}})
    states.save("a", P, {"free": {"deep": {"m": 2}}, "title": None})
    loaded = states.load("a")
    assert loaded is not None and not loaded.synthesized
    assert loaded.value == {
        "steps": [{"id": "1", "text": "x"}, {"id": "2", "text": "y", "status": "done"}],
        "free": {"deep": {"k": 1, "m": 2}},
    }


def test_T16_what_changes_nothing_writes_nothing(states: TaskStates) -> None:
    told: list[str] = []
    states.on_change = told.append
    assert not states.save("a", P, {}).changed
    assert states.load("a") is None and states.sessions() == []
    before = states.save("a", P, {"title": "t", "notes": "n"}).state
    again = states.save("a", P, {"notes": "n", "title": "t"})
    assert not again.changed and again.state == before == states.load("a")
    kept = states.save("a", P, {}, snapshot="here")
    assert not kept.changed and kept.snapshot is not None and kept.snapshot.kind == "named"
    assert states.load("a") == before and told == ["a"]


def test_T2_T8_snapshots_newest_first_and_the_way_back(states: TaskStates) -> None:
    states.save("a", P, {"title": "one"}, snapshot="first")
    states.save("a", P, {"title": "two"}, snapshot="second")
    assert [(each.name, each.kind, each.value["title"]) for each in states.snapshots("a")] == [
        ("second", "named", "two"),
        ("first", "named", "one"),
    ]
    state, undo = states.restore_snapshot("a", "first")
    assert state.value == {"title": "one"} and undo is not None
    assert undo.name.startswith("pre-restore-2027-") or undo.name.startswith("pre-restore-2027")
    assert states.snapshot("a", undo.name).value == {"title": "two"}
    assert states.restore_snapshot("a", "first")[1] is None, "it is that already"
    assert states.restore_snapshot("a", undo.name)[0].value == {"title": "two"}
    with pytest.raises(NotFoundError) as unknown:
        states.restore_snapshot("a", "third")
    assert "second" in unknown.value.hint and unknown.value.exit_status == 5
    assert states.save("a", P, {"title": "new"}, snapshot="first").snapshot is not None
    assert [each.value["title"] for each in states.snapshots("a") if each.name == "first"] == ["new"]


def test_the_newest_way_back_is_kept_beyond_the_limit(states: TaskStates) -> None:
    few = with_config(states, history_limit=3)
    few.save("a", P, {"title": "0"}, snapshot="s0")
    few.save("a", P, {"title": "live"})
    few.restore_snapshot("a", "s0")
    for number in range(1, 7):
        few.save("a", P, {"title": str(number)}, snapshot=f"s{number}")
    names = [each.name for each in few.snapshots("a")]
    assert names[:3] == ["s6", "s5", "s4"] and len(names) == 4
    assert few.snapshot("a", names[3]).kind == "pre_restore" and few.snapshot("a", names[3]).value["title"] == "live"


def test_T4_clear_takes_everything_of_one_session_and_nothing_of_others(states: TaskStates) -> None:
    for session in ("a", "b"):
        states.save(session, P, {"title": session}, snapshot="s")
        states.prompted(session, P, 7)
    assert states.clear("a") == (True, 1)
    assert states.load("a") is None and states.snapshots("a") == [] and states.at("a", 2**62) is None
    assert states.clear("a") == (False, 0)
    assert states.compacted("a", P).synthesized, "as if nothing had ever been saved"
    kept = states.load("b")
    assert kept is not None and kept.value == {"title": "b"} and len(states.snapshots("b")) == 1
    assert states.sessions("b") == [("b", P)]


def test_T15_a_placeholder_is_marked_replaced_and_never_told(states: TaskStates) -> None:
    made = states.compacted("a", P)
    assert made.synthesized and made.value == PLACEHOLDER
    assert states.compacted("a", P) == made, "the hook and the transcript may both tell"
    assert states.injection("a") is None and states.snapshots("a") == [] and states.at("a", 2**62) is None
    with pytest.raises(NotFoundError):
        states.save("a", P, {}, snapshot="s")
    real = states.save("a", P, {"goal": "g"})
    assert real.changed and real.state is not None
    assert not real.state.synthesized and real.state.value == {"goal": "g"}


def test_T15_a_compaction_keeps_what_was_saved(states: TaskStates) -> None:
    states.save("a", P, {"title": "t"})
    before = states.load("a")
    assert states.compacted("a", P, "c1") == before == states.load("a")
    states.compacted("a", P, "c2")
    (kept,) = states.snapshots("a")
    assert (kept.kind, kept.value, kept.checkpoint) == ("auto", {"title": "t"}, "c1")
    assert kept.name.startswith("auto-")


def test_T16_every_nth_prompt_makes_a_snapshot_of_what_changed(states: TaskStates) -> None:
    every = with_config(states, autosave_every=3)
    every.save("a", P, {"title": "t"})
    before = every.load("a")
    assert [every.prompted("a", P, number) for number in (1, 2, 2, 3, 3, 4, 9)] == [
        False, False, False, True, False, False, True,
    ]  # fmt: skip
    assert len(every.snapshots("a")) == 1 and every.load("a") == before
    every.save("a", P, {"title": "u"})
    other = TaskStates(states.database, lambda: msgspec.structs.replace(Config(), autosave_every=3), Clock())
    assert not other.prompted("a", P, 9) and not other.prompted("a", P, 11) and other.prompted("a", P, 12)
    assert [each.value["title"] for each in every.snapshots("a")] == ["u", "t"]
    never = with_config(states, autosave_every=0)
    assert not any(never.prompted("a", P, number) for number in range(13, 40))


def test_T18_a_state_is_told_once_a_context_and_capped(states: TaskStates) -> None:
    assert states.injection("a") is None
    states.save("a", P, {"title": "fix it", "notes": "n" * 300})
    text = states.injection("a")
    assert text is not None and '"fix it"' in text
    assert states.injection("a") is None
    states.new_context("a")
    assert states.injection("a") == text
    states.save("a", P, {"title": "fix that"})
    short = states.injection("a", 290)
    assert short is not None and len(short) <= 290 and '"fix that"' in short and "nnn" not in short
    states.save("a", P, {"title": "x" * 900})
    cut = states.injection("a", 400)
    assert cut is not None and len(cut) == 400 and cut.endswith("gives all of it")
    assert with_config(states, max_injection_chars=0).injection("a") is None


def test_the_state_of_a_moment(states: TaskStates) -> None:
    states.save("a", P, {"title": "one"})
    between = Clock()()
    states.save("a", P, {"title": "two"})
    first = states.at("a", between)
    assert first is not None and first.value == {"title": "one"}
    assert states.at("a", first.updated_at - 1) is None and states.at("b", between) is None
    later = Clock()()
    states.save("a", P, {"title": "three"})
    assert states.drop_versions(lambda *_: [between], before=0) == 0, "too young"
    assert states.drop_versions(lambda *_: [between], before=2**62) == 1
    assert states.at("a", between) == first
    newest = states.at("a", 2**62)
    assert newest is not None and newest.value == {"title": "three"}
    assert states.at("a", later) == first, "what nothing referred to is gone"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"status": "busy"}, "status"),
        ({"title": 5}, "title"),
        ({"steps": [{"text": "no id"}]}, "steps[0]"),
        ({"steps": [{"id": "1", "status": 3}]}, "steps[0].status"),
        ({"blockers": [3]}, "blockers[0]"),
        ({"notes": "x" * 262_140}, "262,144"),
        ({"notes": "é" * 131_070}, "262,144"),
        ({"title": "\ud800"}, "valid text"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_written(
    states: TaskStates, changes: dict[str, object], named: str
) -> None:
    before = states.save("a", P, {"title": "t"}).state
    with pytest.raises(UsageError) as refused:
        states.save("a", P, changes)
    assert named in refused.value.message + refused.value.hint and refused.value.exit_status == 2
    assert states.load("a") == before


def test_a_state_that_is_nested_without_end(states: TaskStates) -> None:
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"d": deep}
    with pytest.raises(UsageError, match="deep"):
        states.save("a", P, deep)


@pytest.mark.parametrize("name", ["", " ", "a\n", "pre-restore-x", "auto-1", "x" * 121, "\ud800", " a"])
def test_names_of_snapshots(states: TaskStates, name: str) -> None:
    if name:
        with pytest.raises(UsageError):
            states.save("a", P, {"title": "t"}, snapshot=name)
        assert states.load("a") is None


def test_T20_an_import_is_kept_once(states: TaskStates) -> None:
    kept = [keep_import(states.database, P, "legacy::/p", "/p/x.json", "h", {"title": "t"}, 5) for _ in range(2)]
    assert kept == [True, False]
    mark_adopted(states.database, "legacy::/p", "h", "a", 9)
    (found,) = imports(states.database, P)
    assert (found.value, found.adopted_by, found.imported_at) == ({"title": "t"}, "a", 5)
    assert imports(states.database, b"/other") == []
