"""Staging a big restore in child processes: reading, decoding, checking and writing thousands of files.

`StagingChildren` share `stage_files` between two niced children, each with the half of the stage's buckets:
`python -m mulligan.restore.stage_child` gets its half on standard input and answers with what it made. The interpreter
of the daemon stays free for captures and requests meanwhile.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec

from mulligan import child
from mulligan.errors import MulliganError
from mulligan.model import Kind
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
#: Contents that are looked up at once: a question for each takes longer than reading it.
_TOGETHER = 200


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


class StagingChildren:
    """Stages the files of many steps in child processes: a `Stager`. `pool` and `catalogue` are the store's."""

    def __init__(self, pool: str, catalogue: str, *, origin: bytes = b"") -> None:
        self._pool, self._catalogue, self._origin = pool, catalogue, origin
        self._children: list[child.Child] = []

    def start(self) -> None:
        """Start them: that takes as long as making some thousand files. `stop` is to be called in any case."""
        self._children = [child.Child("mulligan.restore.stage_child") for _ in range(CHILDREN)]

    def stage(self, stage_dir: bytes, jobs: list[Job], careful: bool) -> Staged:
        """As `stage_files`, nothing made durable yet. Raises OSError, and MulliganError if a child has died."""
        halves: list[list[Job]] = [[] for _ in range(CHILDREN)]
        for job in jobs:
            halves[job[0] // BUCKET % CHILDREN].append(job)
        targets = {index: step.target for index, step, _ in jobs}
        staged = Staged({}, [])
        ended = threading.Event()
        questions = [Half(self._pool, self._catalogue, stage_dir, careful, half, self._origin) for half in halves]
        with ThreadPoolExecutor(CHILDREN + 1) as threads:
            threads.submit(_write_back, stage_dir, ended)
            try:
                for made in threads.map(_ask, self._children, questions):
                    staged.seen.update({index: Seen(found, targets[index]) for index, found in made.seen})
                    staged.damaged += made.damaged
            finally:
                ended.set()
        return staged

    def stop(self) -> None:
        """End those that nothing was asked of."""
        while self._children:
            self._children.pop().stop()


def _write_back(stage_dir: bytes, ended: threading.Event) -> None:
    """Have the disk write while the children work: there is less left to wait for when they have ended."""
    fd = os.open(stage_dir, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while not ended.wait(_WRITE_BACK):
            exchange.sync_filesystem(fd)
    finally:
        os.close(fd)


def _ask(process: child.Child, half: Half) -> Made:
    try:
        made = process.ask(half, Made)
    except child.ChildError as error:
        raise MulliganError(f"a staging process {error}", hint="try again; nothing was changed") from error
    if made.error:
        raise OSError(made.error, made.reason)
    return made


def _looked_up(jobs: list[Job], contents: Contents) -> Iterator[Job]:
    """The jobs; where the contents lie of some at a time is asked at once."""
    for start in range(0, len(jobs), _TOGETHER):
        some = jobs[start : start + _TOGETHER]
        contents.look_up([step.target.hash for _, step, _ in some if step.target.kind == Kind.FILE])
        yield from some


def main() -> int:
    """Stage one half."""
    half = child.question(Half, _NICENESS)
    os.umask(0)  # nobody else gets into a stage: its files are made with their final modes
    catalogue = Catalogue(connect(half.catalogue))
    contents = Contents(half.pool, lambda: catalogue)
    try:
        staged = stage_files(
            half.stage, _looked_up(half.jobs, contents), contents, careful=half.careful, origin=half.origin
        )
        made = Made([(index, seen.stat) for index, seen in staged.seen.items()], staged.damaged)
    except OSError as error:
        made = Made([], [], error.errno or errno.EIO, error.strerror or str(error))
    child.answer(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
