"""Somebody who saves files all the time."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.trees import put


@contextmanager
def saving(directory: Path) -> Iterator[None]:
    """While it lasts, files below a directory are written anew, one after another."""
    ended = threading.Event()
    source = random.Random(2)

    def save() -> None:
        number = 0
        while not ended.wait(0.005):
            number += 1
            put(directory, b"busy/%d" % (number % 20), source.randbytes(5000))

    thread = threading.Thread(target=save)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
