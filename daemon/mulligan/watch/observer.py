"""One interface for all ways to watch a tree, and the choice between them.

An observer gathers names of places where something happened. It concludes nothing: what is true there the worker finds
out on disk. `watch` is called before a directory is listed, so nothing created in between is missed.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Touch:
    """Events of one path: when the first and the last arrived; `finished`: closed, moved, deleted or chmod.

    `writing`: nothing of that kind came after the last modification, so somebody may be half way. `moved`: it is a
    directory that came from elsewhere, with things in it that are older than its coming.
    """

    first: int
    last: int
    finished: bool
    writing: bool = False
    moved: bool = False


@dataclass(slots=True)
class Changes:
    """What was gathered since the last drain.

    `directories` are to be reconciled with the disk: they came, went, were moved, or may be readable again. After an
    `overflow` only a comparison of the whole tree tells, and nothing but the root is watched any more.
    """

    entries: dict[bytes, Touch] = field(default_factory=dict)
    directories: set[bytes] = field(default_factory=set)
    overflow: bool = False

    def touch(self, path: bytes, now: int, *, finished: bool, moved: bool = False) -> None:
        """Note an event of a path."""
        known = self.entries.get(path)
        if known is None:
            self.entries[path] = Touch(now, now, finished, not finished, moved)
        else:
            known.last = now
            known.finished = known.finished or finished
            known.writing = not finished
            known.moved = known.moved or moved


class Observer(Protocol):
    """Watches the directories of one root. All methods but `start` may be called from the worker's thread at any time.

    The rule for whoever takes the changes: watch a directory first and list it after; a subdirectory that is found and
    not watched is to be reconciled as well. A name to which something happened loses the watches below it, so the rule
    finds what was moved, exchanged or replaced.
    """

    @property
    def root_gone(self) -> bool:
        """Whether the root itself was removed, moved or unmounted; it stays so."""

    @property
    def limit_reached(self) -> str:
        """Which limit of the system keeps directories unwatched now, and what to set; "" if none does."""

    @property
    def watched(self) -> int:
        """Directories that are watched."""

    @property
    def exact(self) -> bool:
        """Whether the barrier costs next to nothing and writes nothing, so that it may be asked for any single file."""

    def start(self, wake: Callable[[], None]) -> None:
        """Begin; `wake` is called from another thread when there is something to drain, and must not block."""

    def watch(self, directory: bytes) -> bool:
        """Watch one directory ("" is the root), not what is below it; idempotent. False if it could not be."""

    def is_watched(self, directory: bytes) -> bool:
        """Whether a directory is watched under this name."""

    def forget(self, directory: bytes) -> None:
        """Stop watching a directory and everything below it."""

    def barrier(self, timeout_seconds: float) -> bool:
        """After this, `drain` has every event that was queued before the call; False if that cannot be promised."""

    def drain(self) -> Changes:
        """Take what was gathered."""

    def stop(self) -> None:
        """End; the observer cannot be used again."""


class ObserverFactory(Protocol):
    """Makes the observer of a root."""

    def __call__(self, root: bytes, now: Callable[[], int]) -> Observer:
        """A new, unstarted observer."""


#: File systems whose other users change files without this kernel being told.
_REMOTE = frozenset(
    (
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
        "vboxsf",
        "virtiofs",
        "fuseblk",
    )
)


def file_system_of(root: bytes, mounts: bytes) -> str:
    """The type of the file system that holds an absolute path, by the text of /proc/self/mountinfo; "" if unknown."""
    longest, kind = -1, ""
    for line in mounts.splitlines():
        fields, _, rest = line.partition(b" - ")
        parts = fields.split()
        if len(parts) < 5 or not rest:
            continue
        point = parts[4].decode("unicode_escape").encode("latin-1").rstrip(b"/")
        if (root == point or root.startswith(point + b"/")) and len(point) >= longest:
            longest, kind = len(point), rest.split()[0].decode(errors="replace")
    return kind


def _is_remote(root: bytes) -> bool:
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            kind = file_system_of(os.path.realpath(root), file.read())
    except OSError:
        return False
    return kind in _REMOTE or kind.startswith("fuse.")


def make_observer(root: bytes, now: Callable[[], int]) -> Observer:
    """The best observer that this system has for a root."""
    if sys.platform != "linux":
        from mulligan.watch.generic import GenericObserver  # noqa: PLC0415 - each platform loads its own

        return GenericObserver(root, now)
    from mulligan.watch.generic import PolledObserver  # noqa: PLC0415

    if _is_remote(root):
        log.info("%s is on a file system that tells of nothing: it is compared every few seconds", os.fsdecode(root))
        return PolledObserver(root, now)
    from mulligan.watch.inotify import InotifyObserver, open_reader  # noqa: PLC0415

    try:
        return InotifyObserver(root, now, open_reader())
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        limit = "no more inotify instances: changes are found by scanning; raise fs.inotify.max_user_instances"
        log.warning("%s", limit)
        polled = PolledObserver(root, now)
        polled.limit_reached = limit
        return polled
