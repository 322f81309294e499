"""Takes opcode's checkpoints over into a project of their own, which is never watched: its root is no directory.

The journal of the real project cannot take rows of before its baseline, and what opcode recorded need not be what was
on disk; so an import stands beside it, with a journal in which the checkpoints' trees follow each other as if somebody
had restored each of them. What was taken over is known by its event key: to import again adds what is new, and goes on
where a crash ended the last time.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field

from mulligan.errors import MulliganError
from mulligan.faults import point
from mulligan.model import ABSENT, PURGED, Checkpoint, Cut, Entry, Flag, Kind, Row, Stat
from mulligan.project.checkpoints import Request, make_checkpoint
from mulligan.project.opcode import EMPTY, Held, Rebuilt, Ref, directories_of, rebuild
from mulligan.project.opcode_files import Timeline, held, is_hash
from mulligan.project.worker import ProjectWorker
from mulligan.store.encoding import BLOCK_THRESHOLD
from mulligan.store.records import AnyFact, CheckpointFact, CurrentFact, SessionFact
from mulligan.store.store import Store
from mulligan.watch.derived import VCS_DIRECTORIES

#: Why an archive is not watched; how it is known for one.
REASON = "imported from opcode: it holds the past alone"
_VERSION_CONTROL = frozenset(map(os.fsdecode, VCS_DIRECTORIES))
_DIRECTORY = Held(Entry(Kind.DIR, 0o755))


@dataclass(slots=True)
class Imported:
    """What became of a timeline: our checkpoints beside theirs, those that were there before, and what to know."""

    made: list[tuple[Rebuilt, Checkpoint]] = field(default_factory=list)
    known: int = 0


def archive_root(root: str, session: str) -> bytes:
    """The path that names the archive of a session's timeline: beside its project, where nothing is."""
    return os.fsencode(f"{os.path.normpath(root)}.opcode-{session[:8]}")


def session_name(session: str) -> str:
    """The session of an archive's checkpoints: another one than the agent's own, which belongs to its project."""
    return f"opcode-{session}"


def rebuilt(timeline: Timeline, limit: int, store: Store) -> list[Rebuilt]:
    """The checkpoints of a timeline with their trees; contents are looked at and let go again."""
    known: dict[Ref, Held] = {}

    def look(ref: Ref) -> Held | None:
        if _VERSION_CONTROL.intersection(ref.path.split("/")):
            return None
        if ref not in known:
            found = held(timeline, ref, limit)[0]
            lost = found.entry.kind == Kind.UNKNOWN and found.entry.reason != EMPTY
            known[ref] = (_of_ours(store, ref) if lost else None) or found
        return known[ref]

    return rebuild(timeline.nodes, timeline.root, look)


def _of_ours(store: Store, ref: Ref) -> Held | None:
    """What opcode has lost, if mulligan has captured the same bytes itself."""
    digest = bytes.fromhex(ref.hash) if is_hash(ref.hash) else b""
    place = store.catalogue().place(digest)
    if place is None or place.size != ref.size or not store.contents.holds(digest):
        return None
    entry = Entry(Kind.FILE, ref.mode & 0o7777, place.size, digest)
    return Held(entry, repaired="its content was lost: taken from what mulligan has captured itself", ref=ref)


