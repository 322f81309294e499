"""Reverts by the book: what is known to be hard about merging, with the right values written by hand."""

from __future__ import annotations

import msgspec
import pytest

from mulligan.journal.merge import SIZE_LIMIT, Labels, Merged, merge_texts
from mulligan.model import Entry, Kind
from support.restoring import directory, link
from support.reverting import Paper, conflicts

BASE = b"1\n2\n3\n4\n5\n6\n7\n"


@pytest.fixture
def paper() -> Paper:
    return Paper()


# lines


def test_M1_lines_of_others_in_the_same_file_stay(paper: Paper) -> None:
    paper.change(b"s", (BASE, b"1\nA\n3\n4\n5\n6\n7\n"), now=b"1\nA\n3\nB\n5\n6\nhuman\n")
    assert paper.result() == {b"s": b"1\n2\n3\nB\n5\n6\nhuman\n"}


def test_overlap_is_a_conflict_and_nothing_is_written(paper: Paper) -> None:
    paper.change(b"s", (BASE, b"1\n2\nA\n4\n5\n6\n7\n"), now=b"1\n2\nB\n4\n5\n6\n7\n")
    reverted = paper.revert()
    assert reverted.changes == []
    (conflict,) = reverted.conflicts
    assert (conflict.path, conflict.ours.at, conflict.base.at, conflict.theirs.at) == (b"s", "row:99", "row:1", "row:0")
    assert paper.shown(conflict.theirs.entry) == BASE


def test_adjacent_lines_are_a_conflict(paper: Paper) -> None:
    paper.change(b"s", (BASE, b"1\n2\nA\n4\n5\n6\n7\n"), now=b"1\n2\nA\nB\n5\n6\n7\n")
    assert list(conflicts(paper.revert())) == [b"s"]


def test_one_line_between_is_enough(paper: Paper) -> None:
    paper.change(b"s", (BASE, b"1\n2\nA\n4\n5\n6\n7\n"), now=b"1\n2\nA\n4\nB\n6\n7\n")
    assert paper.result() == {b"s": b"1\n2\n3\n4\nB\n6\n7\n"}


def test_insertions_at_the_same_place_are_a_conflict(paper: Paper) -> None:
    paper.change(b"s", (b"1\n2\n", b"1\nA\n2\n"), now=b"1\nA\nB\n2\n")
    assert list(conflicts(paper.revert())) == [b"s"]


def test_what_somebody_has_taken_out_already_is_no_conflict(paper: Paper) -> None:
    paper.change(b"s", (BASE, b"1\nA\n3\n4\n5\n6\n7\n"), now=b"1\n2\n3\n4\nB\n6\n7\n")
    reverted = paper.revert()
    assert (reverted.changes, reverted.conflicts) == ([], [])


def test_lines_that_the_change_deleted_come_back_in_their_place(paper: Paper) -> None:
    paper.change(b"s", (BASE, b"1\n2\n5\n6\n7\n"), now=b"0\n1\n2\n5\n6\n7\n8\n")
    assert paper.result() == {b"s": b"0\n1\n2\n3\n4\n5\n6\n7\n8\n"}


def test_runs_with_somebody_elses_between_are_taken_out_newest_first(paper: Paper) -> None:
    one, two = b"1\nA\n3\n4\n5\n6\n7\n", b"1\nA\n3\nB\n5\n6\n7\n"
    paper.change(b"s", (BASE, one), (two, b"1\nAA\n3\nB\n5\nA\n7\n"), now=b"1\nAA\n3\nB\n5\nA\n7\n")
    assert paper.result() == {b"s": b"1\n2\n3\nB\n5\n6\n7\n"}


def test_markers_stand_in_a_conflict_on_request(paper: Paper) -> None:
    paper.change(b"s", (BASE, b"1\n2\nA\n4\n5\n6\n7\n"), now=b"0\n1\n2\nB\n4\n5\n6\n7\n")
    (change,) = paper.revert(mark=True).changes
    assert paper.shown(change.target) == (
        b"0\n1\n2\n<<<<<<< now\nB\n||||||| after prompt:3\nA\n=======\n3\n>>>>>>> before prompt:3\n4\n5\n6\n7\n"
    )
    assert list(conflicts(paper.revert(mark=True))) == [b"s"], "it is one all the same"


