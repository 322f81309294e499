"""Taking the steps of a plan one after another, each for itself: what cannot be done is named and the rest goes on.

Applying and recovering are the same run. A resumed run asks first whether a path has its target already, so it may
be repeated as often as it is interrupted.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from mulligan import faults
from mulligan.errors import IntegrityError, MulliganError
from mulligan.model import ABSENT, Entry, Kind, Stat
from mulligan.restore import exchange
from mulligan.restore.directories import OPEN_BITS, Directories, is_mode_only
from mulligan.restore.plan import Done, Outcome, Plan, Step, same, same_content, sqlite_base
from mulligan.restore.read_back import may_be, read_back
from mulligan.restore.sqlite import in_use
from mulligan.restore.stage import MANY, Contents, Job, Stage, Staged, stage_files, stage_name
from mulligan.restore.subtrees import Subtrees, is_open
from mulligan.restore.swap import Capture, NotTakenError, Swapper
from mulligan.restore.tree import Nearby, Seen, Tree, inode_of, kind_of, look, proves, recorded, set_mode, status, why


def never() -> int:
    """No journal time: the stats of an outcome prove nothing then."""
    return 0


#: From this many files on, other processes stage them.
VERY_MANY = 1000

#: The number of a step whose path is its target, and what lstat says of it.
Proven = tuple[int, Stat]
#: Gets what is done as soon as it was read back, but for paths of which a version was captured on the way.
Booked = Callable[[Done], None]


class Stager(Protocol):
    """Stages thousands of files elsewhere than in this process."""

    def start(self) -> None:
        """Be ready soon: `stage` may be called, and `stop` is."""

    def stage(self, stage_dir: bytes, jobs: Iterable[Job], directories: list[tuple[bytes, int]]) -> Staged:
        """As `stage_files`, with the directories of subtrees; `seen` is without the files in those."""

    def look(self, root: bytes, identity: tuple[int, int], moves: dict[bytes, int], seen: int) -> Iterator[Proven]:
        """What was staged in subtrees that were moved: each file that was read back in the tree and is its target.

        `seen` is journal time before the looks. What is missing is to be looked at again. Raises nothing.
        """

    def stop(self) -> None:
        """It is not needed any more. Idempotent."""


class Run:
    """One pass over a plan; its results are in `done`, `skipped`, `kept` and in the swapper's `captured`."""

    def __init__(
        self, tree: Tree, stage: Stage, plan: Plan, contents: Contents, capture: Capture, *, resumed: bool
    ) -> None:
        self.tree, self.stage, self.plan, self.contents, self.resumed = tree, stage, plan, contents, resumed
        self.steps = list(plan.steps())
        self.swapper = Swapper(tree, stage, capture, force=plan.force)
        self.stager: Stager | None = None
        self.origin = b""
        self.booked: Booked = lambda _: None
        self.done: list[tuple[int, Entry]] = []
        self.skipped: list[tuple[bytes, str]] = []
        self.kept: list[tuple[bytes, str]] = []
        self.directories = Directories(tree, force=plan.force)
        self.subtrees = Subtrees(tree, stage)
        self._inplace: list[bytes] = []
        self._in_sets = {path for members in plan.sets for path in members}
        self._omitted: set[int] = set()
        self._changed: dict[int, Seen] = {}

    def _jobs(self) -> Iterator[Job]:
        """The steps that need something staged; others are staged when they turn out to need it."""
        for index, step in enumerate(self.steps):
            if self._needs_stage(step):
                yield index, step, self.subtrees.place(index, step)

    def _needs_stage(self, step: Step) -> bool:
        target, expected = step.target, step.expected
        if self.resumed:
            return target.kind in (Kind.FILE, Kind.LINK) and not may_be(target, self._status(step.path))
        if target.kind == Kind.DIR:
            return expected.kind in (Kind.FILE, Kind.LINK)
        if same_content(expected, target):
            # A mode-only change of a file with several names must not reach the others.
            found = self._status(step.path)
            return found is not None and found.st_nlink > 1
        return target.there

    def _status(self, path: bytes) -> os.stat_result | None:
        try:
            directory, name = self.tree.parent(path)
        except OSError:
            return None
        try:
            return status(directory, name)
        finally:
            self.tree.release(directory)

    def prepare(self) -> None:
        """Stage everything and make it durable.

        Raises IntegrityError if the store cannot give a content, unless the plan is forced or the run is resumed: then
        those paths are listed and left out. Raises OSError.
        """
        staged = self._staged()
        if staged.damaged and not (self.plan.force or self.resumed):
            paths = [self.steps[index].path for index, _ in staged.damaged]
            raise IntegrityError(
                f"{'a stored content is' if len(paths) == 1 else f'{len(paths)} stored contents are'} damaged,"
                f" {'that' if len(paths) == 1 else 'the first'} of {os.fsdecode(paths[0])}; nothing was changed",
                hint="mulligan verify --repair may heal them; --force restores everything else",
                paths=paths,
            )
        self.swapper.staged.update(staged.seen)
        self._omitted = {index for index, _ in staged.damaged}
        self.skipped += [(self.steps[index].path, reason) for index, reason in staged.damaged]

    def _staged(self) -> Staged:
        """Stage what the steps need, durably."""
        if len(self.plan.write) >= MANY and not self.resumed:
            self.subtrees.find(self.steps, self._in_sets)
        self.stage.make_room(len(self.steps))
        if self.stager is not None:
            staged = self.stager.stage(self.stage.path, self._jobs(), self.subtrees.directories)
            exchange.sync_filesystem(self.stage.fd)
            return staged
        self.subtrees.make()
        jobs = list(self._jobs())
        few = len(jobs) < MANY
        staged = stage_files(self.stage.path, jobs, self.contents, sync=few, careful=self.resumed, origin=self.origin)
        if not few:
            exchange.sync_filesystem(self.stage.fd)
        return staged

    def execute(self) -> None:
        """Take every step but the modes of directories. Errors of single paths are listed, none is raised."""
        self.directories.open(self.steps, resumed=self.resumed)
        for index, step in enumerate(self.steps):
            if index in self._omitted:
                continue
            if self.subtrees.taken(index):
                self.done.append((index, ABSENT))
            elif step.path not in self._in_sets and not is_mode_only(step):
                self._take(index, step)
        if self.plan.sets:
            numbers = {step.path: index for index, step in enumerate(self.steps)}
            for members in self.plan.sets:
                self._take_set([numbers[path] for path in members])

    def _take(self, index: int, step: Step) -> bool:
        """Take one step and book it; whether the path has its target."""
        faults.point("restore.applying")
        try:
            before = self._attempt(index, step)
        except NotTakenError as refusal:
            self._refuse(step.path, refusal)
        except OSError as error:
            self.skipped.append((step.path, why(error)))
        else:
            if not self.directories.pending(step):
                self.done.append((index, before))
            return True
        return False

    def _attempt(self, index: int, step: Step) -> Entry:
        """The entry that was there before. Raises NotTakenError, OSError."""
        if self.subtrees.moved(step):
            if step.target.kind == Kind.DIR and not is_open(step):
                self.directories.made(step.path, ABSENT)
            return ABSENT
        try:
            directory, name = self.tree.parent(step.path)
        except (FileNotFoundError, NotADirectoryError) as error:
            if step.target.kind == Kind.ABSENT:
                return step.expected if self.resumed else ABSENT
            raise NotTakenError("its directory is not there any more") from error
        try:
            before = status(directory, name)
            if (there := self._already(step, before, directory, name)) is not None:
                return there
            if step.target.kind == Kind.ABSENT:
                return self._remove(index, step, before, directory, name)
            if step.target.kind == Kind.DIR:
                return self._make_directory(index, step, before, directory, name)
            if same_content(step.expected, step.target) and before is not None and before.st_nlink == 1:
                return self._change_mode(index, step, before, directory, name)
            self._ensure_staged(index, step)
            return self.swapper.put(index, step, before, directory, name)
        finally:
            self.tree.release(directory)

    def _already(self, step: Step, before: os.stat_result | None, directory: int, name: bytes) -> Entry | None:
        """The entry before if the path has its target; None if the step is to be taken. Raises NotTakenError."""
        expected = step.expected.kind == Kind.UNKNOWN or may_be(step.expected, before)
        reached = (self.resumed or not expected) and may_be(step.target, before)
        if reached and same(look(directory, name), step.target):
            return step.expected if self.resumed else step.target
        if before is not None and kind_of(before.st_mode) == Kind.SPECIAL:
            raise NotTakenError("is a special file", kept=True)
        if expected or self.plan.force or (before is None and self.resumed and not self.stage.exchanges):
            return None
        if step.target.kind == Kind.DIR and before is not None and kind_of(before.st_mode) == Kind.DIR:
            # In a resumed run it is ours, still without its final mode.
            if self.resumed and stat.S_IMODE(before.st_mode) in (OPEN_BITS, step.target.mode | OPEN_BITS):
                return None
            raise NotTakenError("a directory appeared there meanwhile", kept=True)
        if before is None:
            raise NotTakenError("vanished since the plan was made")
        raise NotTakenError("changed since the plan was made")

    def _remove(self, index: int, step: Step, before: os.stat_result | None, directory: int, name: bytes) -> Entry:
        if before is None:
            return step.expected
        if kind_of(before.st_mode) != Kind.DIR:
            try:
                return self.swapper.take(index, step, before, directory, name)
            except FileNotFoundError:
                return step.expected
        if step.expected.kind != Kind.DIR and not self.plan.force:
            raise NotTakenError("changed since the plan was made")
        try:
            os.rmdir(name, dir_fd=directory)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise NotTakenError("holds entries that are kept", kept=True) from error
            raise
        return step.expected

    def _make_directory(
        self, index: int, step: Step, before: os.stat_result | None, directory: int, name: bytes
    ) -> Entry:
        if before is not None and kind_of(before.st_mode) != Kind.DIR:
            self._ensure_staged(index, step)
            entry = self.swapper.put(index, step, before, directory, name)
        elif before is None and self.subtrees.move(step, directory, name):
            if is_open(step):
                return ABSENT
            entry = ABSENT
        elif before is None:
            os.mkdir(name, OPEN_BITS, dir_fd=directory)
            if os.geteuid() == 0 and (owner := _owner(os.fstat(directory))) != (os.geteuid(), os.getegid()):
                os.chown(name, *owner, dir_fd=directory, follow_symlinks=False)
            entry = step.expected if step.expected.kind != Kind.UNKNOWN else ABSENT
        elif self.resumed:
            entry = step.expected
        else:
            entry = Entry(Kind.DIR, stat.S_IMODE(before.st_mode))
        self.directories.made(step.path, entry)
        return entry

    def _change_mode(self, index: int, step: Step, before: os.stat_result, directory: int, name: bytes) -> Entry:
        """Set the mode in place; the bytes must be the expected ones, or the row for it would be wrong."""
        if not proves(step.stat, before) and not same(look(directory, name), step.expected):
            raise NotTakenError("changed since the plan was made")
        set_mode(directory, name, step.target.mode, before.st_ino)
        self._inplace.append(step.path)
        changed = os.stat(name, dir_fd=directory, follow_symlinks=False)
        self._changed[index] = Seen(inode_of(changed), step.target)
        return step.expected

    def _ensure_staged(self, index: int, step: Step) -> None:
        if self.subtrees.take_out(index, step):
            found = os.stat(stage_name(index), dir_fd=self.stage.fd, follow_symlinks=False)
            self.swapper.staged[index] = Seen(inode_of(found), step.target)
        if index in self.swapper.staged:
            return
        jobs = [(index, step, stage_name(index))]
        staged = stage_files(self.stage.path, jobs, self.contents, sync=True, careful=True)
        if staged.damaged:
            raise NotTakenError(staged.damaged[0][1])
        self.swapper.staged.update(staged.seen)

    def _take_set(self, members: list[int]) -> None:
        """A database goes together: if one of its files cannot, those before it are taken back."""
        base = sqlite_base(self.steps[members[0]].path) if members else b""
        if damaged := [index for index in members if index in self._omitted]:
            name = os.fsdecode(self.steps[damaged[0]].path.rpartition(b"/")[2])
            left = [index for index in members if index not in self._omitted]
            self.skipped += [(self.steps[index].path, f"one SQLite database with {name}") for index in left]
            return
        if members and not self.plan.force and in_use(self.tree, base):
            self.skipped += [(self.steps[index].path, "the SQLite database is in use") for index in members]
            return
        booked = len(self.done)
        for index in members:
            if self._take(index, self.steps[index]):
                continue
            name = os.fsdecode(self.steps[index].path.rpartition(b"/")[2])
            taken = [(number, before) for number, before in self.done[booked:] if self.swapper.moved(number)]
            del self.done[booked:]
            for number, _ in reversed(taken):
                self._take_back(number)
            others = [number for number in members if number != index]
            self.skipped += [(self.steps[number].path, f"one SQLite database with {name}") for number in others]
            return

    def _take_back(self, index: int) -> None:
        try:
            self.swapper.undo(index, self.steps[index])
        except OSError as error:
            self.kept.append((self.steps[index].path, f"could not be taken back: {why(error)}"))

    def _finish_directories(self, now: Callable[[], int]) -> list[Done]:
        numbers, done = {step.path: index for index, step in enumerate(self.steps)}, []
        for path in self.directories.unfinished(self.steps):
            step, seen = self.steps[numbers[path]], now()
            faults.point("restore.applying")
            try:
                finished = self.directories.finish(step)
            except NotTakenError as refusal:
                self._refuse(path, refusal)
            except OSError as error:
                self.skipped.append((path, why(error)))
            else:
                if finished is not None:
                    before, found = finished
                    self._inplace.append(path)
                    done.append(Done(path, before, step.target, recorded(found, seen)))
                continue
            try:
                self.directories.close(path)
            except OSError as error:
                self.skipped.append((path, f"its mode could not be set again: {why(error)}"))
        return done

    def _refuse(self, path: bytes, refusal: NotTakenError) -> None:
        (self.kept if refusal.kept else self.skipped).append((path, refusal.reason))

    def finish(self, now: Callable[[], int]) -> Outcome:
        """Take the steps, read them back, close the directories, make it durable, and empty and close the stage.

        Raises MulliganError only if the result cannot be made durable: the operation is then to be recovered.
        """
        self.execute()
        faults.point("restore.applied")
        done, differs = self._read_back(now)
        done += self._finish_directories(now)
        try:
            self._sync(done)
        except OSError as error:
            raise MulliganError(
                f"what was restored could not be made durable: {error.strerror}",
                hint="it is finished at the next start",
            ) from error
        left = self.swapper.clean(self.steps)
        self.stage.remove()
        faults.point("restore.before_done")
        return Outcome(
            done=done,
            skipped=listed(self.plan.skipped) + self.skipped,
            kept=listed(self.plan.kept) + self.kept + left,
            captured=self.swapper.captured,
            differs=differs,
            verified=not differs,
            exchange=self.stage.exchanges,
        )

    def _sync(self, done: list[Done]) -> None:
        if len(done) >= MANY or not self.tree.sync([item.path for item in done], self._inplace):
            exchange.sync_filesystem(self.tree.fd)

    def _read_back(self, now: Callable[[], int]) -> tuple[list[Done], list[bytes]]:
        """Look at every path that was done: its entry with a stat for the journal, and the paths that are different."""
        items: dict[int, Done] = {}
        differs = []
        captured = {path for path, _ in self.swapper.captured}

        def book(index: int, before: Entry, found: Stat | None) -> None:
            step = self.steps[index]
            items[index] = item = Done(step.path, before, step.target, found)
            if step.path not in captured:
                self.booked(item)

        if self.stager is not None and self.subtrees.moves:
            for index, looked in self.stager.look(self.tree.root, self.tree.identity, self.subtrees.moves, now()):
                book(index, ABSENT, looked)
        with Nearby(self.tree) as nearby:
            for index, before in self.done:
                if index in items:
                    continue
                step, seen = self.steps[index], now()
                staged = self.swapper.staged.get(index) or self._changed.get(index)
                found, equal = read_back(step, nearby, staged, self.subtrees.moved(step))
                if not equal:
                    differs.append(step.path)
                book(index, before, recorded(found, seen) if found and equal else None)
        return [items[index] for index, _ in self.done], differs


def _owner(found: os.stat_result) -> tuple[int, int]:
    return found.st_uid, found.st_gid


def listed(steps: list[Step]) -> list[tuple[bytes, str]]:
    """Paths and reasons of the steps that a plan leaves alone."""
    return [(step.path, step.reason) for step in steps]
