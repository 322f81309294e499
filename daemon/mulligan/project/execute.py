"""Executing what a session's machine decided: facts into the log, checkpoints at their moments, rows to their calls.

Runs in a project's worker thread. What the lines caused is committed before the offset behind them, and every event
has a unique key, so a crash at any point makes the lines come again and changes nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

import msgspec

from mulligan.clock import FOREVER
from mulligan.errors import NotFoundError, RefusedError
from mulligan.model import Checkpoint, Cut, Flag, RelPath
from mulligan.project.alerts import look_for_conflicts, look_for_destruction
from mulligan.project.checkpoints import Request, parent_on_branch
from mulligan.project.worker import ProjectWorker
from mulligan.session import events as session_events
from mulligan.session.attribution import AFTER, BEFORE, Change, Window, attribute, relative
from mulligan.session.events import (
    CloseCall,
    Condition,
    EndBackground,
    GuardCall,
    OpenCall,
    SessionCommand,
    TakeCheckpoint,
)
from mulligan.session.tools import ToolClass
from mulligan.store.catalogue import Catalogue, join_path
from mulligan.store.records import AnyFact, AttributionFact, CallFact, MarkFact, PromptFact, UsageFact

log = logging.getLogger(__name__)
_DAY = 86_400_000_000_000
_LISTED = 1000
#: Rows that no call has made: the first sight of a path, and what our own operations did.
_NO_CHANGE = int(Flag.FROM_UNKNOWN | Flag.RESTORED)
#: Characters of a command in a checkpoint's description.
_SUBJECT = 200


def execute(worker: ProjectWorker, commands: Sequence[SessionCommand]) -> tuple[int, str]:
    """Carry out the commands of one project in their order. Raises what stands in the way; then they come again.

    A project that is missing or paused has no tree to take: prompts and calls are recorded all the same. Returns how
    many checkpoints were passed over for that, and the project's state; (0, "") if it is watched.
    """
    facts = collect_facts(worker, commands)
    if facts:
        worker.store.log.append(facts)
    hints = [path for command in commands if isinstance(command, session_events.CaptureHint) for path in command.paths]
    deciding = [command for command in commands if isinstance(command, TakeCheckpoint | CloseCall | EndBackground)]
    if deciding:
        try:
            worker.sync()
        except (NotFoundError, RefusedError):
            if worker.health.state not in ("missing", "paused"):
                raise
            return sum(isinstance(command, TakeCheckpoint) for command in deciding), worker.health.state
    if worker.health.state == "watching":
        look_at(worker, hints)
    for command in deciding:
        if isinstance(command, TakeCheckpoint):
            _checkpoint(worker, command)
        else:
            rows = attribute_call(worker, command.tool)
            look_for_conflicts(worker, command.tool, rows)
            look_for_destruction(worker, command.tool)
    return 0, ""


def look_at(worker: ProjectWorker, hints: Sequence[bytes]) -> None:
    """Paths that a tool or a command named are watched even if they are ignored; those outside are left alone.

    Of what is watched already events tell, and with their own times.
    """
    paths = [found for path in hints if (found := relative(worker.root, os.path.normpath(path))) is not None]
    for path in dict.fromkeys(paths):
        _reveal(worker, path)
    worker.capture.flush()


def _reveal(worker: ProjectWorker, path: RelPath) -> None:
    """Take an ignored path into what is watched, with the directories on the way to it.

    What stood there until now nobody knows, so its first rows say that they come from the unknown: no restore of an
    earlier moment deletes it.
    """
    reconciler = worker.reconciler
    if reconciler is None or not reconciler.rules.judge(path, False):
        return
    if reconciler.rules.judge(path, True) and worker.capture.is_directory(path):
        return  # what lies in it stays out as well
    parts = path.split(b"/")
    above = [RelPath(b"/".join(parts[:depth])) for depth in range(1, len(parts))]
    hidden = [directory for directory in above if reconciler.rules.judge(directory, True)]
    if not reconciler.rules.force(path):
        return
    worker.capture.named.add(path)
    for directory in hidden:
        worker.capture.path(directory, None, Flag.FROM_UNKNOWN)
    if hidden and worker.capture.is_directory(hidden[0]):
        reconciler.directory(hidden[0], None, flags=Flag.FROM_UNKNOWN)
    worker.capture.path(path, None, Flag.FROM_UNKNOWN)
    worker.capture.name(path)


def collect_facts(worker: ProjectWorker, commands: Sequence[SessionCommand]) -> list[AnyFact]:
    """Prompts, calls and usage as facts; a call that is told of in parts is one fact, the last state of it."""
    clock, project = worker.store.clock, worker.project_id
    facts: list[AnyFact] = []
    calls: dict[str, CallFact] = {}

    def moment(wall: int | None) -> int:
        return clock.now() if wall is None else clock.from_wall(wall)

    for command in commands:
        match command:
            case session_events.RecordPrompt():
                facts.append(
                    PromptFact(command.session, command.ordinal, command.key, moment(command.moment), command.text,
                               str(command.kind), project)
                )  # fmt: skip
            case session_events.RecordUsage():
                tokens = command.tokens
                facts.append(
                    UsageFact(command.message, command.session, command.model, tokens.input, tokens.output,
                              tokens.cache_creation, tokens.cache_read, command.key)
                )  # fmt: skip
            case OpenCall():
                known = calls.get(command.tool) or _stored_call(worker, command.tool)
                calls[command.tool] = opened(command, known, project, moment(command.start))
            case CloseCall() | EndBackground() | GuardCall():
                known = calls.get(command.tool) or _stored_call(worker, command.tool)
                if known is not None:
                    at = command.start if isinstance(command, GuardCall) else command.end
                    calls[command.tool] = refined(command, known, moment(at))
            case _:
                continue
    return [*facts, *calls.values()]


def opened(command: OpenCall, known: CallFact | None, project: int, start: int) -> CallFact:
    """The call's fact when its window begins, or begins better known than before."""
    end, is_error = (known.end, known.is_error) if known else (0, False)
    barrier, unguarded = (known.barrier, known.unguarded) if known else (0, False)
    start = known.start if known and barrier else start
    words = command.command or (known.command if known else "")
    return CallFact(
        command.tool, command.session, project, command.name, str(command.tool_class), start, end, is_error,
        list(command.paths), command.prompt, command.agent, known.background if known else False,
        known.background_end if known else 0, words, barrier, unguarded,
    )  # fmt: skip


