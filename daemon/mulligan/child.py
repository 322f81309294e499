"""One question to a niced process of our own, whole on its standard input, and its answer on its standard output."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TypeVar

import msgspec

T = TypeVar("T")


class ChildError(Exception):
    """A child ended without an answer; `status` is how."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with status {status}")
        self.status = status


def ask(module: str, question: msgspec.Struct, kind: type[T], *, seconds: float | None = None) -> T:
    """Run a module and give its answer. Raises ChildError, and TimeoutError with the child killed."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", module],
            input=msgspec.msgpack.encode(question),
            stdout=subprocess.PIPE,
            check=False,
            cwd="/",
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{module}: no answer after {seconds} s") from None
    if done.returncode == 0:
        try:
            return msgspec.msgpack.decode(done.stdout, type=kind)
        except msgspec.DecodeError:
            pass
    raise ChildError(done.returncode)


def question(kind: type[T], niceness: int) -> T:
    """What this process is asked."""
    os.nice(niceness)
    return msgspec.msgpack.decode(sys.stdin.buffer.read(), type=kind)


def answer(found: msgspec.Struct) -> None:
    """Give the answer of this process."""
    # not sys.stdout: with PYTHONUNBUFFERED a signal may cut what it writes
    with open(sys.stdout.fileno(), "wb", closefd=False) as answers:
        answers.write(msgspec.msgpack.encode(found))