def test_no_final_newline_is_kept_as_it_was(paper: Paper) -> None:
    paper.change(b"end", (b"1\n2\n3\n4", b"A\n2\n3\n4"), now=b"A\n2\n3\nB")
    paper.change(b"added", (b"1\n2\n3\n4", b"1\n2\n3\n4\n5\n"), now=b"B\n2\n3\n4\n5\n")
    paper.change(b"removed", (b"1\n2\n3\n4\n", b"1\n2\n3\n4"), now=b"B\n2\n3\n4")
    assert paper.result() == {b"end": b"1\n2\n3\nB", b"added": b"B\n2\n3\n4", b"removed": b"B\n2\n3\n4\n"}


def test_no_final_newline_does_not_run_into_a_marker() -> None:
    merged = merge_texts(b"1\nA", b"1\nB", b"1\n2", Labels("ours", "base", "theirs"))
    assert merged == Merged(b"1\n<<<<<<< ours\nB\n||||||| base\nA\n=======\n2\n>>>>>>> theirs\n", 1)


def test_CRLF_stays_with_its_lines(paper: Paper) -> None:
    paper.change(b"s", (b"1\r\n2\r\n3\r\n4\r\n", b"A\r\n2\r\n3\r\n4\r\n"), now=b"A\r\n2\r\n3\r\nB\n")
    assert paper.result() == {b"s": b"1\r\n2\r\n3\r\nB\n"}
    merged = merge_texts(b"A\r\n", b"B\r\n", b"1\r\n")
    assert merged.text == b"<<<<<<< now\r\nB\r\n||||||| after\r\nA\r\n=======\r\n1\r\n>>>>>>> before\r\n"


def test_CRLF_for_LF_everywhere_is_taken_back_unless_somebody_wrote_beside_it(paper: Paper) -> None:
    paper.change(b"all", (b"1\n2\n", b"1\r\n2\r\n"), now=b"1\r\n2\r\n")
    paper.change(b"too", (b"1\n2\n", b"1\r\n2\r\n"), now=b"1\r\n2\r\nB\r\n")
    assert paper.result() == {b"all": b"1\n2\n"}
    assert list(conflicts(paper.revert())) == [b"too"]


# whole files


def test_M3_written_over_is_old_again_and_not_deleted(paper: Paper) -> None:
    paper.change(b"old", (b"precious\n", b"new\n"), now=b"new\n")
    paper.change(b"made", (None, b"new\n"), now=b"new\n")
    paper.change(b"deleted", (b"precious\n", None), now=None)
    assert paper.result() == {b"old": b"precious\n", b"made": None, b"deleted": b"precious\n"}


def test_deleted_by_one_and_modified_by_the_other_is_a_conflict(paper: Paper) -> None:
    paper.change(b"made", (None, b"A\n"), now=b"A\nB\n")
    paper.change(b"edited", (b"1\n", b"A\n"), now=None)
    paper.change(b"deleted", (b"1\n", None), now=b"B\n")
    reverted = paper.revert()
    assert reverted.changes == []
    assert conflicts(reverted) == {
        b"made": "it was changed since",
        b"edited": "it was deleted since",
        b"deleted": "it was made again since",
    }


def test_binary_is_taken_as_a_whole(paper: Paper) -> None:
    paper.change(b"same", (b"\0one\n", b"\0two\n"), now=b"\0two\n")
    paper.change(b"both", (b"\0one\n2\n3\n", b"\0A\n2\n3\n"), now=b"\0A\n2\nB\n")
    assert paper.result() == {b"same": b"\0one\n"}
    assert conflicts(paper.revert()) == {b"both": "it was changed since, and is binary"}


def test_what_is_too_large_is_taken_as_a_whole(paper: Paper) -> None:
    large = b"x" * (SIZE_LIMIT + 1)
    paper.change(b"same", (large, b"small\n"), now=b"small\n")
    paper.change(b"both", (large, b"small\n2\n3\n"), now=b"small\n2\nB\n")
    assert paper.result() == {b"same": large}
    assert conflicts(paper.revert()) == {b"both": "it was changed since, and is too large to be merged"}


