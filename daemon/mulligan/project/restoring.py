"""Restoring a project to a position, undoing and redoing that, and finishing what a crash interrupted.

Runs in the project's worker thread. What an operation did becomes rows of the journal in the batch that says "done", so
that an operation is undone by the inverse of its own rows, path by path, by compare-and-swap.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import msgspec

from mulligan.errors import ConflictError, NotFoundError
from mulligan.faults import point
from mulligan.journal.reading import settled
from mulligan.model import PURGED, Checkpoint, Cut, Entry, Kind, Stat, covers
from mulligan.project.checkpoints import Counts, Request
from mulligan.project.naming import Position
from mulligan.project.outcome_rows import OutcomeRows
from mulligan.project.worker import ProjectWorker
from mulligan.restore.apply import apply
from mulligan.restore.plan import Change, Outcome, Plan, Step, ancestors, make_plan, same
from mulligan.restore.recovery import recover
from mulligan.restore.staging_children import StagingChildren
from mulligan.store.catalogue import UNSEEN, Live, WayBack
from mulligan.store.records import AnyFact, CurrentFact, OperationFact

_DONE, _ROLLED_BACK = "done", "rolled_back"
#: Why a path of another project is left alone.
FOREIGN = "belongs to another project now"


@dataclass(slots=True)
class Result:
    """What a restore, revert, undo or redo came to; before it is confirmed only the plan."""

    plan: Plan
    operation: str = ""
    outcome: Outcome | None = None
    before: Checkpoint | None = None
    after: Checkpoint | None = None


class Restorer:
    """The operations of one project. `agreed` is the digest of the only plan that may be carried out; "": any."""

    def __init__(self, worker: ProjectWorker, agreed: str = "") -> None:
        self._worker, self._store, self._agreed = worker, worker.store, agreed
        #: What the last plan found to differ between a whole cut and the live tree.
        self._differences: tuple[Cut, list[WayBack]] | None = None

    def _require_agreed(self, plan: Plan) -> None:
        """Raise ConflictError if what would be done now is not what was agreed to."""
        if self._agreed and plan.digest() != self._agreed:
            raise ConflictError("files have changed since this was planned; nothing was changed", hint="plan it again")

    def plan_for(self, position: Position, paths: Collection[bytes] = (), *, force: bool = False) -> Plan:
        """What it takes to get to a position, for all or some paths; everything is captured before."""
        self._worker.sync()
        catalogue, project = self._store.catalogue(), self._worker.record()
        found = catalogue.ways_back(project, position.cut, paths)
        self._differences = None if paths else (position.cut, found)
        chosen = {way.path for way in found if covers(paths, way.path)}
        needed = {above for path in chosen for above in ancestors(path)} if paths else set()
        changes, foreign, unknown, is_foreign = [], [], dict[bytes, bool](), self._foreign()
        for way in found:
            path, target = way.path, way.entry
            if is_foreign(path):
                foreign += [Step(path, way.live, target, None, FOREIGN)] if path in chosen else []
                continue
            missing = target.kind == Kind.DIR and way.live.kind != Kind.DIR
            if path in chosen or (path in needed and missing):
                if target.kind == Kind.ABSENT and self._was_unknown(path, position.cut, unknown):
                    target = UNSEEN
                changes.append(Change(path, target, way.live, self._proof(way)))
        plan = make_plan(changes, force=force)
        foreign.sort(key=lambda step: step.path)
        return msgspec.structs.replace(plan, kept=plan.kept + foreign)

    def _proof(self, live: Live | WayBack | None) -> Stat | None:
        """The stat that proves a path to be as recorded, if the journal has one that can."""
        stat = live.stat if live is not None else None
        return stat if stat is not None and settled(stat, self._store.clock.correction) else None

    def _was_unknown(self, path: bytes, cut: Cut, known: dict[bytes, bool]) -> bool:
        """Whether what has no entry in a cut lay in a directory that was unknown then: nobody saw it absent.

        `known` remembers the answer for the directories above.
        """
        passed, unknown = [], False
        for above in ancestors(path):
            if above in known:
                unknown = known[above]
                break
            passed.append(above)
            entry = self._store.catalogue().entry_at(self._worker.project_id, above, cut)
            if entry.kind != Kind.ABSENT:
                unknown = entry.kind == Kind.UNKNOWN
                break
        known.update(dict.fromkeys(passed, unknown))
        return unknown

    def _foreign(self) -> Callable[[bytes], bool]:
        """Whether a path has become another project's, with all below it: that one has a way back of its own."""
        nested = [os.path.relpath(root, self._worker.root) for root in self._worker.nested()]
        return lambda path: bool(nested) and covers(nested, path)

    def restore(self, position: Position, paths: Collection[bytes], session: str, *, force: bool) -> Result:
        """Take the way back, then make the disk equal to the position. Raises as `apply`, with nothing done then."""
        self._finish_interrupted()
        plan = self.plan_for(position, paths, force=force)
        self._require_agreed(plan)
        before = self._way_back(f"before restore of {position.label}", session)
        operation = self._begin("restore", position.checkpoint.id if position.checkpoint else "", before.id)
        outcome, rows = self._apply(operation, plan, force=force)
        after = self._conclude(operation, outcome, rows, position, session, partial=bool(paths))
        return Result(plan, operation.id, outcome, before, after)

    # undo and redo

    def plan_inverse(self, operation: OperationFact, *, force: bool = False) -> Plan:
        """What takes an operation back: paths that changed since are skipped, or taken too with `force`."""
        self._worker.sync()
        outcome = msgspec.msgpack.decode(self._payload(operation, _DONE), type=Outcome)
        catalogue, project = self._store.catalogue(), self._worker.project_id
        changes, skipped, is_foreign = [], [], self._foreign()
        for done in outcome.done:
            live = catalogue.live(project, done.path)
            entry = live.entry if live else done.after
            if is_foreign(done.path):
                skipped.append(Step(done.path, done.after, done.before, None, FOREIGN))
            elif force or same(entry, done.after):
                is_purged = done.before.kind == Kind.FILE and catalogue.is_purged(done.before.hash)
                before = Entry(Kind.UNKNOWN, reason=PURGED) if is_purged else done.before
                changes.append(Change(done.path, before, entry, self._proof(live)))
            elif not same(entry, done.before):
                skipped.append(Step(done.path, done.after, done.before, None, "changed since"))
        plan = make_plan(changes, force=force)
        return msgspec.structs.replace(plan, skipped=plan.skipped + skipped)

    def take_back(self, kind: str, operation: OperationFact, session: str, *, force: bool) -> Result:
        """Undo (or redo, by undoing the undo) an operation."""
        self._finish_interrupted()
        plan = self.plan_inverse(operation, force=force)
        self._require_agreed(plan)
        before = self._way_back(f"before {kind}", session)
        mine = self._begin(kind, operation.before, before.id, undoes=operation.id)
        outcome, rows = self._apply(mine, plan, force=force)
        target = self._store.catalogue().checkpoint(operation.before)
        position = Position(target.cut, target, str(target.ordinal)) if target else None
        after = self._conclude(mine, outcome, rows, position, session, partial=False)
        return Result(plan, mine.id, outcome, before, after)

    def to_undo(self) -> OperationFact:
        """The operation that `undo` takes back. Raises NotFoundError."""
        done, _ = self._stacks()
        if not done:
            raise NotFoundError("there is nothing to undo", hint="mulligan list shows where you can go back to")
        return done[-1]

    def to_redo(self) -> OperationFact:
        """The undo that `redo` takes back. Raises NotFoundError."""
        _, undone = self._stacks()
        if not undone:
            raise NotFoundError("there is nothing to redo", hint="only an undo can be redone")
        return undone[-1]

    def _stacks(self) -> tuple[list[OperationFact], list[OperationFact]]:
        done: list[OperationFact] = []
        undone: list[OperationFact] = []
        for operation in self._operations(_DONE):
            if operation.kind == "undo":
                done = [known for known in done if known.id != operation.undoes]
                undone.append(operation)
            elif operation.kind == "redo":
                undone = [known for known in undone if known.id != operation.undoes]
                done.append(operation)
            else:
                done.append(operation)
                undone = []
        return done, undone

    def _operations(self, *phases: str) -> list[OperationFact]:
        """The operations in some phase, oldest first, without what was planned or came of them."""
        marks = ", ".join("?" for _ in phases)
        cursor = self._store.catalogue().db.execute(
            "select id, project, kind, phase, time, target, before, x'', undoes from operation"
            f" where project = ? and phase in ({marks}) order by number",
            (self._worker.project_id, *phases),
        )
        return [OperationFact(*found) for found in cursor]

    def _payload(self, operation: OperationFact, phase: str) -> bytes:
        """The plan ("begin") or the outcome ("done") of an operation, encoded."""
        query = "select body from payload where operation = ? and phase = ?"
        (body,) = self._store.catalogue().db.execute(query, (operation.id, phase)).fetchone()
        return bytes(body)

    # the steps

    def _way_back(self, description: str, session: str) -> Checkpoint:
        """The pre-restore checkpoint: always taken, on the project's branch, not current."""
        catalogue = self._store.catalogue()
        current = catalogue.current(self._worker.project_id)
        parent = catalogue.checkpoint(current) if current else None
        counts = None
        if self._differences and parent and parent.cut == self._differences[0]:
            counts = Counts()
            for way in self._differences[1]:
                counts.count(way.entry.kind, way.live.kind)
        self._differences = None
        request = Request("pre_restore", session, description, parent=current, make_current=False, counts=counts)
        made = self._worker.commit_checkpoint(request)
        assert made is not None
        return made

    def _begin(self, kind: str, target: str, before: str, undoes: str = "") -> OperationFact:
        return OperationFact(
            f"op{secrets.token_hex(8)}", self._worker.project_id, kind, "begin", self._worker.now(), target, before,
            b"", undoes,
        )  # fmt: skip

    def _apply(self, operation: OperationFact, plan: Plan, *, force: bool) -> tuple[Outcome, list[AnyFact]]:
        """Carry a plan out; returns the outcome and the rows that are to be committed with "done"."""
        worker, project = self._worker, self._worker.record()
        steps, rows = _Steps(worker, operation), OutcomeRows(worker)
        try:
            outcome = apply(
                worker.root,
                plan,
                self._store.contents,
                operation=operation.id,
                staging=os.fsencode(self._store.staging),
                log=steps,
                capture=worker.capture.store_version,
                force=force,
                identity=(project.dev, project.ino),
                now=worker.store.clock.look,
                stager=StagingChildren(self._store.pool, self._store.catalogue_path),
                booked=rows.book,
            )
            return outcome, rows.finish(outcome)
        except BaseException:
            if not steps.is_staged:  # else it is to be finished, not forgotten
                self._store.log.append([msgspec.structs.replace(operation, phase=_ROLLED_BACK)])
            raise

    def _conclude(
        self,
        operation: OperationFact,
        outcome: Outcome,
        rows: list[AnyFact],
        position: Position | None,
        session: str,
        *,
        partial: bool,
    ) -> Checkpoint | None:
        """Say "done" with the rows, in one batch; a partial result gets a checkpoint of its own."""
        worker = self._worker
        target = position.checkpoint if position else None
        done = msgspec.structs.replace(operation, phase=_DONE, payload=msgspec.msgpack.encode(outcome))
        facts: list[AnyFact] = [*rows, done]
        whole = target is not None and outcome.complete and not partial
        if whole and target is not None:
            facts += current_facts(worker, target, session)
        point("restore.before_done_commit")
        self._store.log.append(facts)
        point("restore.done")
        self._look_again(outcome)
        if whole:
            return None  # what the new directories need is done behind the answer
        parent = target.id if target else None  # else on the project's branch
        description = f"after {operation.kind}" + (f" of {position.label}" if position else "")
        request = Request("post_restore", session, description, parent=parent)
        return worker.checkpoint(request)

    def _look_again(self, outcome: Outcome) -> None:
        """Paths that are not as planned are for the journal to find out."""
        worker = self._worker
        worker.settle([done.path for done in outcome.done])
        if worker.reconciler is not None:
            worker.reconciler.soil([*outcome.differs, *(path for path, _ in outcome.skipped)])
        worker.give_back_later(len(outcome.done))

    def _finish_interrupted(self) -> None:
        """An operation whose end could not be recorded must not be finished over a later one."""
        if self._operations("begin", "staged"):
            self.recover()

    def recover(self) -> None:
        """Finish or roll back what a crash interrupted, and record the result. Raises MulliganError to try again."""
        for operation in self._operations("begin", "staged"):
            plan = msgspec.msgpack.decode(self._payload(operation, "begin"), type=Plan)
            outcome = recover(
                self._worker.root,
                plan,
                self._store.contents,
                operation=operation.id,
                staging=os.fsencode(self._store.staging),
                staged=operation.phase == "staged",
                capture=self._worker.capture.store_version,
                now=self._worker.store.clock.look,
            )
            if outcome.rolled_back:
                self._store.log.append([msgspec.structs.replace(operation, phase=_ROLLED_BACK)])
                continue
            done = msgspec.structs.replace(operation, phase=_DONE, payload=msgspec.msgpack.encode(outcome))
            facts: list[AnyFact] = [*OutcomeRows(self._worker).finish(outcome), done]
            target = self._store.catalogue().checkpoint(operation.target)
            if target is not None and outcome.complete:
                facts += current_facts(self._worker, target, target.session)
            self._store.log.append(facts)


class _Steps:
    """The records of one operation, for `apply`."""

    def __init__(self, worker: ProjectWorker, operation: OperationFact) -> None:
        self._worker, self._operation = worker, operation
        self.is_staged = False

    def begin(self, plan: Plan) -> None:
        """The plan is durable before anything is prepared."""
        payload = msgspec.msgpack.encode(plan)
        self._worker.store.log.append([msgspec.structs.replace(self._operation, payload=payload)])

    def staged(self) -> None:
        """From here on the plan is carried out."""
        self._worker.store.log.append([msgspec.structs.replace(self._operation, phase="staged")])
        self.is_staged = True


def current_facts(worker: ProjectWorker, target: Checkpoint, session: str) -> list[AnyFact]:
    """The target becomes current: for the project, for its own session, and for the session that is at work."""
    sessions: Iterable[str] = {"", target.session, session}
    return [CurrentFact(worker.project_id, name, target.id) for name in sorted(sessions)]
