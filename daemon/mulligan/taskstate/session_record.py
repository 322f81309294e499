"""What the journal knows of a session, as a hand-off tells it: commands, files with their checkpoints, failures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice

import msgspec

from mulligan.errors import IntegrityError
from mulligan.model import Checkpoint, Cut, Kind
from mulligan.store.catalogue import Catalogue, join_path
from mulligan.store.contents import Contents
from mulligan.taskstate.handoff import COMMANDS, FAILURES, FILES, Changed, Failed, Handoff, Ran
from mulligan.taskstate.store import TaskState
from mulligan.watch.patterns import read_regular

#: A session has thousands of calls at most; of more the first ones are left out.
_CALLS = 10_000
#: So many checkpoints are asked whether they hold a version.
_CHECKPOINTS = 2000
#: Environment files are small and few; what is in more or larger ones is found by its form alone.
_ENV_FILES, _ENV_BYTES, _ENV_DIRECTORIES = 200, 64 * 1024, 2000


class _Called(msgspec.Struct, frozen=True):
    id: str
    name: str
    start: int
    end: int
    is_error: int
    paths: bytes
    command: str
    agent: int

    @property
    def what(self) -> str:
        """The command, else the paths that its input names, else nothing."""
        if self.command:
            return self.command
        paths = msgspec.msgpack.decode(self.paths, type=list[bytes])
        return " ".join(path.decode("utf-8", "replace") for path in paths)


def record_of(
    catalogue: Catalogue, project: int, root: bytes, session: str, state: TaskState | None, now: int
) -> Handoff:
    """A session's hand-off without what only transcripts tell; not yet fit to be shown (`handoff.cleaned`)."""
    cursor = catalogue.db.execute(
        "select id, name, start, end, is_error, paths, command, agent from call where session = ?"
        " order by start desc, id desc limit ?",
        (session, _CALLS),
    )
    calls = [_Called(*found) for found in cursor][::-1]
    shell = [call for call in calls if call.command]
    files = _changed_files(catalogue, project, session)
    failures = _open_failures(calls)
    return Handoff(
        session=session,
        project=root.decode("utf-8", "replace"),
        made=now,
        state=state.value if state else None,
        synthesized=state is not None and state.synthesized,
        updated_at=state.updated_at if state else 0,
        commands=[
            Ran(
                command=call.command, start=call.start, exit="unknown" if call.end else "unknown, it has not ended",
                call=call.id, by_subagent=bool(call.agent), is_error=bool(call.is_error),
            )
            for call in shell[-COMMANDS:]
        ],
        more_commands=max(0, len(shell) - COMMANDS),
        files=files[:FILES],
        more_files=max(0, len(files) - FILES),
        failures=failures[:FAILURES],
        more_failures=max(0, len(failures) - FAILURES),
    )  # fmt: skip


def _open_failures(calls: list[_Called]) -> list[Failed]:
    """The calls that failed and of whose command or file none succeeded later, the latest first, each thing once."""
    settled: set[tuple[str, str]] = set()
    found = []
    for call in reversed(calls):
        if not call.end:
            continue
        # a file that was written in the end is well, whichever tool wrote it
        thing = ("command" if call.command else "", call.what or call.name)
        if thing not in settled and call.is_error:
            found.append(Failed(tool=call.name, what=call.what, start=call.start, call=call.id))
        settled.add(thing)
    return found


def _changed_files(catalogue: Catalogue, project: int, session: str) -> list[Changed]:
    """The paths that the session's calls changed, each with its last version of theirs, the latest first."""
    cursor = catalogue.db.execute(
        "select p.dir, p.name, r.kind, r.seq, r.at, n.seq, n.at from (select path, max(seq) as seq from row"
        " where call in (select id from call where session = ?) and project = ? group by path) own"
        " join row r on r.seq = own.seq join path p on p.id = r.path"
        " left join row n on n.seq = (select min(seq) from row where path = own.path and seq > own.seq)"
        " where r.kind != ? order by r.seq desc",
        (session, project, Kind.DIR),
    )
    rows = cursor.fetchall()
    if not rows:
        return []
    checkpoints = _complete_checkpoints(catalogue, project)
    found = []
    for directory, name, kind, seq, at, next_seq, next_at in rows:
        holder = next((made for made in checkpoints if _holds(made.cut, seq, at, next_seq, next_at)), None)
        found.append(
            Changed(
                path=join_path(directory, name).decode("utf-8", "replace"),
                did={Kind.ABSENT: "deleted", Kind.LINK: "linked"}.get(kind, "written"),
                checkpoint=holder.id if holder else "",
                ordinal=holder.ordinal if holder else 0,
                changed_since=next_seq is not None,
            )
        )
    return found


def _holds(cut: Cut, seq: int, at: int, next_seq: int | None, next_at: int | None) -> bool:
    """Whether a cut selects a row, of which the path's next one is known: within a path seq and at rise."""
    selected = seq <= cut.seq and at <= cut.moment
    replaced = next_seq is not None and next_at is not None and next_seq <= cut.seq and next_at <= cut.moment
    return selected and not replaced


def _complete_checkpoints(catalogue: Catalogue, project: int) -> list[Checkpoint]:
    """The newest first, by the time at which their trees stood."""
    found = catalogue.checkpoints("project = ?", (project,), _CHECKPOINTS)
    return sorted((made for made in found if made.complete), key=lambda made: (-made.timestamp, -made.ordinal))


def environment_files(catalogue: Catalogue, contents: Contents, project: int, root: bytes) -> Iterator[bytes]:
    """The environment files of a project as they are, ignored ones too, and every version that was captured of them.

    What is in them is told to nobody. Any link may lead to one: it is read to be left out.
    """
    yield from islice(_on_disk(catalogue, project, root), _ENV_FILES)
    cursor = catalogue.db.execute(
        "select distinct r.hash from path p join row r on r.path = p.id where p.project = ? and r.kind = ?"
        " and (cast(p.name as text) glob '.env*' or cast(p.name as text) glob '*.env') and r.size <= ?"
        " order by r.seq desc limit ?",
        (project, Kind.FILE, _ENV_BYTES, _ENV_FILES),
    )
    for (digest,) in cursor.fetchall():
        try:
            yield contents.read(digest)
        except IntegrityError:
            continue


def _on_disk(catalogue: Catalogue, project: int, root: bytes) -> Iterator[bytes]:
    """Those in the root and in the directories that are captured, the upper ones first."""
    cursor = catalogue.db.execute(
        "select dir, name from path where project = ? and kind = ? order by length(dir), dir limit ?",
        (project, Kind.DIR, _ENV_DIRECTORIES),
    )
    for directory in [root, *(os.path.join(root, join_path(*found)) for found in cursor.fetchall())]:
        try:
            names = [name for name in os.listdir(directory) if name.startswith(b".env") or name.endswith(b".env")]
        except OSError:
            continue
        for name in names:
            if (data := read_regular(os.path.join(directory, name), _ENV_BYTES, follow=True)) is not None:
                yield data
