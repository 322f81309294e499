"""One question to a niced process of our own, whole on its standard input, and its answer on its standard output."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec

T = TypeVar("T")
_LOOK_SECONDS = 0.2


class ChildError(Exception):
    """A child ended without an answer; `status` is how."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with status {status}")
        self.status = status


class Child:
    """A process that runs a module and waits for its one question. Whoever starts one asks or stops it."""

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

    def stop(self) -> None:
        """End it, if it has not ended."""
        with self.process as process:
            process.kill()


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


def question(kind: type[T], niceness: int) -> T:
    """What this process is asked. It ends when whoever asks is gone: another one may be about to ask the same."""
    os.nice(niceness)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
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
    # not sys.stdout: with PYTHONUNBUFFERED a signal may cut what it writes
    with suppress(BrokenPipeError), open(sys.stdout.fileno(), "wb", closefd=False) as answers:
        answers.write(msgspec.msgpack.encode(found))
