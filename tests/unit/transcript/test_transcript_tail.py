"""Whole lines, each once, whatever is done to the file."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from mulligan.transcript.tail import MAX_LINE, Restart, Tail, TailState, state_at_end

pytestmark = pytest.mark.disk


def texts(tail: Tail, limit: int = 1 << 20) -> list[bytes]:
    """All that is there now."""
    found = []
    while True:
        step = tail.read(limit)
        found += [line for _, line in step.lines]
        if not step.more:
            return found


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "s.jsonl"
    file.write_bytes(b"one\ntwo\n")
    return file


def test_lines_come_with_their_offsets(path: Path) -> None:
    assert Tail(str(path)).read().lines == ((0, b"one"), (4, b"two"))


def test_X4_half_a_line_waits(path: Path) -> None:
    tail = Tail(str(path))
    append(path, b"thr")
    assert texts(tail) == [b"one", b"two"]
    assert texts(tail) == []
    append(path, b"ee\nfour\n")
    assert texts(tail) == [b"three", b"four"]


def test_X4_a_cut_inside_a_character_waits(path: Path) -> None:
    tail = Tail(str(path))
    word = "snow ☃".encode()
    append(path, word[:-1])
    assert texts(tail) == [b"one", b"two"]
    append(path, word[-1:] + b"\n")
    assert texts(tail) == [word]


def test_X4_carriage_returns_and_line_separators(path: Path) -> None:
    tail = Tail(str(path))
    path.write_bytes("a\r\n\r\nb\u2028\x85c\n".encode())
    assert texts(tail) == [b"a", b"", "b\u2028\x85c".encode()]


@pytest.mark.parametrize("limit", [1, 3, 4096, 1 << 20])
def test_X4_a_line_of_12_mib_is_whole(path: Path, limit: int) -> None:
    huge = b"x" * (12 << 20)
    append(path, huge + b"\nafter\n")
    assert texts(Tail(str(path)), max(limit, 1)) == [b"one", b"two", huge, b"after"]


def test_X4_a_line_that_is_too_long_is_passed_over_and_counted(path: Path) -> None:
    tail = Tail(str(path))
    texts(tail)
    append(path, b"y" * (MAX_LINE + 5))
    step = tail.read()
    assert (step.lines, step.too_long) == ((), 1)
    for _ in range(4):
        append(path, b"y" * 1000)
        step = tail.read()
        assert (step.lines, step.too_long) == ((), 0)
    tail = Tail(str(path), tail.state)
    append(path, b"y\nnext\n")
    assert texts(tail) == [b"next"]


def test_X5_truncated_and_rewritten_shorter(path: Path) -> None:
    tail = Tail(str(path))
    texts(tail)
    path.write_bytes(b"ONE\n")
    step = tail.read()
    assert (step.restart, step.lines) == (Restart.SHRUNK, ((0, b"ONE"),))


def test_X5_truncated_and_rewritten_longer(path: Path) -> None:
    tail = Tail(str(path))
    texts(tail)
    path.write_bytes(b"one\nTWO\nthree\n")  # same inode, and the old offset is the start of a line
    step = tail.read()
    assert (step.restart, [line for _, line in step.lines]) == (Restart.REWRITTEN, [b"one", b"TWO", b"three"])


def test_X5_a_line_cut_out_and_the_rest_written_back(path: Path) -> None:
    path.write_bytes(b"".join(b'{"uuid":"%d"}\n' % n for n in range(1000)))
    tail = Tail(str(path))
    assert len(texts(tail)) == 1000
    lines = path.read_bytes().splitlines(keepends=True)
    with path.open("r+b") as file:
        file.seek(sum(map(len, lines[:900])))
        file.truncate()
        file.write(b"".join(lines[901:]) + b'{"uuid":"1000"}\n{"uuid":"1001"}\n')
    step = tail.read()
    assert step.restart is Restart.REWRITTEN
    assert len(step.lines) == 1001


def test_X5_replaced_by_rename(path: Path, tmp_path: Path) -> None:
    tail = Tail(str(path))
    texts(tail)
    (tmp_path / "new").write_bytes(b"one\ntwo\nthree\n")
    (tmp_path / "new").rename(path)
    step = tail.read()
    assert (step.restart, len(step.lines)) == (Restart.REPLACED, 3)


def test_X5_recreated_with_the_same_inode_number(path: Path) -> None:
    tail = Tail(str(path))
    texts(tail)
    path.unlink()
    assert tail.read().gone
    path.write_bytes(b"uno\ndos\ntres\n")
    status = path.stat()
    tail = Tail(str(path), msgspec.structs.replace(tail.state, device=status.st_dev, inode=status.st_ino))
    step = tail.read()
    assert (step.restart, len(step.lines)) == (Restart.REWRITTEN, 3)


def test_X5_swept_away_keeps_the_place(path: Path, tmp_path: Path) -> None:
    tail = Tail(str(path))
    texts(tail)
    state = tail.state
    path.rename(tmp_path / "aside")
    assert tail.read().gone
    assert tail.state == state
    (tmp_path / "aside").rename(path)
    append(path, b"three\n")
    assert texts(tail) == [b"three"]


def test_emptied_and_filled_again(path: Path) -> None:
    tail = Tail(str(path))
    texts(tail)
    path.write_bytes(b"")
    assert tail.read().restart is Restart.SHRUNK
    append(path, b"x\n")
    step = tail.read()
    assert (step.restart, step.lines) == (None, ((0, b"x"),))


def test_an_old_file_is_followed_from_its_end_by_its_stat_alone(path: Path) -> None:
    tail = Tail(str(path), state_at_end(path.stat()))
    append(path, b"three\n")
    assert texts(tail) == [b"three"]


def test_a_line_half_written_when_the_file_was_first_seen_is_read_whole(path: Path) -> None:
    append(path, b"thr")
    tail = Tail(str(path), state_at_end(path.stat()))
    append(path, b"ee\n")
    assert texts(tail) == [b"three"]


def test_an_empty_file_is_followed_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.touch()
    tail = Tail(str(path), state_at_end(path.stat()))
    append(path, b"one\n")
    assert texts(tail) == [b"one"]


def test_a_state_survives_as_bytes(path: Path) -> None:
    tail = Tail(str(path))
    texts(tail)
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(tail.state), type=TailState)
    assert state == tail.state
    append(path, b"three\n")
    assert texts(Tail(str(path), state)) == [b"three"]


def test_no_descriptor_is_held(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    tail = Tail(str(path))
    texts(tail)
    assert len(os.listdir("/proc/self/fd")) == before
