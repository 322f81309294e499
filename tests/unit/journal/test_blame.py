"""Who brought each line: over edits, reformatting, restores, deletions and what is no text."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from mulligan.journal.blame import blame, is_text
from mulligan.journal.diff import SIZE_LIMIT
from mulligan.journal.lines import split_lines
from mulligan.model import ABSENT, Entry, Flag, Kind, Row


class Life:
    """Versions of one file and their bytes."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.contents: dict[bytes, bytes] = {}
        self.reads = 0

    def add(self, data: bytes | None, *, mode: int = 0o644, flags: int = 0) -> None:
        if data is None:
            entry = ABSENT
        else:
            digest = hashlib.sha256(data).digest()
            self.contents[digest] = data
            entry = Entry(Kind.FILE, mode, len(data), digest)
        seq = len(self.rows) + 1
        self.rows.append(Row(b"f", entry, seq, seq, flags, seq))

    def read(self, digest: bytes) -> bytes:
        self.reads += 1
        return self.contents[digest]

    def owners(self) -> list[int]:
        return [line.version for line in blame(self.rows, self.read)]


def life(*versions: bytes | None) -> Life:
    made = Life()
    for data in versions:
        made.add(data)
    return made


def test_a_line_belongs_to_the_version_that_brought_it() -> None:
    made = life(b"a\nb\nc\n", b"a\nB\nc\n", b"0\na\nB\nc\n", b"0\na\nB\nc\nend")
    assert [(line.text, line.version) for line in blame(made.rows, made.read)] == [
        (b"0\n", 2), (b"a\n", 0), (b"B\n", 1), (b"c\n", 0), (b"end", 3),
    ]  # fmt: skip


def test_it_survives_the_reformatting_of_other_lines() -> None:
    text = b"".join(b"x%d = %d\n" % (number, number) for number in range(50))
    reformatted = text.replace(b" = ", b"=")
    kept = reformatted.replace(b"x20=20\n", b"x20 = 20\n").replace(b"x21=21\n", b"x21 = 21\n")
    assert life(text, kept).owners() == [0 if number in (20, 21) else 1 for number in range(50)]


def test_equal_lines_elsewhere_do_not_take_one_over() -> None:
    assert life(b"}\nx\n}\n", b"}\nx\n}\ny\n}\n").owners() == [0, 0, 0, 1, 1]


def test_another_mode_brings_no_line() -> None:
    made = life(b"a\n")
    made.add(b"a\n", mode=0o755)
    assert made.owners() == [0]


def test_behind_a_deletion_every_line_is_new() -> None:
    assert life(b"a\nb\n", None, b"a\nb\n").owners() == [2, 2]
    assert life(b"a\n", None).owners() == life(b"").owners() == life().owners() == []


def test_what_somebody_typed_again_is_theirs_and_what_a_restore_brought_back_is_not() -> None:
    assert life(b"a\nb\n", b"a\n", b"a\nb\n").owners() == [0, 2]
    made = life(b"a\nb\n", b"a\nB\n", b"c\n", None)
    made.add(b"a\nB\n", flags=Flag.RESTORED)
    made.add(b"a\nB\nd\n")
    assert made.owners() == [0, 1, 5]


def test_a_restore_to_what_was_never_seen_here_brings_its_lines() -> None:
    made = life(b"a\nb\n")
    made.add(b"a\nmerged\n", flags=Flag.RESTORED)
    assert made.owners() == [0, 1]


def test_behind_what_is_no_text_every_line_is_new() -> None:
    assert life(b"a\n", b"a\0\n", b"a\n").owners() == [2]
    assert life(b"a\n", b"a\n" * (SIZE_LIMIT // 2 + 1), b"a\n").owners() == [2]


def test_a_file_with_a_zero_byte_has_no_lines() -> None:
    made = life(b"a\n", b"a\0")
    assert [is_text(row, made.read(row.entry.hash)) for row in made.rows] == [True, False]


TEXTS = st.lists(st.lists(st.sampled_from([b"a", b"b", b"c", b"", b"}"]), max_size=8).map(b"\n".join), max_size=6)


@given(TEXTS)
def test_the_lines_are_those_of_the_last_version_and_their_owners_have_them(texts: list[bytes]) -> None:
    made = life(*texts)
    lines = blame(made.rows, made.read)
    assert [line.text for line in lines] == (split_lines(texts[-1]) if texts else [])
    for line in lines:
        assert line.text in split_lines(texts[line.version])
        before = split_lines(texts[line.version - 1]) if line.version else []
        own = sum(other.text == line.text and other.version == line.version for other in lines)
        assert own <= split_lines(texts[line.version]).count(line.text)
        assert before != split_lines(texts[line.version]), "a version that changed nothing brought nothing"
