"""Whose change a row is, and how sure that is. Pure: rows and windows in, owners out.

A window runs from a call's start to its result, by the transcript's own times. What happened in no window is nobody's:
a person, an editor, git. A call that only reads owns nothing, so somebody who saves while it runs stays nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from mulligan.clock import FOREVER, MILLISECOND
from mulligan.model import RelPath
from mulligan.session.tools import ToolClass

#: The kernel stamps files from a clock that advances by up to 10 ms at a time (CONFIG_HZ=100), and the arrival of an
#: event is trusted to 10 ms, so a change may seem that much earlier or later than the call that made it.
BEFORE = 10 * MILLISECOND
#: The same, and the millisecond that a line's time is cut by. A result is stamped after its file is on disk (by up to
#: 150 ms), so nothing more is needed at this end.
AFTER = 11 * MILLISECOND

NAMED = "named"
WINDOW = "window"
NOBODY = ""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """A call in time; `end` is None while it runs.

    `paths` are those that its input names, relative to the project's root. `agent`: a subagent's call.
    `background_end`: when what it left running ended, if that is known.
    `barrier`: rows up to this one were there before the call ran; 0 if nobody knows. All times are journal time.
    """

    tool: str
    session: str
    tool_class: ToolClass
    start: int
    end: int | None = None
    paths: frozenset[RelPath] = frozenset()
    agent: bool = False
    is_error: bool = False
    background_end: int | None = None
    barrier: int = 0

    @property
    def last(self) -> int:
        """The last moment of the window."""
        return FOREVER if self.end is None else self.end


class Change(msgspec.Struct, frozen=True):
    """What attribution needs of a row; `seq` 0 is later than all that are known."""

    path: RelPath
    since: int
    at: int
    seq: int = 0


class Owner(msgspec.Struct, frozen=True):
    """The call that a change is ascribed to and the grade: "named", "window", "one of N"; both empty for nobody."""

    call: str = ""
    grade: str = NOBODY


def attribute(changes: Iterable[Change], windows: Iterable[Window]) -> list[Owner]:
    """The owner of each change.

    "named": a tool that writes one file names this one. "window": the only call that could have done it. "one of N":
    N could have; the one that started last is given. A change that began before the call may hold somebody else's
    work as well, so that the call is then one of several at best.
    """
    owning = [window for window in windows if window.tool_class is not ToolClass.READ_ONLY]
    owning.sort(key=lambda window: (window.start, window.tool))
    return [_owner(change, owning) for change in changes]


def relative(root: bytes, path: bytes) -> RelPath | None:
    """A normal absolute path as one of the project at `root`; None if it lies outside or is the root itself."""
    prefix = root.rstrip(b"/") + b"/"
    inside = path.startswith(prefix) and len(path) > len(prefix)
    if not inside or any(part in (b"", b".", b"..") for part in path[len(prefix) :].split(b"/")):
        return None
    return RelPath(path[len(prefix) :])


def candidates(change: Change, windows: Iterable[Window]) -> tuple[list[Window], int]:
    """The calls that may have made a change, in the order in which they began, and how many others may have.

    Others are whoever is no call: a person, or what changed the file before the first of the calls began.
    """
    owning = [window for window in windows if window.tool_class is not ToolClass.READ_ONLY]
    owning.sort(key=lambda window: (window.start, window.tool))
    return _candidates(change, owning)


def _owner(change: Change, windows: Sequence[Window]) -> Owner:
    found, others = _candidates(change, windows)
    if not found:
        return Owner()
    if len(found) + others > 1:
        return Owner(found[-1].tool, f"one of {len(found) + others}")
    return Owner(found[0].tool, NAMED if found[0].tool_class is ToolClass.PATH else WINDOW)


def _candidates(change: Change, windows: Sequence[Window]) -> tuple[list[Window], int]:
    windows = [window for window in windows if not 0 < change.seq <= window.barrier]
    named = [window for window in windows if _names(window, change.path)]
    if found := _at(change.at, named):
        return found, 0
    free = [window for window in windows if window.tool_class is not ToolClass.PATH]
    if found := _acting(_at(change.at, free)):
        return found, int(change.since < min(window.start for window in found) - BEFORE)
    # Nothing says that it was the command and not a person: a call in the background is never the only candidate.
    left = [window for window in free if _left_running(window, change.at)]
    return left, int(bool(left))


def _names(window: Window, path: RelPath) -> bool:
    # These tools replace the file in one step or not at all: a call that failed changed nothing.
    return window.tool_class is ToolClass.PATH and not window.is_error and path in window.paths


def _at(moment: int, windows: Sequence[Window]) -> list[Window]:
    """The windows that hold a moment; those that hold it only by the margins count if no other does."""
    strict = [window for window in windows if window.start <= moment <= window.last]
    if strict:
        return strict
    return [window for window in windows if window.start - BEFORE <= moment and moment - AFTER <= window.last]


def _acting(windows: list[Window]) -> list[Window]:
    """Without the agents that act through a call which is a candidate itself."""
    sessions = {window.session for window in windows if window.agent and window.tool_class is ToolClass.WINDOW}
    return [window for window in windows if window.tool_class is not ToolClass.AGENT or window.session not in sessions]


def _left_running(window: Window, moment: int) -> bool:
    return window.background_end is not None and window.start <= moment <= window.background_end + AFTER
