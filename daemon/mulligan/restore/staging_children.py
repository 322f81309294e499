"""Two niced children that share the files of a big restore: whoever has made its chunk gets the next one.

The interpreter of the daemon stays free for captures and requests meanwhile.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from itertools import chain
from queue import SimpleQueue

from mulligan import child
from mulligan.errors import MulliganError
from mulligan.model import Entry
from mulligan.restore import exchange
from mulligan.restore.run import Proven
from mulligan.restore.stage import BUCKET, Job, Staged, in_subtree
from mulligan.restore.stage_child import Chunk, Look, Looked, Made, Setup
from mulligan.restore.tree import Seen

CHILDREN = 2
#: Between two flushes of what was staged so far (seconds).
_WRITE_BACK = 0.3

log = logging.getLogger(__name__)


class StagingChildren:
    """Stages the files of many steps in child processes: a `Stager`. `pool` and `catalogue` are the store's."""

    def __init__(self, pool: str, catalogue: str, *, origin: bytes = b"") -> None:
        self._pool, self._catalogue, self._origin = pool, catalogue, origin
        self._children: list[child.Child] = []

    def start(self) -> None:
        """Start them: that takes as long as making some thousand files. `stop` is to be called in any case."""
        self._children = [child.Child("mulligan.restore.stage_child") for _ in range(CHILDREN)]

    def stage(self, stage_dir: bytes, jobs: Iterable[Job], directories: list[tuple[bytes, int]]) -> Staged:
        """As `Stager.stage`, nothing made durable yet. Raises OSError, and MulliganError if a child has died."""
        setup = Setup(self._pool, self._catalogue, stage_dir, directories, self._origin)
        chunks = SimpleQueue[Chunk | None]()
        staged, targets = Staged({}, []), dict[int, Entry]()
        ended = threading.Event()
        with ThreadPoolExecutor(CHILDREN + 1) as threads:
            threads.submit(_write_back, stage_dir, ended)
            try:
                working = [threads.submit(_work, each, setup, chunks, ended) for each in self._children]
                try:
                    for chunk in _chunks(jobs):
                        targets.update((index, step.target) for index, step, name in chunk.jobs if not in_subtree(name))
                        chunks.put(chunk)
                finally:
                    for _ in self._children:
                        chunks.put(None)
                wait(working, return_when=FIRST_EXCEPTION)
            finally:
                ended.set()
        for made in chain.from_iterable(each.result() for each in working):
            staged.seen.update({index: Seen(found, targets[index]) for index, found in made.seen})
            staged.damaged += made.damaged
        staged.damaged.sort()
        return staged

    def look(self, root: bytes, identity: tuple[int, int], moves: dict[bytes, int], seen: int) -> Iterator[Proven]:
        """As `Stager.look`: each looks at what it made, and answers are taken from them in turns."""
        question = Look(root, identity, moves, seen)
        busy = deque(self._children)
        try:
            for each in busy:
                each.send(question)
            while busy:
                each = busy.popleft()
                looked = each.receive(Looked)
                yield from looked.found
                if looked.more:
                    busy.append(each)
        except child.ChildError as error:
            log.warning("a staging process %s; what it made is looked at without it", error)

    def stop(self) -> None:
        """End them."""
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


def _chunks(jobs: Iterable[Job]) -> Iterator[Chunk]:
    """The jobs by bucket: the files of one directory of the stage are made by one child."""
    waiting: list[Job] = []
    for job in jobs:
        if waiting and waiting[-1][0] // BUCKET != job[0] // BUCKET:
            yield Chunk(waiting)
            waiting = []
        waiting.append(job)
    yield Chunk(waiting, last=True)


def _work(process: child.Child, setup: Setup, chunks: SimpleQueue[Chunk | None], ended: threading.Event) -> list[Made]:
    """Have a child make chunks until there are no more, or the work has ended. Raises as `StagingChildren.stage`."""
    found = []
    try:
        process.send(setup)
        while (chunk := chunks.get()) is not None and not ended.is_set():
            process.send(chunk)
            made = process.receive(Made)
            if made.error:
                raise OSError(made.error, made.reason)
            found.append(made)
    except child.ChildError as error:
        raise MulliganError(f"a staging process {error}", hint="try again; nothing was changed") from error
    return found