class OpcodeImport:
    """Imports one timeline into its archive. Runs in the archive's thread."""

    def __init__(self, worker: ProjectWorker, timeline: Timeline, limit: int) -> None:
        self._worker, self._store, self._timeline, self._limit = worker, worker.store, timeline, limit
        self._session = session_name(timeline.session)
        self._moment = 0
        self._ids: dict[str, str] = {}

    def run(self, found: list[Rebuilt]) -> Imported:
        """Take over what is new. Raises MulliganError; what was taken over until then stays, and is gone on from."""
        self._store.require_writable()
        done = Imported()
        project, catalogue = self._worker.project_id, self._store.catalogue()
        self._moment = catalogue.latest(project)
        for one in found:
            key = f"opcode:{one.node.id}"
            taken = catalogue.checkpoints("project = ? and event_key = ?", (project, key), 1)
            if taken:
                self._ids[one.node.id] = taken[0].id
                done.known += 1
            elif catalogue.event_taken(project, key):  # somebody deleted it since
                self._ids[one.node.id] = self._ids.get(one.parent, "")
            else:
                with self._store.building():
                    done.made.append((one, self._take(one, key)))
                point("opcode.taken")
        self._conclude(found)
        return done

    def _take(self, one: Rebuilt, key: str) -> Checkpoint:
        node, project = one.node, self._worker.project_id
        self._moment = max(self._moment + 1, self._store.clock.from_wall(node.timestamp))
        self._go_to(one)
        catalogue = self._store.catalogue()
        request = Request(
            "manual",
            self._session,
            node.description,
            placement="timestamp",
            strategy=self._timeline.strategy,
            event_key=key,
            message_index=node.message_index,
            metadata=node.metadata,
            parent=self._ids.get(one.parent, ""),
            incomplete=[(b"", reason) for reason in one.incomplete],
            timestamp=self._moment,
        )
        record = self._worker.record()
        made = make_checkpoint(catalogue, record, request, Cut(record.last_seq), self._worker.now(), lambda: None)
        assert made is not None  # no condition was given
        self._store.log.append([CheckpointFact(made), CurrentFact(project, "", made.id)])
        self._ids[node.id] = made.id
        return made

    def _go_to(self, one: Rebuilt) -> None:
        """Rows that make the live tree what a checkpoint's is, with the contents that they name."""
        capture = self._worker.capture
        wanted = dict(one.tree)
        for path in one.tree:
            wanted |= dict.fromkeys(directories_of(path), _DIRECTORY)
        live = {each.path: each for each in self._store.catalogue().below(self._worker.project_id, b"")}
        # what is seen for the first time behind something unknown may have been there before
        born = int(Flag.SCANNED) | (int(Flag.FROM_UNKNOWN) if not live or one.incomplete else 0)
        for path in sorted(live.keys() | wanted.keys()):
            what, now = wanted.get(path, Held(ABSENT)), live.get(path)
            if now is not None and now.entry == what.entry and not (now.flags ^ what.flags) & Flag.TORN:
                continue
            if now is None and what.entry.kind == Kind.ABSENT:
                continue
            entry = self._stored(path, what)
            flags = what.flags | (born if now is None else int(Flag.SCANNED))
            at = max(self._moment, now.at + 1 if now is not None else 0)
            capture.add(Row(path, entry, at, at, flags), Stat(seen=at))
        capture.flush()

    def _stored(self, path: bytes, what: Held) -> Entry:
        """The entry with its content in the store; unknown if it was purged, or is not what it was a moment ago."""
        entry = what.entry
        if entry.kind != Kind.FILE or self._store.contents.holds(entry.hash):
            return entry
        if self._store.catalogue().is_purged(entry.hash):
            return Entry(Kind.UNKNOWN, reason=PURGED)
        if not self._store.room.wait(entry.size):
            raise MulliganError(
                "there is no room for the import in the budget", hint="raise budget_bytes:, then import again"
            )
        assert what.ref is not None  # every file was brought by one
        again, data = held(self._timeline, what.ref, self._limit)
        if again.entry != entry:
            return Entry(Kind.UNKNOWN, reason="opcode changed it while it was imported")
        if len(data) <= BLOCK_THRESHOLD:
            self._worker.capture.store_bytes(path, data)
            return entry
        with tempfile.TemporaryFile(dir=self._store.staging) as file:
            file.write(data)
            file.seek(0)
            stored = self._worker.capture.store_version(path, file.fileno(), entry)
        return stored if stored.kind == Kind.UNKNOWN else entry

    def _conclude(self, found: list[Rebuilt]) -> None:
        """The session, and where it and the archive stand: at opcode's current checkpoint, or the nearest above it."""
        if not found:
            return
        project, timeline = self._worker.project_id, self._timeline
        times = [self._store.clock.from_wall(one.node.timestamp) for one in found]
        facts: list[AnyFact] = [SessionFact(self._session, project, b"", min(times), max(times), b"", max(times))]
        current = timeline.current
        while current and current not in self._ids:
            node = timeline.nodes.get(current)
            current = node.parent if node is not None else ""
        name = self._ids.get(current) or self._ids.get(found[-1].node.id, "")
        if name:
            facts += [CurrentFact(project, "", name), CurrentFact(project, self._session, name)]
        self._store.log.append(facts)
