"""Follows one file: whole lines, each once, whatever is done to the file.

A transcript is not append-only. The client cuts lines out of it and writes the rest back within a millisecond, replaces
it, sweeps it away; an inode number is used again at once. So the place in a file is not an offset alone but (device,
inode, offset, digest of the bytes before the offset), and when these do not fit any more the file is read again from
its start; whoever uses the lines drops what it knows already.

A tail holds no descriptor between two reads. Its state is small, and is stored together with what the lines caused, so
that a restart goes on exactly where it was. At most `limit` plus one line of `MAX_LINE` bytes is in memory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import msgspec

#: Longer lines are passed over: an image that the client read makes a line of some MiB, nothing makes one of 16.
MAX_LINE = 16 * 1024 * 1024
STEP = 1024 * 1024
#: Enough to hold some lines with an identity of their own: many bookkeeping lines repeat word for word.
_PROOF = 4096


class TailState(msgspec.Struct, frozen=True):
    """A place in a file. `proof` is the digest of up to 4 KiB before `offset`.

    Without `aligned` the offset was taken from the size alone and may stand inside a line, which is then read from its
    start. `skipping`: the offset stands inside a line that is too long.
    """

    device: int = 0
    inode: int = 0
    offset: int = 0
    proof: bytes = b""
    aligned: bool = True
    skipping: bool = False


class Restart(StrEnum):
    """Why a file is read from its start again."""

    SHRUNK = "shrunk"
    REPLACED = "replaced"
    REWRITTEN = "rewritten"


class Step(msgspec.Struct, frozen=True):
    """What one read found.

    `lines` are (offset of the first byte, bytes without the line ending). After a `restart` they begin at the start of
    the file. `more`: there is more to read at once. `gone`: the file is not there; the state is kept. `too_long` counts
    the lines passed over.
    """

    lines: tuple[tuple[int, bytes], ...] = ()
    restart: Restart | None = None
    more: bool = False
    gone: bool = False
    too_long: int = 0


def state_at_end(status: os.stat_result) -> TailState:
    """The place behind everything that a file holds now, by its stat alone: nothing is read for an old transcript."""
    aligned = status.st_size == 0
    return TailState(device=status.st_dev, inode=status.st_ino, offset=status.st_size, aligned=aligned)


class Tail:
    """Reads a file on from a state. Not for two threads at once."""

    def __init__(self, path: str, state: TailState | None = None) -> None:
        self.path = path
        self.state = state or TailState()

    def read(self, limit: int = STEP) -> Step:
        """The next whole lines, about `limit` bytes of them; OSError other than "not there" is the caller's."""
        with _opened(self.path) as descriptor:
            if descriptor < 0:
                return Step(gone=True)
            status = os.fstat(descriptor)
            restart = self._verify(descriptor, status)
            if restart:
                self.state = TailState(device=status.st_dev, inode=status.st_ino)
            return self._read(descriptor, status.st_size, max(1, limit), restart)

    def _verify(self, descriptor: int, status: os.stat_result) -> Restart | None:
        """Whether the place still exists; an unaligned place is moved to the start of its line on the way."""
        state = self.state
        if state == TailState():
            self.state = TailState(device=status.st_dev, inode=status.st_ino)
            return None
        if (state.device, state.inode) != (status.st_dev, status.st_ino):
            return Restart.REPLACED
        if status.st_size < state.offset:
            return Restart.SHRUNK
        if not state.aligned:
            offset = _line_start(descriptor, state.offset)
            self.state = msgspec.structs.replace(
                state, offset=offset, aligned=True, proof=_proof(descriptor, offset), skipping=False
            )
            return None
        return None if _proof(descriptor, state.offset) == state.proof else Restart.REWRITTEN

    def _read(self, descriptor: int, size: int, limit: int, restart: Restart | None) -> Step:
        state, lines, too_long = self.state, [], 0
        offset, skipping = state.offset, state.skipping
        data = bytearray(_exactly(descriptor, min(limit, size - offset), offset))
        end = data.rfind(b"\n") + 1
        while not end and offset + len(data) < size and len(data) <= MAX_LINE:
            wanted = min(max(limit, 65536), size - offset - len(data), MAX_LINE + 1 - len(data))
            part = _exactly(descriptor, wanted, offset + len(data)) if wanted > 0 else b""
            if not part:
                break
            end = len(data) + part.rfind(b"\n") + 1 if b"\n" in part else 0
            data += part
        if not end and (len(data) > MAX_LINE or (skipping and data)):
            too_long, skipping, offset = int(not skipping), True, offset + len(data)
        else:
            for start, line in _split(bytes(data[:end]), offset):
                if skipping:
                    skipping = False
                elif len(line) > MAX_LINE:
                    too_long += 1
                else:
                    lines.append((start, line))
            offset += end
        if offset != state.offset:
            proof = _proof(descriptor, offset)
            self.state = TailState(state.device, state.inode, offset, proof, True, skipping)
        more = offset < size and offset != state.offset
        return Step(tuple(lines), restart, more, False, too_long)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    """A descriptor of a regular file, or -1 if none is there; a FIFO put in its place does not block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        yield -1
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _exactly(descriptor: int, size: int, offset: int) -> bytes:
    """`size` bytes at `offset`, fewer only where the file ends."""
    parts = []
    while size > 0 and (part := os.pread(descriptor, size, offset)):
        parts.append(part)
        size, offset = size - len(part), offset + len(part)
    return b"".join(parts)


def _proof(descriptor: int, offset: int) -> bytes:
    if not offset:
        return b""
    start = max(0, offset - _PROOF)
    return hashlib.blake2b(_exactly(descriptor, offset - start, start), digest_size=16).digest()


def _line_start(descriptor: int, offset: int) -> int:
    """The start of the line that holds the byte at `offset`; `offset` itself if that line is too long to be wanted."""
    position = offset
    while position > max(0, offset - MAX_LINE):
        start = max(0, position - 65536)
        found = _exactly(descriptor, position - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0 if position <= 0 else offset


def _split(data: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """Lines with their offsets. Only a newline ends one: U+2028 and the like occur inside strings."""
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        line = data[start : end - 1] if end > start and data[end - 1] == 0x0D else data[start:end]
        yield offset + start, line
        start = end + 1
