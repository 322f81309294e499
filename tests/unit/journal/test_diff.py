"""The diff of two trees: counts, kinds, modes, renames, and what a patch must look like."""

from __future__ import annotations

import hashlib
import random

import pytest

from mulligan.journal.diff import Change, Options, TreeDiff, Unseen, diff_trees
from mulligan.model import ABSENT, Entry, Kind, RelPath

CONTENTS: dict[bytes, bytes] = {}


def file(data: bytes, mode: int = 0o644) -> Entry:
    digest = hashlib.sha256(data).digest()
    CONTENTS[digest] = data
    return Entry(Kind.FILE, mode, len(data), digest)


def link(target: bytes) -> Entry:
    return Entry(Kind.LINK, 0o777, target=target)


def change(path: bytes, old: Entry | None, new: Entry | None) -> Change:
    return Change(RelPath(path), old, new)


def diff(*changes: Change, **options: object) -> TreeDiff:
    return diff_trees(changes, CONTENTS.__getitem__, Options(**options))  # type: ignore[arg-type]


NUMBERED = b"".join(b"line %d\n" % number for number in range(1000))


def test_R15_one_line_of_a_thousand_is_one_addition_and_one_deletion() -> None:
    (found,) = diff(change(b"a", file(NUMBERED), file(NUMBERED.replace(b"line 500\n", b"line five hundred\n")))).files
    assert (found.status, found.additions, found.deletions) == ("modified", 1, 1)
    assert found.diff.splitlines()[3] == b"@@ -498,7 +498,7 @@"


def test_R15_a_change_of_the_executable_bit_is_a_patch_of_its_own() -> None:
    (found,) = diff(change(b"run", file(b"x\n", 0o644), file(b"x\n", 0o755))).files
    assert (found.old_mode, found.new_mode) == ("100644", "100755")
    assert found.diff == b"diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"


def test_R15_a_change_of_other_permissions_is_told_but_is_no_patch() -> None:
    (found,) = diff(change(b".env", file(b"x\n", 0o600), file(b"x\n", 0o644))).files
    assert (found.status, found.old_mode, found.new_mode) == ("modified", "100600", "100644")
    assert found.diff == b""


def test_R15_a_zero_byte_makes_a_file_binary() -> None:
    (found,) = diff(change(b"x.png", file(b"a\0b\n"), file(b"a\0c\n"))).files
    assert found.binary
    assert (found.additions, found.deletions) == (0, 0)
    assert found.diff.endswith(b"Binary files a/x.png and b/x.png differ\n")


def test_a_zero_byte_behind_the_first_8000_does_not_make_a_file_binary() -> None:
    (found,) = diff(change(b"x", file(b"a\n" * 4000 + b"\0\n"), file(b"a\n" * 4000))).files
    assert (found.binary, found.deletions) == (False, 1)


def test_R15_a_rename_with_a_small_edit_is_found() -> None:
    edited = NUMBERED.replace(b"line 7\n", b"line seven\n")
    (found,) = diff(change(b"old.py", file(NUMBERED), None), change(b"new.py", ABSENT, file(edited))).files
    assert (found.status, found.renamed_from, found.path) == ("renamed", b"old.py", b"new.py")
    assert (found.additions, found.deletions, found.similarity) == (1, 1, 99)
    assert b"\nsimilarity index 99%\nrename from old.py\nrename to new.py\n--- a/old.py\n+++ b/new.py\n@@" in found.diff


def test_an_equal_file_prefers_the_same_name_in_another_directory() -> None:
    same = file(b"the same\n")
    found = diff(
        change(b"a/x.py", same, None),
        change(b"b/y.py", same, None),
        change(b"c/x.py", None, same),
        change(b"c/y.py", None, same),
    ).files
    assert {(item.renamed_from, item.path) for item in found} == {(b"a/x.py", b"c/x.py"), (b"b/y.py", b"c/y.py")}
    assert all(item.similarity == 100 for item in found)


def test_files_that_share_less_than_half_are_no_rename() -> None:
    old = b"".join(b"old line %d\n" % number for number in range(60)) + NUMBERED[:200]
    new = b"".join(b"new line %d\n" % number for number in range(60)) + NUMBERED[:200]
    found = diff(change(b"a", file(old), None), change(b"b", None, file(new))).files
    assert [item.status for item in found] == ["deleted", "added"]


def test_empty_files_are_no_rename() -> None:
    found = diff(change(b"a", file(b""), None), change(b"b", None, file(b""))).files
    assert [item.status for item in found] == ["deleted", "added"]


def test_an_empty_new_file_is_a_header_alone() -> None:
    (found,) = diff(change(b"empty", None, file(b""))).files
    assert (found.status, found.old_mode, found.new_mode) == ("added", None, "100644")
    assert found.diff == b"diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n"


