"""Questions to niced processes of our own on their standard input, and the answers on their standard output.

Most get one question, whole, and end with its answer; with frames around them there may be several.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, TypeVar

import msgspec

T = TypeVar("T")
_LOOK_SECONDS = 0.2
_LENGTH = struct.Struct("<I")


class ChildError(Exception):
    """A child ended without an answer; `status` is how."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with status {status}")
        self.status = status


class Child:
    """A process that runs a module and waits to be asked: once, or in frames. Whoever starts one asks or stops it."""

    def __init__(self, module: str) -> None:
        self._module = module
        words = [sys.executable, "-m", module]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")

    def ask(self, question: msgspec.Struct, kind: type[T], *, seconds: float | None = None) -> T:
        """Give its answer; it has ended then. Raises ChildError, and TimeoutError with the child killed."""
        with self.process as process:
            try:
                output, _ = process.communicate(msgspec.msgpack.encode(question), timeout=seconds)
            except BaseException as error:
                process.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise TimeoutError(f"{self._module}: no answer after {seconds} s") from None
                raise
        if process.returncode == 0:
            try:
                return msgspec.msgpack.decode(output, type=kind)
            except msgspec.DecodeError:
                pass
        raise ChildError(process.returncode)

    def send(self, question: msgspec.Struct) -> None:
        """Give it a question in a frame. Raises ChildError if it has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(frame(msgspec.msgpack.encode(question)))
            self.process.stdin.flush()
        except BrokenPipeError:
            raise ChildError(self.process.wait()) from None

    def receive(self, kind: type[T]) -> T:
        """Its next answer in a frame. Raises ChildError if there is none."""
        assert self.process.stdout is not None
        data = read_frame(self.process.stdout)  # type: ignore[arg-type]
        if data is None:
            raise ChildError(self.process.wait())
        return msgspec.msgpack.decode(data, type=kind)

    @property
    def answers(self) -> int:
        """The descriptor that is readable when there is an answer, or when it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def end(self) -> None:
        """There are no more questions: it ends when it has answered."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def stop(self) -> None:
        """End it, if it has not ended."""
        self.process.kill()
        with suppress(BrokenPipeError), self.process:
            pass  # closes its pipes and waits for it


def ask(
    module: str,
    question: msgspec.Struct,
    kind: type[T],
    *,
    seconds: float | None = None,
    started: Callable[[subprocess.Popen[bytes]], None] = lambda _process: None,
) -> T:
    """Run a module and give its answer. Raises as `Child.ask`.

    `started` is told of the process: somebody else may kill it.
    """
    child = Child(module)
    try:
        started(child.process)
    except BaseException:
        child.stop()
        raise
    return child.ask(question, kind, seconds=seconds)


def frame(data: bytes) -> bytes:
    """A frame around some bytes: their length goes ahead."""
    return _LENGTH.pack(len(data)) + data


def read_frame(stream: BinaryIO) -> bytes | None:
    """What is in the next frame, or None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    return data if len(data) == length else None


def begin(niceness: int) -> None:
    """Be a child. It ends when whoever asks is gone: another one may be about to ask the same."""
    os.nice(niceness)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def question(kind: type[T], niceness: int) -> T:
    """What this process is asked, whole; it `begin`s with that."""
    begin(niceness)
    try:
        return msgspec.msgpack.decode(sys.stdin.buffer.read(), type=kind)
    except msgspec.DecodeError:
        raise SystemExit(1) from None  # gone before the question was whole


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def answer(found: msgspec.Struct) -> None:
    """Give the answer of this process, if whoever asked is still there."""
    with suppress(BrokenPipeError), standard_output() as answers:
        answers.write(msgspec.msgpack.encode(found))


def standard_output() -> BinaryIO:
    """Where answers go. Not `sys.stdout`: with PYTHONUNBUFFERED a signal may cut what that writes."""
    return open(sys.stdout.fileno(), "wb", closefd=False)
