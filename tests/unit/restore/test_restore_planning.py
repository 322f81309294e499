"""The plan: what is done, what is left, and in which order. Nothing here touches a disk."""

from __future__ import annotations

import msgspec

from mulligan.model import ABSENT, Entry, Kind
from mulligan.restore.plan import Change, Done, Outcome, Plan, inverse, make_plan
from support.restoring import MemoryContents, directory, file, link

CONTENTS = MemoryContents()
ONE, TWO = file(CONTENTS, b"one"), file(CONTENTS, b"two")
UNSEEN = Entry(Kind.UNKNOWN, reason="not seen")


def paths(steps: list) -> list[bytes]:
    return [step.path for step in steps]


def test_deletions_run_from_the_leaves_up_and_creations_from_the_root_down() -> None:
    plan = make_plan(
        [
            Change(b"old", ABSENT, directory()),
            Change(b"old/sub", ABSENT, directory()),
            Change(b"old/sub/f", ABSENT, ONE),
            Change(b"new/sub", directory(), ABSENT),
            Change(b"new", directory(), ABSENT),
            Change(b"new/sub/f", ONE, ABSENT),
            Change(b"m", directory(0o700), directory()),
            Change(b"m/x", directory(0o500), directory()),
        ]
    )
    assert paths(plan.delete) == [b"old/sub/f"]
    assert paths(plan.rmdir) == [b"old/sub", b"old"]
    assert paths(plan.mkdir) == [b"new", b"new/sub"]
    assert paths(plan.write) == [b"new/sub/f"]
    assert paths(plan.chmod) == [b"m/x", b"m"]


def test_equal_entries_make_no_step() -> None:
    plan = make_plan([Change(b"a", ONE, ONE), Change(b"l", link(b"x"), Entry(Kind.LINK, 0, target=b"x"))])
    assert plan.empty


def test_a_mode_alone_is_not_a_write() -> None:
    plan = make_plan([Change(b"a", msgspec.structs.replace(ONE, mode=0o755), ONE)])
    assert paths(plan.chmod) == [b"a"] and not plan.write


def test_R11_a_path_that_changes_its_kind_has_one_step() -> None:
    plan = make_plan(
        [
            Change(b"a", directory(), ONE),
            Change(b"a/f", ONE, ABSENT),
            Change(b"b", ONE, directory()),
            Change(b"b/f", ABSENT, ONE),
            Change(b"c", link(b"a"), directory()),
        ]
    )
    assert paths(plan.mkdir) == [b"a"]
    assert paths(plan.write) == [b"a/f", b"b", b"c"]
    assert paths(plan.delete) == [b"b/f"] and not plan.rmdir


def test_R20_what_was_unknown_then_is_kept_with_the_directories_above_it() -> None:
    plan = make_plan(
        [
            Change(b"d", ABSENT, directory()),
            Change(b"d/known", ABSENT, ONE),
            Change(b"d/later", None, ONE),
            Change(b"e", UNSEEN, ONE),
        ]
    )
    assert paths(plan.delete) == [b"d/known"]
    assert paths(plan.rmdir) == []
    assert {step.path: step.reason for step in plan.kept} == {
        b"d": "holds entries that are kept",
        b"d/later": "unknown then",
        b"e": "unknown then (not seen)",
    }


def test_R3_what_was_never_captured_or_is_ignored_is_not_deleted() -> None:
    plan = make_plan(
        [
            Change(b"data", ABSENT, Entry(Kind.UNKNOWN, reason="ignored")),
            Change(b"logs", ABSENT, directory()),
            Change(b"logs/a", ABSENT, ONE),
        ],
        ignored=lambda path: path.startswith(b"logs/"),
    )
    assert plan.empty
    assert paths(plan.kept) == [b"data", b"logs", b"logs/a"]


def test_special_files_are_left_and_nothing_is_put_below_them() -> None:
    plan = make_plan([Change(b"s", directory(), Entry(Kind.SPECIAL, reason="fifo")), Change(b"s/f", ONE, ABSENT)])
    assert paths(plan.kept) == [b"s"]
    assert paths(plan.skipped) == [b"s/f"]


def test_R21_a_database_of_which_one_file_is_unknown_is_skipped_whole() -> None:
    plan = make_plan([Change(b"x.db", ONE, TWO), Change(b"x.db-wal", UNSEEN, TWO), Change(b"other", ONE, TWO)])
    assert paths(plan.write) == [b"other"]
    assert paths(plan.skipped) == [b"x.db"] and b"x.db-wal" in paths(plan.kept)
    assert "x.db-wal" in plan.skipped[0].reason


def test_R21_a_database_and_its_logs_are_one_set_and_old_logs_go_first() -> None:
    plan = make_plan([Change(b"x.db", ONE, TWO), Change(b"x.db-journal", ABSENT, TWO), Change(b"x.db-wal", ONE, TWO)])
    assert plan.sets == [[b"x.db-journal", b"x.db", b"x.db-wal"]]


def test_the_plan_survives_the_log() -> None:
    plan = make_plan([Change(b"a\xff\n", ONE, ABSENT), Change(b"b", ABSENT, TWO), Change(b"c", None, TWO)], force=True)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=Plan) == plan


def test_the_inverse_expects_what_the_operation_wrote() -> None:
    plan = inverse(Outcome(done=[Done(b"a", ONE, TWO), Done(b"b", ABSENT, ONE), Done(b"c", UNSEEN, ONE)]))
    assert [(step.path, step.expected, step.target) for step in plan.steps()] == [(b"b", ONE, ABSENT), (b"a", TWO, ONE)]
    assert paths(plan.kept) == [b"c"]
