"""Reconciling: events name places, the disk says what is true, the journal gets the difference.

A `Reconciler` belongs to one project's worker thread. Directories are watched first and listed after, so nothing that
is created in between is missed. Nothing is concluded from the order of events.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable

import msgspec

from mulligan.journal.bulk import BulkReading
from mulligan.journal.capture import Capture
from mulligan.journal.database import SHARED_MEMORY, read_together
from mulligan.journal.looked import Arrival, Looked
from mulligan.journal.pending import Dirty, Pending, joined
from mulligan.journal.reading import is_unreadable, unreadable
from mulligan.model import ANOTHER_ROOT, DATABASE_LOGS, Entry, Flag, Kind, RelPath, Row, Stat, database_of
from mulligan.store.catalogue import Catalogue, Live
from mulligan.watch.ignore import IgnoreRules, is_client_temporary
from mulligan.watch.observer import Changes, Observer, Touch
from mulligan.watch.scan import Found, list_directory

_PROOF_SECONDS = 1.0
#: Why a path is unknown after another directory took the root's place: that it is not there is no deletion.
_OUT_OF_SIGHT = ("ignored", ANOTHER_ROOT)


class Reconciler:
    """Makes the journal of one project equal to its disk, place by place or as a whole."""

    def __init__(
        self,
        capture: Capture,
        catalogue: Callable[[], Catalogue],
        observer: Observer,
        rules: IgnoreRules,
        now: Callable[[], int],
    ) -> None:
        self._capture, self._catalogue, self._observer = capture, catalogue, observer
        self.rules, self._now = rules, now
        self._pending = Pending()
        self._directories: dict[bytes, Arrival] = {}
        self._bulk: BulkReading | None = None
        self._before: IgnoreRules | None = None
        # databases that have, or had, a log beside them; and what a scan found to be new of them
        self._databases: set[bytes] = set()
        self._found: dict[bytes, dict[bytes, tuple[Arrival | None, int]]] = {}
        # what was read of one moment, so that no later event casts doubt on it
        self._whole: set[bytes] = set()
        # whether events were taken since the last proof: what they tell of is looked at later
        self._news = False
        # directories that could not be listed; each is unknown until it has been
        self._unlisted: set[bytes] = set()
        # directories that were found gone in this run, with everything below them
        self._gone: set[bytes] = set()
        self.unwatched = 0
        self.overflowed = False
        self.progress: Callable[[int], None] = lambda _done: None

    @property
    def backlog(self) -> int:
        """Places that wait to be looked at."""
        return len(self._pending) + len(self._directories)

    def take(self, changes: Changes) -> None:
        """Remember what an observer gathered; an overflow stays in `overflowed` until the tree is compared for it."""
        now = self._now()
        self._gone.clear()  # what was gone may have come back
        self.overflowed = self.overflowed or changes.overflow
        for path, touch in changes.entries.items():
            self._note_log(path)
            self._pending.touched(path, touch)
        for directory in changes.directories:
            told = changes.entries.get(directory) or Touch(now, now, True)
            known = self._directories.get(directory)
            first, moved = (known.first, known.moved) if known is not None else (told.first, False)
            self._directories[directory] = Arrival(first, told.last, moved=moved or told.moved)

    def soil(self, paths: list[bytes], *, finished: bool = True) -> None:
        """Look at these paths too, whatever the events say; at once, or as at what is still being written."""
        now = self._now()
        for path in paths:
            self._pending.add(path, Dirty(now, now, finished))

    def run(self, *, everything: bool) -> int | None:
        """Look at all that is due (or at everything), commit, and return when the next place is due (journal time)."""
        for path in [path for path in self._pending.paths() if self.rules.is_ignore_file(RelPath(path))]:
            self._entry(path, self._take(path))  # first: they say what else is to be looked at
        directories, self._directories = self._directories, {}
        for directory in sorted(directories):  # those above come first: what is gone with one of them is looked at once
            if not self._is_gone_with(directory):
                self.directory(directory, directories[directory])
        now = self._now()
        for path in self._pending.paths():
            # another member of its database may have taken it along
            if path in self._pending and self._pending.due(path, now, everything=everything) <= now:
                dirty = self._take(path)
                if not self._is_gone_with(path):
                    self._entry(path, dirty)
        self._capture.other_names()
        self._prove(everything=everything)
        self._capture.flush()
        # what came meanwhile was taken from the observer, who will not tell of it again
        return self._now() if self._directories else self._pending.next_due(self._now())

    def _is_gone_with(self, path: bytes) -> bool:
        """Whether a directory above a path was found gone in this run: it was booked then, and has news after it."""
        if self._gone:
            while (end := path.rfind(b"/")) > 0:
                path = path[:end]
                if path in self._gone:
                    return True
        return False

    def _take(self, path: bytes) -> Dirty:
        dirty = self._pending.pop(path)
        assert dirty is not None
        return dirty

    def _entry(self, path: bytes, dirty: Dirty) -> None:
        database = self._database_at(path)
        if database is None:
            self._pending.count(path, dirty, self._now())
        if self.rules.is_ignore_file(RelPath(path)):
            self._capture.path(path, Arrival(dirty.first, dirty.last, own=True))
            self._judge_again(path.rpartition(b"/")[0])
            return
        if self._ignored(path) or self._waits_for_listing(path):
            return
        if database is not None:
            # the shared memory is never captured, but who opens or closes it changes the others
            self._pending.add(database if path.endswith(SHARED_MEMORY) else path, dirty)
            self._together(database, {})
            return
        halfway = Flag.UNPROVEN if dirty.writing else 0
        self._capture.path(path, Arrival(dirty.first, dirty.last, own=True), halfway)
        self._pending.confirm_later(path, dirty)

    def _waits_for_listing(self, path: bytes) -> bool:
        """Whether a directory that could not be listed stands there: that it can be looked at says nothing new."""
        live = self._catalogue().live(self._capture.project, path)
        unlisted = path in self._unlisted or (live is not None and is_unreadable(live.entry))
        return unlisted and self._capture.is_directory(path)

    def _ignored(self, path: bytes) -> bool:
        """Whether a path is left out, by the rules and by what stands there now."""
        if self.rules.judge(RelPath(path), False):
            return True
        return self.rules.judge(RelPath(path), True) and self._capture.is_directory(path)

    # databases

    def _note_log(self, path: bytes) -> None:
        database = database_of(path)
        if database is not None:
            self._databases.add(database)

    def _database_at(self, path: bytes) -> bytes | None:
        """The database that a path belongs to, if it is one with a log beside it, or such a log."""
        if path in self._databases:
            return path
        if path.endswith(SHARED_MEMORY):
            database = path.removesuffix(SHARED_MEMORY)
            live = self._catalogue().live(self._capture.project, database)
            known = live is not None and live.entry.kind == Kind.FILE
            return database if known or self._capture.is_file(database) else None
        return database_of(path)

    def _together(self, database: bytes, found: dict[bytes, tuple[Arrival | None, int]]) -> None:
        """Capture a database and its logs as they were at one moment; if there was none, all are flagged.

        `found` is what a scan says of some of them. Events of them that are not taken yet are taken with it.
        """
        members = [path for path in (database, *(database + log for log in DATABASE_LOGS)) if not self._ignored(path)]
        told: dict[bytes, Dirty] = {}
        exact = self._observer.exact and self._observer.is_watched(database.rpartition(b"/")[0])

        def heard() -> set[bytes] | None:
            self._hear(barrier=self._observer.exact)
            news = {path for path in members if path in self._pending and not self._is_waiting(path)}
            for path in news:
                dirty = self._take(path)
                told[path] = joined(told[path], dirty) if path in told else dirty
            return news if exact and not self.overflowed else None

        heard()
        lives = [(path, self._capture.live(path)) for path in members]
        readings, whole = read_together(
            self._capture, [(path, None if path in told else live) for path, live in lives], heard
        )
        looked = []
        for path, live in lives:
            arrival, flags = found.get(path, (None, 0))
            if (dirty := told.get(path)) is not None:
                arrival = Arrival(dirty.first, dirty.last, own=True)
                self._pending.count(path, dirty, self._now())
            elif arrival is None and told:
                arrival = Arrival(min(each.first for each in told.values()), max(each.last for each in told.values()))
            if path in self._pending or (dirty is not None and dirty.writing):
                flags |= Flag.UNPROVEN
            readings[path].torn = not whole and readings[path].entry.there
            looked.append(Looked(path, live, readings[path], arrival, flags))
        self._capture.together(looked)
        if whole:
            self._whole.update(members)
        for path, dirty in told.items():
            self._pending.confirm_later(path, dirty)

    def _is_waiting(self, path: bytes) -> bool:
        """Whether a path is dirty only to be confirmed when it has been quiet."""
        return self._pending.due(path, now := self._now(), everything=True) > now

    def _found_in_scan(self) -> None:
        """Capture the databases of which a scan found something new."""
        found, self._found = self._found, {}
        for database, members in found.items():
            self._together(database, members)

    def _hear(self, *, barrier: bool) -> None:
        """Take the events so far: what was read before them and is not known to be of one moment is flagged."""
        if barrier:
            self._observer.barrier(_PROOF_SECONDS)
        changes = self._observer.drain()
        for path in changes.entries:
            if path not in self._whole:
                self._capture.mark(path, Flag.UNPROVEN)
        self.take(changes)
        self._news = self._news or bool(changes.entries or changes.directories or changes.overflow)

    def _prove(self, *, everything: bool = False) -> None:
        """Rows whose path had events while they were read are flagged, and stay dirty."""
        quiet, barrier = self._now(), everything or self._observer.exact
        self._hear(barrier=barrier)
        if barrier and not self._news:
            self._capture.quiet_since = quiet
        self._news = False
        self._whole.clear()
        self.soil([path for path in self._capture.torn if path not in self._pending], finished=False)

    # directories

    def directory(self, directory: bytes, arrival: Arrival | None, *, deep: bool = False, flags: int = 0) -> None:
        """Compare a directory with the journal, both ways, and everything below it that is new (or all, if `deep`)."""
        known = self._catalogue().live(self._capture.project, directory) if directory else None
        if known is not None and is_unreadable(known.entry):
            self._unlisted.add(directory)
        stack = [(directory, _flags_below(known, flags))]
        while stack:
            place, flags = stack.pop()
            stack.extend(self._level(place, arrival, deep, flags))
            self.progress(self._capture.captured)
        if self._bulk is None:
            self._found_in_scan()

    def _level(self, directory: bytes, arrival: Arrival | None, deep: bool, flags: int) -> list[tuple[bytes, int]]:
        if directory and self.rules.judge(RelPath(directory), True):
            self._observer.forget(RelPath(directory))
            return []
        if not self._observer.watch(RelPath(directory)):
            self.unwatched += 1
        catalogue, project = self._catalogue(), self._capture.project
        seen = self._now()
        known = catalogue.children(project, directory)
        try:
            found = list(list_directory(self._capture.root_fd, RelPath(directory), self.rules, known))
        except OSError as error:
            self._unlistable(directory, error, arrival, flags)
            return []
        if directory in self._unlisted:
            self._unlisted.discard(directory)
            self._capture.path(directory, arrival, flags & ~Flag.FROM_UNKNOWN)
        files = {item.path for item in found if item.kind == Kind.FILE}
        for path in files:
            self._note_log(path)
        below: list[tuple[bytes, int]] = []
        for item in found:
            name = item.path.rpartition(b"/")[2]
            live = known.pop(name, None)
            if name.endswith(SHARED_MEMORY) and item.path[: -len(SHARED_MEMORY)] in files:
                if live is not None:
                    self._capture.unknown(live, "ignored")
                continue
            if item.kind == Kind.DIR:
                if deep or live is None or live.entry.kind != Kind.DIR or not self._observer.is_watched(item.path):
                    below.append((item.path, _flags_below(live, flags)))
            elif live is not None and _may_be_directory(live):
                self._gone_below(live.path, arrival, flags)
            self._item(item, live, arrival, flags, seen)
        for live in known.values():
            self._not_found(live, arrival, flags)
        return below

    def _item(self, item: Found, live: Live | None, arrival: Arrival | None, flags: int, seen: int) -> None:
        first = flags
        if live is not None:
            first &= ~Flag.FROM_UNKNOWN
        elif self._before is not None and self._before.judge(RelPath(item.path), item.kind == Kind.DIR):
            first |= Flag.FROM_UNKNOWN  # it was hidden until now
        if live is not None and is_unreadable(live.entry) and item.kind == Kind.DIR:
            self._unlisted.add(item.path)
        elif item.kind == Kind.DIR and item.path in self._unlisted:
            return
        elif is_client_temporary(item.path.rpartition(b"/")[2]) and live is None:
            now = self._now()
            if item.path not in self._pending:
                self._pending.add(item.path, Dirty(now, now, True))
        elif not self._capture.needs_reading(live, item.stat):
            return
        elif item.kind == Kind.DIR:
            stat = msgspec.structs.replace(item.stat, seen=seen)
            self._capture.directory(item.path, live, stat, arrival, first)
        elif item.kind == Kind.FILE and (database := self._database_at(item.path)) is not None:
            self._found.setdefault(database, {})[item.path] = (arrival, first)
        elif self._bulk is not None and item.kind == Kind.FILE:
            self._bulk.read(item.path, live, first)
        else:
            self._capture.path(item.path, arrival, first)

    def _not_found(self, live: Live, arrival: Arrival | None, flags: int) -> None:
        is_dir = _may_be_directory(live)
        if self.rules.judge(RelPath(live.path), is_dir):
            self._capture.unknown(live, "ignored")
            for below in list(self._catalogue().below(self._capture.project, live.path)) if is_dir else ():
                self._capture.unknown(below, "ignored")
            self._observer.forget(RelPath(live.path))
            return
        if live.entry.kind == Kind.ABSENT or (live.entry.kind == Kind.UNKNOWN and live.entry.reason in _OUT_OF_SIGHT):
            return
        if not is_dir and (database := self._database_at(live.path)) is not None:
            self._found.setdefault(database, {})[live.path] = (arrival, flags & ~Flag.FROM_UNKNOWN)
            return
        # the listing is older than this look: what is there now counts
        if self._capture.path(live.path, arrival, flags & ~Flag.FROM_UNKNOWN).kind != Kind.DIR and is_dir:
            self._gone_below(live.path, arrival, flags)

    def _gone_below(self, directory: bytes, arrival: Arrival | None, flags: int) -> None:
        """Everything known below a directory that is none any more is absent."""
        self._observer.forget(RelPath(directory))
        self._gone.add(directory)
        self._capture.settle_below(directory)
        for live in list(self._catalogue().below(self._capture.project, directory, there=True)):
            self._capture.absent(live, arrival, flags & ~Flag.FROM_UNKNOWN)

    def _unlistable(self, directory: bytes, error: OSError, arrival: Arrival | None, flags: int) -> None:
        """A directory that cannot be listed: gone, or there and unreadable; then everything below is unknown."""
        if not directory:
            raise error
        if isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno == errno.ELOOP:
            if self._capture.path(directory, arrival, flags & ~Flag.FROM_UNKNOWN).kind != Kind.DIR:
                self._gone_below(directory, arrival, flags)
            return
        entry = unreadable(error)
        self._unlisted.add(directory)
        self._capture.flush()
        now = self._now()
        live = self._catalogue().live(self._capture.project, directory)
        if live is None or live.entry != entry:
            self._capture.add(Row(directory, Entry(Kind.UNKNOWN, reason=entry.reason), now, now, flags), Stat(seen=now))
        for below in list(self._catalogue().below(self._capture.project, directory)):
            self._capture.unknown(below, entry.reason)

    def _judge_again(self, directory: bytes) -> None:
        """An ignore file changed: what it now hides is unknown, what it now shows was unknown until now."""
        before = self.rules.snapshot()
        if self.rules.reload(RelPath(directory)):
            self._compare_rules(directory, before)

    def judge_anew(self, change: Callable[[IgnoreRules], object]) -> None:
        """What the rules were given is to be another, which hides and shows as an ignore file does; commits.

        It is the roots of other projects below ours, or the patterns of the configuration.
        """
        before = self.rules.snapshot()
        if change(self.rules) is False:
            return
        self._compare_rules(b"", before)
        self._prove()
        self._capture.flush()

    def _compare_rules(self, directory: bytes, before: IgnoreRules) -> None:
        project = self._capture.project
        for live in list(self._catalogue().below(project, directory)):
            if self.rules.judge(RelPath(live.path), live.entry.kind == Kind.DIR):
                self._capture.unknown(live, "ignored")
        self._before = before
        try:
            self.directory(directory, None, deep=True)
        finally:
            self._before = None

    def _read_rules_again(self) -> None:
        """What told of a changed ignore file may be lost; what was hidden by the rules until now was unknown."""
        self._before = self.rules.snapshot()
        self.rules.reload(RelPath(b""))

    def _ignore_files_changed(self) -> bool:
        """Whether an ignore file that the journal knows is another one now."""
        catalogue, project = self._catalogue(), self._capture.project
        for path in catalogue.named(project, (b".gitignore", b".mulliganignore")):
            live = catalogue.live(project, path)
            if live is not None and self._capture.path(path, None, Flag.AWAY) != live.entry:
                return True
        return False

    def settled(self, changes: Changes, done: Iterable[bytes]) -> None:
        """Take what an observer gathered, but for paths that we made and whose stat proves them as recorded."""
        catalogue, project = self._catalogue(), self._capture.project
        for path in done:
            if path in changes.entries:
                live = catalogue.live(project, path)
                if live is not None and live.entry.there and self._capture.is_unchanged(live):
                    del changes.entries[path]
        self.take(changes)

    def everything(self, flags: int = 0) -> None:
        """Compare the whole tree with the journal, both ways, and commit. Many files are read by child processes."""
        flags = int(flags)  # a member of an enumeration is slow to combine, and it goes along to every file
        if flags & Flag.AWAY and self._ignore_files_changed():
            flags |= Flag.FROM_UNKNOWN  # what is new to us may only have been hidden until now
        elif not flags:
            self._read_rules_again()
        self._bulk = BulkReading(self._capture)
        self._capture.bulk = True
        try:
            self.directory(b"", None, deep=True, flags=flags)
            self._bulk.finish()
            self._found_in_scan()
        finally:
            self._bulk.close()
            self._bulk = self._before = None
            self._capture.bulk = False
        self._prove()
        self._capture.flush()


def _may_be_directory(live: Live) -> bool:
    """Whether there may be entries below what was last known of a path; what cannot be read may be a directory."""
    return live.entry.kind == Kind.DIR or is_unreadable(live.entry)


def _flags_below(known: Live | None, flags: int) -> int:
    """The flags of what is found in a directory: it held what nobody knew, if it could not be read until now."""
    if known is not None and known.entry.kind == Kind.UNKNOWN and known.entry.reason != ANOTHER_ROOT:
        return flags | Flag.FROM_UNKNOWN
    return flags