def test_modes_are_merged_apart_from_bytes(paper: Paper) -> None:
    def mode(data: bytes, bits: int) -> Entry:
        return msgspec.structs.replace(paper.entry(data), mode=bits)

    paper.change(b"chmod", (b"1\n", mode(b"1\n", 0o755)), now=mode(b"1\nB\n", 0o755))
    paper.change(b"bytes", (b"1\n", b"A\n"), now=mode(b"A\n", 0o600))
    paper.change(b"both", (b"1\n2\n3\n", mode(b"A\n2\n3\n", 0o755)), now=mode(b"A\n2\nB\n", 0o755))
    paper.change(b"three", (b"1\n", mode(b"1\n", 0o755)), now=mode(b"1\n", 0o600))
    assert paper.result() == {b"chmod": b"1\nB\n", b"bytes": mode(b"1\n", 0o600), b"both": b"1\n2\nB\n"}
    assert conflicts(paper.revert()) == {b"three": "its permissions were changed since"}


def test_links_are_their_text(paper: Paper) -> None:
    paper.change(b"turned", (link(b"a"), link(b"b")), now=link(b"b"))
    paper.change(b"again", (link(b"a"), link(b"b")), now=link(b"c"))
    paper.change(b"instead", (b"file\n", link(b"b")), now=link(b"b"))
    paper.change(b"file", (link(b"a"), b"A\n"), now=b"B\n")
    assert paper.result() == {b"turned": link(b"a"), b"instead": b"file\n"}
    assert set(conflicts(paper.revert())) == {b"again", b"file"}


# names


def test_a_rename_goes_back_with_what_others_did_to_the_file(paper: Paper) -> None:
    paper.change(b"old", (BASE, None), now=None)
    paper.change(b"new", (None, BASE), now=b"1\n2\n3\n4\n5\n6\nB\n")
    assert paper.result() == {b"old": b"1\n2\n3\n4\n5\n6\nB\n", b"new": None}


def test_a_rename_with_an_edit_goes_back_with_what_others_did_to_the_file(paper: Paper) -> None:
    edited = b"1\nA\n3\n4\n5\n6\n7\n"
    paper.change(b"old", (BASE, None), now=None)
    paper.change(b"new", (None, edited), (edited + b"8\n", b"AA\n" + edited + b"8\n"), now=b"AA\n" + edited + b"8\n9\n")
    assert paper.result() == {b"old": BASE + b"8\n9\n", b"new": None}


def test_a_file_renamed_by_somebody_since_is_changed_where_it_is(paper: Paper) -> None:
    paper.change(b"old", (BASE, b"1\nA\n3\n4\n5\n6\n7\n"), now=b"1\nA\n3\n4\n5\n6\nB\n", place=b"new")
    assert paper.result() == {b"new": b"1\n2\n3\n4\n5\n6\nB\n"}


def test_a_file_that_was_made_and_renamed_by_somebody_since_is_not_deleted(paper: Paper) -> None:
    paper.change(b"made", (None, b"A\n"), now=b"A\n", place=b"kept")
    assert (paper.result(), conflicts(paper.revert())) == ({}, {b"kept": "it was renamed since"})


def test_renamed_twice_is_a_conflict(paper: Paper) -> None:
    paper.change(b"old", (BASE, None), now=None)
    paper.change(b"new", (None, BASE), now=BASE, place=b"newest")
    assert paper.result() == {}
    assert conflicts(paper.revert()) == {b"newest": "it was renamed by the change, and again since"}


def test_renamed_and_deleted_since_is_a_conflict(paper: Paper) -> None:
    paper.change(b"old", (BASE, None), now=None)
    paper.change(b"new", (None, BASE), now=None)
    assert paper.result() == {}
    assert conflicts(paper.revert()) == {b"new": "it was renamed by the change, and deleted since"}


def test_renamed_over_a_name_that_is_taken_again_is_a_conflict(paper: Paper) -> None:
    paper.change(b"old", (BASE, None), now=b"B\n")
    paper.change(b"new", (None, BASE), now=BASE)
    assert paper.result() == {}
    stays = "it was moved here from a path that is in conflict"
    assert conflicts(paper.revert()) == {b"new": stays, b"old": "it was made again since"}
    paper = Paper()
    paper.change(b"old", (BASE, None), (b"B\n", b"B\nA\n"), now=b"B\nA\n")
    paper.change(b"new", (None, BASE), now=BASE)
    assert paper.result() == {}
    assert conflicts(paper.revert()) == {b"new": stays, b"old": "it was made again since"}


