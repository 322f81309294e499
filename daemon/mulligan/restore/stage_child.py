"""The child process that stages for a big restore: `python -m mulligan.restore.stage_child`.

It reads, decodes, checks and writes files chunk by chunk and answers what it made; at last, if it is asked, it looks at
those that were moved into the tree: what it made it knows. Questions and answers are frames.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from mulligan import child
from mulligan.model import Kind, Stat
from mulligan.restore.plan import Step
from mulligan.restore.read_back import read_back
from mulligan.restore.stage import Job, in_subtree, stage_files
from mulligan.restore.subtrees import top
from mulligan.restore.tree import Inode, Nearby, Seen, Tree, recorded
from mulligan.store.catalogue import Catalogue, connect
from mulligan.store.contents import Contents

_NICENESS = 5
#: Contents that are looked up at once: a question for each takes longer than reading it.
_TOGETHER = 200
#: Files of one answer.
_LOOKED = 1000


class Setup(msgspec.Struct, array_like=True):
    """The first frame: where everything is, and the directories (name in the stage, mode; parents first) of subtrees.

    A child makes those that its files need.
    """

    pool: str
    catalogue: str
    stage: bytes
    directories: list[tuple[bytes, int]] = []
    origin: bytes = b""


class Chunk(msgspec.Struct, array_like=True, tag="stage"):
    """What a child is asked to stage; behind the last chunk it makes all directories that are still missing."""

    jobs: list[tuple[int, Step, bytes]]
    last: bool = False


class Made(msgspec.Struct, array_like=True):
    """What a child made of a chunk, by step number, or the error that ended that (an errno and its words).

    Files in directories that go into the tree as a whole are not in it.
    """

    seen: list[tuple[int, Inode]]
    damaged: list[tuple[int, str]]
    error: int = 0
    reason: str = ""


class Look(msgspec.Struct, array_like=True, tag="look"):
    """The last question: the files in directories that were moved into the tree `root`, and when these were."""

    root: bytes
    identity: tuple[int, int]
    moves: dict[bytes, int]
    seen: int


class Looked(msgspec.Struct, array_like=True):
    """Files that were read back and are their targets, by step number; more frames follow but for the last."""

    found: list[tuple[int, Stat]]
    more: bool


class _Directories:
    """The directories that are still to be made in a stage."""

    def __init__(self, setup: Setup) -> None:
        self._stage = setup.stage
        self._wanted = dict(setup.directories)

    def make(self, place: bytes) -> None:
        """Make one and those above it; another child may have made it. Raises OSError."""
        missing = []
        while place in self._wanted:
            missing.append((place, self._wanted.pop(place)))
            place = place.rpartition(b"/")[0]
        for name, mode in reversed(missing):
            path = os.path.join(self._stage, name)
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, mode & 0o777)
                if mode & ~0o777:
                    os.chmod(path, mode)

    def make_rest(self) -> None:
        """Make all that are left. Raises OSError."""
        while self._wanted:
            self.make(next(iter(self._wanted)))


class _Stager:
    """Stages chunks, and remembers what it staged in subtrees."""

    def __init__(self, setup: Setup, contents: Contents) -> None:
        self._setup, self._contents = setup, contents
        self._directories = _Directories(setup)
        self._inside: list[tuple[int, Step, bytes, Seen]] = []

    def stage(self, chunk: Chunk) -> Made:
        """Stage one chunk."""
        try:
            staged = stage_files(
                self._setup.stage, self._prepared(chunk.jobs), self._contents, origin=self._setup.origin
            )
            if chunk.last:
                self._directories.make_rest()
        except OSError as error:
            return Made([], [], error.errno or errno.EIO, error.strerror or str(error))
        made = Made([], staged.damaged)
        for index, step, name in chunk.jobs:
            if (seen := staged.seen.get(index)) is None:
                continue
            if in_subtree(name):
                self._inside.append((index, step, top(name), seen))
            else:
                made.seen.append((index, seen.stat))
        return made

    def _prepared(self, jobs: list[Job]) -> Iterator[Job]:
        """The jobs, each with its directory there; where the contents of some lie is asked at once."""
        for start in range(0, len(jobs), _TOGETHER):
            some = jobs[start : start + _TOGETHER]
            self._contents.look_up([step.target.hash for _, step, _ in some if step.target.kind == Kind.FILE])
            for job in some:
                self._directories.make(job[2].rpartition(b"/")[0])
                yield job

    def look(self, look: Look) -> Iterator[Looked]:
        """Look at all of it that was moved into the tree."""
        found: list[tuple[int, Stat]] = []
        with Tree(look.root, look.identity) as tree, Nearby(tree) as nearby:
            for index, step, place, seen in self._inside:
                if not (moved := look.moves.get(place, 0)):
                    continue
                status, equal = read_back(step, nearby, seen, moved)
                if status is not None and equal:
                    found.append((index, recorded(status, look.seen)))
                if len(found) >= _LOOKED:
                    yield Looked(found, True)
                    found = []
        yield Looked(found, False)


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the questions end."""

    def answer(found: msgspec.Struct) -> None:
        answers.write(child.frame(msgspec.msgpack.encode(found)))
        answers.flush()

    if (data := child.read_frame(questions)) is None:
        return
    setup = msgspec.msgpack.decode(data, type=Setup)
    catalogue = Catalogue(connect(setup.catalogue))
    stager = _Stager(setup, Contents(setup.pool, lambda: catalogue))
    while (data := child.read_frame(questions)) is not None:
        question = msgspec.msgpack.decode(data, type=Chunk | Look)
        if isinstance(question, Chunk):
            answer(stager.stage(question))
        else:
            for looked in stager.look(question):
                answer(looked)


def main() -> int:
    """Serve whoever restores."""
    child.begin(_NICENESS)
    os.umask(0)  # nobody else gets into a stage: what is in it is made with its final mode
    with contextlib.suppress(BrokenPipeError), child.standard_output() as answers:
        serve(sys.stdin.buffer, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