def refined(command: CloseCall | EndBackground | GuardCall, known: CallFact, moment: int) -> CallFact:
    """The call's fact when its window, or what it left running, has ended, or when its exact beginning is known."""
    if isinstance(command, GuardCall):
        if not command.barrier:
            return msgspec.structs.replace(known, unguarded=True)
        return msgspec.structs.replace(known, start=moment, barrier=command.barrier, unguarded=False)
    if isinstance(command, EndBackground):
        return msgspec.structs.replace(known, background_end=moment)
    return msgspec.structs.replace(known, end=moment, is_error=command.is_error, background=command.background)


_CALL = (
    "id, session, project, name, owns, start, end, is_error, paths, prompt, agent, background, background_end, command,"
    " barrier, unguarded"
)


def _call_of(found: tuple[Any, ...]) -> CallFact:
    call, session, project, name, owns, start, end, is_error, paths, prompt, agent, background, *rest = found
    ended, command, barrier, unguarded = rest
    return CallFact(
        call, session, project, name, owns, start, end, bool(is_error), msgspec.msgpack.decode(paths), prompt,
        bool(agent), bool(background), ended, command, barrier, bool(unguarded),
    )  # fmt: skip


def _stored_call(worker: ProjectWorker, call: str) -> CallFact | None:
    found = worker.store.catalogue().db.execute(f"select {_CALL} from call where id = ?", (call,)).fetchone()
    return None if found is None else _call_of(found)


def _window(root: bytes, call: CallFact) -> Window:
    paths = (relative(root, os.path.normpath(path)) for path in call.paths)
    return Window(
        tool=call.id,
        session=call.session,
        tool_class=ToolClass(call.owns),
        start=call.start,
        end=call.end or None,
        paths=frozenset(path for path in paths if path is not None),
        agent=call.agent,
        is_error=call.is_error,
        background_end=call.background_end or (FOREVER if call.background else None),
        barrier=call.barrier,
    )


def attribute_call(worker: ProjectWorker, call: str) -> list[int]:
    """Judge the rows of a call's window, with every call that was open beside it; what changed is recorded.

    Returns the rows that have another owner now, or another grade.
    """
    found = _stored_call(worker, call)
    if found is None or ToolClass(found.owns) is ToolClass.READ_ONLY:
        return []
    end = max(found.end or worker.now(), found.background_end)
    return attribute_between(worker, found.start - BEFORE, end + AFTER)


def attribute_between(worker: ProjectWorker, start: int, end: int) -> list[int]:
    """Judge the rows that became true between two moments; returns those that have another owner or grade now."""
    db = worker.store.catalogue().db
    before = "select b.kind from row b where b.path = r.path and b.seq < r.seq order by b.seq desc limit 1"
    rows = db.execute(
        "select r.seq, p.dir, p.name, r.since, r.at, r.call, r.grade from row r join path p on p.id = r.path"
        f" where r.project = ? and r.at >= ? and r.at <= ? and r.flags & {_NO_CHANGE} = 0"
        # that what was not there is not there is no change
        f" and (r.kind != 0 or coalesce(({before}), 0) != 0) order by r.seq",
        (worker.project_id, start, end),
    ).fetchall()
    if not rows:
        return []
    windows = windows_between(worker.store.catalogue(), worker.project_id, worker.root, start, end)
    changes = [Change(RelPath(join_path(row[1], row[2])), row[3], row[4], row[0]) for row in rows]
    owned = [
        (row[0], owner.call, owner.grade)
        for row, owner in zip(rows, attribute(changes, windows), strict=True)
        if (owner.call, owner.grade) != (row[5], row[6])
    ]
    if owned:
        worker.store.log.append([AttributionFact(worker.project_id, owned)])
    return [seq for seq, _, _ in owned]


