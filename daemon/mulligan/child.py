"""One question to a niced process of our own, whole on its standard input, and its answer on its standard output."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TypeVar

import msgspec

T = TypeVar("T")
_running: set[subprocess.Popen[bytes]] = set()


class ChildError(Exception):
    """A child ended without an answer; `status` is how."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with status {status}")
        self.status = status


def ask(module: str, question: msgspec.Struct, kind: type[T], *, seconds: float | None = None) -> T:
    """Run a module and give its answer. Raises ChildError, and TimeoutError with the child killed."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-m", module], stdin=pipe, stdout=pipe, cwd="/") as process:
        _running.add(process)
        try:
            said, _ = process.communicate(msgspec.msgpack.encode(question), timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise TimeoutError(f"{module}: no answer after {seconds} s") from None
        except BaseException:
            process.kill()
            raise
        finally:
            _running.discard(process)
    if process.returncode == 0:
        try:
            return msgspec.msgpack.decode(said, type=kind)
        except msgspec.DecodeError:
            pass
    raise ChildError(process.returncode)


def end_all() -> None:
    """Kill the children that are at work: whoever asked gets a ChildError. For any thread."""
    for process in list(_running):
        process.kill()


def question(kind: type[T], niceness: int) -> T:
    """What this process is asked."""
    os.nice(niceness)
    return msgspec.msgpack.decode(sys.stdin.buffer.read(), type=kind)


def answer(found: msgspec.Struct) -> None:
    """Give the answer of this process."""
    # not sys.stdout: with PYTHONUNBUFFERED a signal may cut what it writes
    with open(sys.stdout.fileno(), "wb", closefd=False) as answers:
        answers.write(msgspec.msgpack.encode(found))
