"""The terms of the journal as types: entries, rows, cuts, checkpoints.

Everything here is a frozen msgspec struct, so the same type is the record on disk and the value in memory. Field order
of the `array_like` structs is part of `store/FORMAT.md`; fields are only ever added at the end, with a default.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import NewType

import msgspec

from mulligan.clock import FOREVER

#: A path relative to the project's root: bytes, "/" between names, no leading or trailing "/", no "." or "..".
RelPath = NewType("RelPath", bytes)
#: 32 bytes.
ContentHash = NewType("ContentHash", bytes)
ProjectId = NewType("ProjectId", int)
SessionId = NewType("SessionId", str)
CheckpointId = NewType("CheckpointId", str)


#: What SQLite adds to the name of a database for its write-ahead log and for its rollback journal.
DATABASE_LOGS = (b"-wal", b"-journal")


def database_of(path: bytes) -> bytes | None:
    """The database whose log stands at a path, by its name alone; None for every other name."""
    for suffix in DATABASE_LOGS:
        if path.endswith(suffix):
            database = path.removesuffix(suffix)
            return database if database and not database.endswith(b"/") else None
    return None


def covers(paths: Collection[bytes], path: bytes) -> bool:
    """Whether one of `paths` is `path` or a directory above it; no paths cover everything. Of many, give a set."""
    if not paths:
        return True
    while path not in paths:
        if not path:
            return False
        path = path.rpartition(b"/")[0]
    return True


class Kind(enum.IntEnum):
    """What stands at a path. The numbers are stored."""

    ABSENT = 0
    FILE = 1
    DIR = 2
    LINK = 3
    SPECIAL = 4
    UNKNOWN = 5


#: By their numbers; a call of the enumeration takes ten times as long as this.
KINDS = tuple(Kind)


class Flag(enum.IntFlag):
    """What is known about how a row was made. The numbers are stored."""

    TORN = 1  # the bytes may mix versions
    UNPROVEN = 2  # read whole, but the path was not yet quiet
    FROM_UNKNOWN = 4  # the path's first row, and what was there before is not known (baseline, un-ignored)
    AWAY = 8  # found by the comparison after a gap
    SCANNED = 16  # found by a scan, not by an event
    NAMED = 32  # in scope because an agent's tool named the path, although it is ignored
    RESTORED = 64  # an operation of our own made it so: no call owns it, whichever was open
    THINNED = 128  # versions before it were dropped that others made: nobody can tell any more whose its lines are


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a path is: `mode` is the permission bits, `size` and `hash` are a file's, `target` a link's text.

    `reason` says why an entry is unknown ("not seen", "ignored", "too large", "unreadable", "torn") or which special
    file it is ("socket", "fifo", "device").
    """

    kind: Kind
    mode: int = 0
    size: int = 0
    hash: bytes = b""
    target: bytes = b""
    reason: str = ""

    @property
    def there(self) -> bool:
        """Whether something that can be restored stands there."""
        return self.kind in (Kind.FILE, Kind.DIR, Kind.LINK)


ABSENT = Entry(Kind.ABSENT)
#: Why everything is unknown that is not in the directory that came to stand in a root's place.
ANOTHER_ROOT = "another root directory"
#: Why a version is unknown that was erased on request.
PURGED = "purged"


class Stat(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What lstat said when an entry was read: proof that nothing changed, if `ctime` is 20 ms older than `seen`."""

    dev: int = 0
    ino: int = 0
    size: int = 0
    mode: int = 0
    mtime: int = 0
    ctime: int = 0
    seen: int = 0


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A path became an entry. `seq` is 0 until the log has numbered it.

    `since`: first event after the path's previous capture. `at`: when the entry became true. Both are journal time in
    nanoseconds. `call` is the tool call that owns the row, `grade` how well that is known; both are empty until they
    are attributed.
    """

    path: bytes
    entry: Entry
    since: int
    at: int
    flags: int = 0
    seq: int = 0
    call: str = ""
    grade: str = ""


class Cut(msgspec.Struct, frozen=True, array_like=True):
    """A position: for each path its last row with `seq` ≤ `seq` and `at` ≤ `moment`."""

    seq: int
    moment: int = FOREVER


class Tool(msgspec.Struct, frozen=True, array_like=True):
    """The tool call that a checkpoint follows."""

    name: str
    id: str
    is_error: bool = False


class Git(msgspec.Struct, frozen=True, array_like=True):
    """What git said of the project at that moment; read from its files, never asked by command."""

    head: str = ""
    branch: str = ""


class Metadata(msgspec.Struct, frozen=True, array_like=True):
    """Counts of a checkpoint; tokens are the session's up to then, changes are against the parent, sizes are bytes."""

    total_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    model_used: str = ""
    user_prompt: str = ""
    file_changes: int = 0
    added: int = 0
    modified: int = 0
    deleted: int = 0
    snapshot_size: int = 0


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A cut with a name, a reason and a place in the timeline.

    `seq` and `moment` are the cut and never change. `timestamp` is when its tree stood, `created` when it was recorded
    (journal time, nanoseconds). `incomplete` are (path, reason) of what the tree does not hold; `special` are listed
    and do not make it incomplete. `event_key` is unique per project: nothing is taken twice.
    """

    id: str
    ordinal: int
    project: int
    session: str = ""
    parent: str = ""
    timestamp: int
    created: int
    seq: int
    moment: int = FOREVER
    description: str = ""
    trigger: str
    placement: str = "now"
    strategy: str = ""
    incomplete: list[tuple[bytes, str]] = []
    special: list[bytes] = []
    pinned: bool = False
    tree: str = ""
    message_uuid: str = ""
    message_index: int = 0
    tool: Tool | None = None
    git: Git | None = None
    metadata: Metadata = Metadata()
    event_key: str = ""

    @property
    def cut(self) -> Cut:
        """The position in the journal."""
        return Cut(self.seq, self.moment)

    @property
    def complete(self) -> bool:
        """Whether the tree holds everything that was in scope."""
        return not self.incomplete
