"""The paths that wait to be looked at, and when each of them is due."""

from __future__ import annotations

from dataclasses import dataclass

from mulligan import clock
from mulligan.watch.ignore import is_client_temporary
from mulligan.watch.observer import Touch

#: Modification without a close: first sight at once, then this often.
_SETTLE = 250 * clock.MILLISECOND
#: Each path has a bucket of tokens, one for a finished version that is captured at once, and gets one back this often.
_TOKENS, _REFILL = 20, 500 * clock.MILLISECOND
_TEMPORARY_WAIT = 5 * clock.NANOSECONDS
_PACES = 4096


@dataclass(slots=True)
class Dirty:
    """A path to look at. `writing`: somebody may be half way; `confirm`: nothing new, but it may be whole by now."""

    first: int
    last: int
    finished: bool
    writing: bool = False
    confirm: bool = False


@dataclass(slots=True)
class _Pace:
    """How often a path was captured lately: `last`, and when its bucket of tokens is `full` again if none is taken."""

    last: int = 0
    full: int = 0

    def take(self, now: int, *, token: bool) -> None:
        """Count a capture; who takes a token that is not there, as before a checkpoint, takes none from the future."""
        self.last = now
        if token:
            self.full = min(max(self.full, now) + _REFILL, now + _TOKENS * _REFILL)

    def next_token(self) -> int:
        """The moment from which a token is there."""
        return self.full - (_TOKENS - 1) * _REFILL


class Pending:
    """Dirty paths of one project. Times are journal time; belongs to one thread."""

    def __init__(self) -> None:
        self._dirty: dict[bytes, Dirty] = {}
        self._pace: dict[bytes, _Pace] = {}

    def __len__(self) -> int:
        return len(self._dirty)

    def __contains__(self, path: object) -> bool:
        return path in self._dirty

    def paths(self) -> list[bytes]:
        """What is dirty now."""
        return list(self._dirty)

    def add(self, path: bytes, dirty: Dirty) -> None:
        """A path is dirty for one more reason."""
        known = self._dirty.get(path)
        self._dirty[path] = dirty if known is None else joined(known, dirty)

    def touched(self, path: bytes, touch: Touch) -> None:
        """Events told of a path."""
        self.add(path, Dirty(touch.first, touch.last, touch.finished, touch.writing))

    def confirm_later(self, path: bytes, dirty: Dirty) -> None:
        """What was captured while somebody may have been half way is looked at again when it has been quiet."""
        if dirty.writing and path not in self._dirty:
            self._dirty[path] = Dirty(dirty.last, dirty.last, False, confirm=True)

    def pop(self, path: bytes) -> Dirty | None:
        """Take a path out, if it is dirty."""
        return self._dirty.pop(path, None)

    def due(self, path: bytes, now: int, *, everything: bool = False) -> int:
        """When a dirty path is to be looked at; `everything` does not wait for a pace, but for quiet."""
        dirty = self._dirty[path]
        if is_client_temporary(path.rpartition(b"/")[2]):
            return dirty.first + _TEMPORARY_WAIT
        if dirty.confirm:
            return dirty.last + _SETTLE
        pace = self._pace.get(path)
        if everything or pace is None:
            return now
        return pace.next_token() if dirty.finished else pace.last + _SETTLE

    def next_due(self, now: int) -> int | None:
        """When the first dirty path is to be looked at; None without one."""
        return min((self.due(path, now) for path in self._dirty), default=None)

    def count(self, path: bytes, dirty: Dirty, now: int) -> None:
        """A path is captured now for what made it dirty."""
        if dirty.confirm:
            return
        self._pace.setdefault(path, _Pace()).take(now, token=dirty.finished)
        if len(self._pace) > _PACES:
            self._pace = {path: pace for path, pace in self._pace.items() if max(pace.full, pace.last + _SETTLE) > now}


def joined(known: Dirty, dirty: Dirty) -> Dirty:
    """Two reasons for a look as one; what is news lets nothing be a mere confirmation."""
    if known.confirm:
        return dirty
    if dirty.confirm:
        return known
    return Dirty(known.first, max(known.last, dirty.last), known.finished or dirty.finished, dirty.writing)