def windows_between(catalogue: Catalogue, project: int, root: bytes, start: int, end: int) -> list[Window]:
    """The windows of a project's calls that were open, or left something running, between two moments."""
    calls = catalogue.db.execute(
        f"select {_CALL} from call where project = ? and start >= ? and start <= ?"
        " and (end = 0 or end >= ? or background)",
        (project, start - _DAY, end, start),
    ).fetchall()
    return [_window(root, _call_of(found)) for found in calls]


def _owns_rows(worker: ProjectWorker, call: str) -> bool:
    found = worker.store.catalogue().db.execute("select 1 from row where call = ? limit 1", (call,)).fetchone()
    return found is not None


def _last_owned(worker: ProjectWorker, call: str, moment: int) -> int:
    """When the last change of a call seems to have been made, if that is only just behind its result.

    A change is dated by the arrival of its event, a few milliseconds late, and the result may be written within one.
    """
    query = "select coalesce(max(at), 0) from row where call = ? and at > ? and at <= ?"
    (found,) = worker.store.catalogue().db.execute(query, (call, moment, moment + AFTER)).fetchone()
    return int(found)


def _checkpoint(worker: ProjectWorker, command: TakeCheckpoint) -> Checkpoint | None:
    """Place one checkpoint at its own moment, on the session's branch."""
    if command.condition is Condition.OWNS_AND_DIFFERS and not (command.tool and _owns_rows(worker, command.tool.id)):
        return None
    project = worker.record()
    catalogue = worker.store.catalogue()
    now = worker.now()
    moment = now if command.moment is None else min(worker.store.clock.from_wall(command.moment), now)
    placement = "now" if command.moment is None else "timestamp"
    missed: list[tuple[bytes, str]] = []
    timestamp = moment
    if command.exact is not None and command.exact.project == project.id:
        placement, cut = "hook", Cut(command.exact.seq)
    else:
        if command.tool is not None:
            moment = max(moment, _last_owned(worker, command.tool.id, moment))
        cut = Cut(project.last_seq, FOREVER if command.moment is None else moment)
    if moment < project.baseline_end:
        placement, timestamp = "baseline", moment
        baseline = catalogue.checkpoints("project = ? and trigger = 'baseline'", (project.id,), 1)
        if baseline:
            cut, missed = baseline[0].cut, _before_baseline(worker, moment, baseline[0].cut)
            timestamp = baseline[0].timestamp
    current = catalogue.current(project.id, command.session) or catalogue.current(project.id)
    parent = parent_on_branch(catalogue, current, timestamp)
    late = bool(current) and parent != current
    request = Request(
        trigger=command.trigger,
        session=command.session,
        description=_subject(worker, command),
        moment=cut.moment,
        placement=placement,
        strategy=command.strategy,
        event_key=command.event_key,
        message_uuid=command.message_uuid,
        message_index=command.message_index,
        tool=command.tool,
        metadata=command.metadata,
        parent=parent,
        only_if_different=command.condition is not Condition.ALWAYS,
        make_current=not late,
        incomplete=missed,
        cut=cut,
        timestamp=timestamp,
    )
    made = worker.commit_checkpoint(request)
    if made is not None and late:
        _insert(worker, made, current)
    return made


def _subject(worker: ProjectWorker, command: TakeCheckpoint) -> str:
    """What a call was about: the file that its tool names, or its shell command."""
    call = _stored_call(worker, command.tool.id) if command.tool else None
    if call is None:
        return ""
    named = [relative(worker.root, os.path.normpath(path)) or path for path in call.paths]
    return call.command[:_SUBJECT] or " ".join(path.decode("utf-8", "replace") for path in named)


def _insert(worker: ProjectWorker, made: Checkpoint, current: str) -> None:
    """A late checkpoint goes between its parent and the one that followed it on the branch."""
    catalogue = worker.store.catalogue()
    child = catalogue.checkpoint(current)
    while child is not None and child.parent != made.parent:
        child = catalogue.checkpoint(child.parent) if child.parent else None
    if child is not None and child.id != made.id:
        worker.store.log.append([MarkFact(child.id, parent=made.id)])


def _before_baseline(worker: ProjectWorker, moment: int, cut: Cut) -> list[tuple[bytes, str]]:
    """What changed between a moment and the baseline that came after it: the baseline holds the later version."""
    cursor = worker.store.catalogue().db.execute(
        "select p.dir, p.name from row r join path p on p.id = r.path"
        " where r.project = ? and r.at > ? and r.seq <= ? and r.kind != 2 limit ?",
        (worker.project_id, moment, cut.seq, _LISTED),
    )
    return [(join_path(directory, name), "changed before the baseline saw it") for directory, name in cursor]
