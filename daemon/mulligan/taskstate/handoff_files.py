"""Where hand-offs lie, and writing them there: confined, private, as a whole.

In the data directory; or, if it is configured, in one directory below the project, which is reached name by name and
through no link: then nothing outside of the project is ever written, whatever stands in it.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from mulligan.config import Config
from mulligan.descent import open_root
from mulligan.errors import MulliganError, NotFoundError, RefusedError
from mulligan.store.atomic import make_private_directory, write_file
from mulligan.taskstate.handoff import MARKER

DIRECTORY = "handoff"
_SESSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.:-]{0,199}\Z")
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class HandoffFiles:
    """The hand-offs of all sessions; any thread."""

    def __init__(self, data_dir: str, config: Callable[[], Config]) -> None:
        self._data_dir, self._config = data_dir, config

    def path(self, root: bytes, session: str) -> bytes:
        """Where a session's hand-off lies or would lie. Raises RefusedError for what is no session's id."""
        directory = self._config().handoff_dir
        above = os.path.join(root, os.fsencode(directory)) if directory else os.fsencode(self._own())
        return os.path.join(above, _name(session))

    def write(self, root: bytes, session: str, text: str) -> bytes:
        """Replace a session's hand-off; where it lies.

        Raises RefusedError if the place is not a plain directory of the project, or holds a file of somebody else's;
        NotFoundError if the project is gone.
        """
        name = _name(session)
        with self._directory(root, make=True) as directory:
            _require_ours(directory, name, self.path(root, session))
            write_file(os.fsdecode(name), text.encode(), directory=directory)
        return self.path(root, session)

    def written(self, root: bytes, session: str, otherwise: int) -> int:
        """When a session's hand-off was written (wall clock), or something else if there is none."""
        try:
            return os.lstat(self.path(root, session)).st_mtime_ns
        except (OSError, MulliganError):
            return otherwise

    def remove(self, root: bytes, session: str) -> bool:
        """Remove a session's hand-off wherever it may lie; whether there was one."""
        name, found = _name(session), False
        for place in dict.fromkeys((self._config().handoff_dir, None)):
            with suppress(NotFoundError, RefusedError), self._directory(root, make=False, place=place) as directory:
                _require_ours(directory, name, name)
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)
                    found = True
        return found

    def _own(self) -> str:
        return os.path.join(self._data_dir, DIRECTORY)

    @contextmanager
    def _directory(self, root: bytes, *, make: bool, place: str | None = "") -> Iterator[int]:
        """A descriptor of the directory of hand-offs; missing ones are made, 0700."""
        place = self._config().handoff_dir if place == "" else place
        if place is None:
            if make:
                make_private_directory(self._own())
            top, names = os.fsencode(self._data_dir), [os.fsencode(DIRECTORY)]
        else:
            top, names = root, os.fsencode(place).rstrip(b"/").split(b"/")
        if not all(names) or {b".", b".."} & set(names):  # the configuration does not take it either
            raise RefusedError(f"{place} is no directory below the project", hint="see handoff_dir: in the README")
        try:
            fd = open_root(top)
        except OSError as error:
            raise NotFoundError(
                f"{os.fsdecode(top)} cannot be opened: {(error.strerror or '').lower()}", hint="is it mounted?"
            ) from error
        try:
            for name in names:
                fd = _below(fd, name, make=make)
            yield fd
        except OSError as error:
            where = os.fsdecode(os.path.join(top, *names))
            kind = NotFoundError if isinstance(error, FileNotFoundError) else _kind(error)
            raise kind(
                f"{where} cannot hold a hand-off: {(error.strerror or str(error)).lower()}",
                hint="handoff_dir names a plain directory of the project, reached through no link",
            ) from error
        finally:
            os.close(fd)


def _kind(error: OSError) -> type[MulliganError]:
    # what is no directory, or a link, is somebody's; anything else is the disk's
    return RefusedError if isinstance(error, NotADirectoryError) or error.errno == errno.ELOOP else MulliganError


def _below(fd: int, name: bytes, *, make: bool) -> int:
    """The descriptor of a directory in another one, which is closed."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=fd)
    below = os.open(name, _OPEN, dir_fd=fd)
    os.close(fd)
    return below


def _name(session: str) -> bytes:
    if not _SESSION.match(session):
        raise RefusedError(f"{session[:60]!a} is no session's id", hint="mulligan session list")
    return b"handoff-%b.md" % session.encode()


def _require_ours(directory: int, name: bytes, shown: bytes) -> None:
    """Raise RefusedError if something else than a hand-off stands there: it is not ours to replace."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return
    except OSError as error:
        raise RefusedError(f"{os.fsdecode(shown)} is not a hand-off", hint="move it away") from error
    try:
        whole = stat.S_ISREG(os.fstat(fd).st_mode) and os.read(fd, len(MARKER)) == MARKER.encode()
    finally:
        os.close(fd)
    if not whole:
        raise RefusedError(f"{os.fsdecode(shown)} is not a hand-off", hint="move it away, or set another handoff_dir")