def test_a_link_is_a_file_with_its_target_as_content() -> None:
    (found,) = diff(change(b"l", link(b"here"), link(b"there"))).files
    assert (found.additions, found.deletions, found.old_mode) == (1, 1, None)
    assert b"-here\n\\ No newline at end of file\n+there\n\\ No newline at end of file\n" in found.diff


def test_a_file_that_becomes_a_link_goes_and_comes() -> None:
    found = diff(change(b"x", file(b"x\n"), link(b"y"))).files
    assert [(item.status, item.old_mode, item.new_mode) for item in found] == [
        ("deleted", "100644", None),
        ("added", None, "120000"),
    ]


def test_a_directory_that_becomes_a_file_goes_with_its_files() -> None:
    found = diff(
        change(b"d", Entry(Kind.DIR, 0o755), file(b"now a file\n")),
        change(b"d/a", file(b"a\n"), None),
        change(b"d/e/b", file(b"b\n"), None),
    )
    assert [(item.status, item.path) for item in found.files] == [
        ("added", b"d"),
        ("deleted", b"d/a"),
        ("deleted", b"d/e/b"),
    ]
    assert [(item.status, item.path, item.old_mode) for item in found.directories] == [("deleted", b"d", "040755")]


def test_directories_are_listed_apart() -> None:
    found = diff(
        change(b"new", None, Entry(Kind.DIR, 0o755)),
        change(b"private", Entry(Kind.DIR, 0o755), Entry(Kind.DIR, 0o700)),
    )
    assert found.files == []
    assert [(item.status, item.path, item.new_mode) for item in found.directories] == [
        ("added", b"new", "040755"),
        ("modified", b"private", "040700"),
    ]


def test_the_unknown_is_neither_a_deletion_nor_an_addition() -> None:
    found = diff(
        change(b"build", file(b"x"), Entry(Kind.UNKNOWN, reason="ignored")),
        change(b"pipe", None, Entry(Kind.SPECIAL, reason="fifo")),
    )
    assert found.files == []
    assert found.unseen == [Unseen(RelPath(b"build"), "ignored"), Unseen(RelPath(b"pipe"), "fifo")]


def test_equal_entries_are_left_out() -> None:
    assert diff(change(b"a", file(b"x"), file(b"x")), change(b"b", None, ABSENT)).files == []


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"a b\n", b"a  b\n"), (b"\ta\n", b"    a\n"), (b"ab\n", b"a b\n"), (b"x\n", b"x\r\n"), (b"x\n", b"x")],
)
def test_white_space_is_ignored_on_request(old: bytes, new: bytes) -> None:
    assert diff(change(b"a", file(old), file(new)), ignore_whitespace=True).files == []
    assert len(diff(change(b"a", file(old), file(new))).files) == 1


def test_a_carriage_return_is_part_of_its_line() -> None:
    (found,) = diff(change(b"a", file(b"one\r\ntwo\r\n"), file(b"one\r\n2\r\n"))).files
    assert found.diff.endswith(b" one\r\n-two\r\n+2\r\n")


def test_a_lone_carriage_return_and_a_form_feed_split_no_line() -> None:
    (found,) = diff(change(b"a", file(b"one\rtwo\x0cthree\x85four\n"), None)).files
    assert found.deletions == 1


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"plain", b"a/plain b/plain"),
        (b"two words", b"a/two words b/two words"),
        ("é".encode(), b'"a/\\303\\251" "b/\\303\\251"'),
        (b'"q"', b'"a/\\"q\\"" "b/\\"q\\""'),
        (b"a\\b\n\x01\x7f\xff", b'"a/a\\\\b\\n\\001\\177\\377" "b/a\\\\b\\n\\001\\177\\377"'),
    ],
)
def test_names_are_quoted_as_git_quotes_them(name: bytes, shown: bytes) -> None:
    (found,) = diff(change(name, None, file(b"x\n"))).files
    assert found.diff.startswith(b"diff --git " + shown + b"\n")


def test_a_name_with_a_blank_ends_in_a_tab() -> None:
    (found,) = diff(change(b"two words", None, file(b"x\n"))).files
    assert b"\n--- /dev/null\n+++ b/two words\t\n" in found.diff


def test_over_the_limit_lines_are_counted_without_their_order() -> None:
    lines = [b"%d\n" % number for number in range(100)]
    shuffled = [*lines[1:], b"new\n"]
    random.Random(1).shuffle(shuffled)
    (found,) = diff(change(b"a", file(b"".join(lines)), file(b"".join(shuffled))), size_limit=100).files
    assert found.too_large
    assert (found.additions, found.deletions) == (1, 1)
    assert b"@@" not in found.diff


def test_a_thousand_renamed_files_are_found_by_their_hash() -> None:
    sides = [(b"%d" % number, file(b"content %d\n" % number)) for number in range(1000)]
    gone = [change(b"old/" + path, entry, None) for path, entry in sides]
    come = [change(b"new/" + path, None, entry) for path, entry in sides]
    assert {item.status for item in diff(*gone, *come).files} == {"renamed"}