# directories


def test_a_directory_goes_only_with_everything_in_it(paper: Paper) -> None:
    paper.change(b"d", (None, directory()), now=directory())
    paper.change(b"d/e", (None, directory()), now=directory())
    paper.change(b"d/e/mine", (None, b"A\n"), now=b"A\n")
    assert paper.result() == {b"d": None, b"d/e": None, b"d/e/mine": None}
    paper.now[b"d/theirs"] = paper.entry(b"B\n")
    assert paper.result() == {b"d/e": None, b"d/e/mine": None}
    assert [(step.path, step.reason) for step in paper.revert().left] == [(b"d", "holds entries that stay")]


def test_what_comes_back_brings_its_directories(paper: Paper) -> None:
    paper.change(b"d/e/f", (b"1\n", None), now=None)
    assert paper.result() == {b"d": Entry(Kind.DIR, 0o750), b"d/e": Entry(Kind.DIR, 0o750), b"d/e/f": b"1\n"}
    paper.now[b"d"] = paper.entry(b"a file by now\n")
    assert paper.result() == {}
    assert conflicts(paper.revert()) == {b"d/e/f": "something else stands where its directory was"}


def test_a_rename_stays_whole_if_there_is_no_way_back(paper: Paper) -> None:
    paper.change(b"d/old", (BASE, None), now=None)
    paper.change(b"new", (None, BASE), now=BASE + b"B\n")
    paper.now[b"d"] = paper.entry(b"a file by now\n")
    assert paper.result() == {}
    assert set(conflicts(paper.revert())) == {b"new"}


def test_a_file_for_a_directory_waits_for_everything_in_it(paper: Paper) -> None:
    paper.change(b"x", (b"1\n", directory()), now=directory())
    paper.change(b"x/mine", (None, b"A\n"), now=b"A\n")
    assert paper.result() == {b"x": b"1\n", b"x/mine": None}
    paper.now[b"x/theirs"] = paper.entry(b"B\n")
    assert paper.result() == {b"x/mine": None}
    assert conflicts(paper.revert()) == {b"x": "the directory there holds entries that stay"}


# what is not known


def test_what_was_not_known_before_is_left_alone(paper: Paper) -> None:
    paper.change(b"a", (Entry(Kind.UNKNOWN, reason="not seen yet"), b"A\n"), now=b"A\n")
    reverted = paper.revert()
    assert (reverted.changes, reverted.conflicts, [step.path for step in reverted.left]) == ([], [], [b"a"])


def test_a_version_that_was_captured_half_way_is_not_brought_back(paper: Paper) -> None:
    paper.change(b"a", (b"half", b"A\n"), now=b"A\n", doubt="torn")
    assert (paper.result(), conflicts(paper.revert())) == ({}, {b"a": "torn"})


def test_R21_the_files_of_a_database_are_taken_back_together_or_not_at_all(paper: Paper) -> None:
    magic = b"SQLite format 3\0"
    paper.change(b"x.db", (magic + b"1", magic + b"A"), now=magic + b"A")
    paper.change(b"x.db-wal", (b"1", b"A"), now=b"A")
    paper.change(b"odd", (magic + b"1", magic + b"A"), now=magic + b"A")
    paper.change(b"plain", (b"1", b"A"), now=b"A")
    paper.now |= {b"odd-wal": paper.entry(b"B"), b"plain-journal": paper.entry(b"B")}
    assert paper.result() == {b"x.db": magic + b"1", b"x.db-wal": b"1", b"plain": b"1"}
    assert conflicts(paper.revert()) == {b"odd": "one SQLite database with odd-wal, which stays"}
    paper.tracks.pop(1)
    assert paper.result() == {b"plain": b"1"}


def test_M4_no_change_is_no_change(paper: Paper) -> None:
    reverted = paper.revert()
    assert (reverted.changes, reverted.conflicts, reverted.left) == ([], [], [])
