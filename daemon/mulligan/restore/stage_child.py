"""Staging a big restore in child processes: reading, decoding, checking and writing thousands of files.

`stage_in_children` is `stage_files` shared by two niced children, each with the half of the stage's buckets:
`python -m mulligan.restore.stage_child` gets its half on standard input and answers with what it made. The interpreter
of the daemon stays free for captures and requests meanwhile.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec

from mulligan import child
from mulligan.errors import MulliganError
from mulligan.restore import exchange
from mulligan.restore.plan import Step
from mulligan.restore.stage import BUCKET, Job, Staged, stage_files
from mulligan.restore.tree import Inode, Seen
from mulligan.store.catalogue import Catalogue, connect
from mulligan.store.contents import Contents

CHILDREN = 2
_NICENESS = 5
#: Between two flushes of what was staged so far (seconds).
_WRITE_BACK = 0.3


class Half(msgspec.Struct, array_like=True):
    """What a child is asked to do."""

    pool: str
    catalogue: str
    stage: bytes
    careful: bool
    jobs: list[tuple[int, Step, bytes]]
    origin: bytes = b""


class Made(msgspec.Struct, array_like=True):
    """What a child answers: what it made by step number, or the error that ended it (an errno and its words)."""

    seen: list[tuple[int, Inode]]
    damaged: list[tuple[int, str]]
    error: int = 0
    reason: str = ""


def stage_in_children(
    stage_dir: bytes, jobs: list[Job], pool: str, catalogue: str, *, careful: bool, origin: bytes = b""
) -> Staged:
    """Stage the files of many steps, nothing made durable yet.

    Raises OSError as `stage_files` does, and MulliganError if a child has died.
    """
    halves: list[list[Job]] = [[] for _ in range(CHILDREN)]
    for job in jobs:
        halves[job[0] // BUCKET % CHILDREN].append(job)
    targets = {index: step.target for index, step, _ in jobs}
    staged = Staged({}, [])
    ended = threading.Event()
    with ThreadPoolExecutor(CHILDREN + 1) as threads:
        threads.submit(_write_back, stage_dir, ended)
        try:
            for made in threads.map(
                lambda half: _ask(Half(pool, catalogue, stage_dir, careful, half, origin)),
                [half for half in halves if half],
            ):
                staged.seen.update({index: Seen(found, targets[index]) for index, found in made.seen})
                staged.damaged += made.damaged
        finally:
            ended.set()
    return staged


def _write_back(stage_dir: bytes, ended: threading.Event) -> None:
    """Have the disk write while the children work: there is less left to wait for when they have ended."""
    fd = os.open(stage_dir, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while not ended.wait(_WRITE_BACK):
            exchange.sync_filesystem(fd)
    finally:
        os.close(fd)


def _ask(half: Half) -> Made:
    try:
        made = child.ask("mulligan.restore.stage_child", half, Made)
    except child.ChildError as error:
        raise MulliganError(f"a staging process {error}", hint="try again; nothing was changed") from error
    if made.error:
        raise OSError(made.error, made.reason)
    return made


def main() -> int:
    """Stage one half."""
    half = child.question(Half, _NICENESS)
    os.umask(0o077)  # the stage sets exact modes itself
    catalogue = Catalogue(connect(half.catalogue))
    contents = Contents(half.pool, lambda: catalogue)
    try:
        staged = stage_files(half.stage, half.jobs, contents, careful=half.careful, origin=half.origin)
        made = Made([(index, seen.stat) for index, seen in staged.seen.items()], staged.damaged)
    except OSError as error:
        made = Made([], [], error.errno or errno.EIO, error.strerror or str(error))
    child.answer(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
