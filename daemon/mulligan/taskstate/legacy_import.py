"""Takes over what checkpoint-orchestrator 1.x left in projects: once for each, under a name of its own, by a copy.

Nothing in a project is changed, and nothing is read through a link. A state that was taken over stays recorded whatever
becomes of the files, of the sessions and of their states, so that it is never taken over twice.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from mulligan.config import Config
from mulligan.descent import open_directory, open_root
from mulligan.errors import MulliganError
from mulligan.store.atomic import make_private_directory, write_file
from mulligan.taskstate.imports import Imported, imports, keep_import
from mulligan.taskstate.legacy import DIRECTORY, FILE, HISTORY, MOST_BYTES, ForeignError, history, recognise
from mulligan.taskstate.store import TaskStates

log = logging.getLogger(__name__)
BACKUP = "legacy-backup"
NAMESPACE = "legacy::"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class Found:
    """What stands in a project and what was taken over of it; `foreign` are (path, why it was left alone)."""

    imported: list[Imported]
    foreign: list[tuple[bytes, str]] = field(default_factory=list)


class LegacyImport:
    """Looks into projects; any thread."""

    def __init__(self, states: TaskStates, data_dir: str, config: Callable[[], Config], now: Callable[[], int]) -> None:
        self._states, self._data_dir, self._config, self._now = states, data_dir, config, now
        self._lock = threading.Lock()

    def begin(self, root: bytes) -> None:
        """Take over what a project has, when it begins to be watched; what goes wrong is logged."""
        try:
            for path, reason in self.look(root).foreign:
                log.info("%s is left alone: %s", os.fsdecode(path), reason)
        except MulliganError as error:
            log.warning("%s: older task state is not taken over: %s", os.fsdecode(root), error.message)

    def look(self, root: bytes) -> Found:
        """What a project has and had; what is there for the first time is taken over, unless that is turned off."""
        with self._lock:  # who asks for the report may come while a project begins to be watched
            return self._look(root)

    def _look(self, root: bytes) -> Found:
        found = Found(imports(self._states.database, root))
        path = os.path.join(root, DIRECTORY, FILE)
        source = path.decode("utf-8", "replace")
        try:
            data = _read(root, FILE)
            if data is None:
                return found
            state = recognise(data)
            if any(one.source == source for one in found.imported):
                return found  # what was written since then is 1.x going on, and its own
            if self._config().legacy_import == "off":
                found.foreign.append((path, "legacy_import is off"))
                return found
        except ForeignError as error:
            found.foreign.append((path, str(error)))
            return found
        self._back_up(state.hash, FILE, data)
        self._back_up_history(root, state.hash)
        name = NAMESPACE + root.decode("utf-8", "replace")
        if keep_import(self._states.database, root, name, source, state.hash, state.value, self._now()):
            log.info("%s: the task state of checkpoint-orchestrator 1.x is now %s", os.fsdecode(root), name)
        return Found(imports(self._states.database, root), found.foreign)

    def erase(self, root: bytes) -> None:
        """Remove the copies of what was imported for a project; whose turn it is to forget the rest comes after."""
        for one in imports(self._states.database, root):
            shutil.rmtree(self._place(one.hash), ignore_errors=True)

    def _place(self, digest: str) -> str:
        return os.path.join(self._data_dir, BACKUP, digest[:16])

    def _back_up_history(self, root: bytes, digest: str) -> None:
        """The older states beside it, if they are that plugin's: kept as they are, for whoever misses one."""
        try:
            data = _read(root, HISTORY)
            if data is not None:
                history(data)
                self._back_up(digest, HISTORY, data)
        except ForeignError as error:
            log.info("%s is left alone: %s", os.fsdecode(os.path.join(root, DIRECTORY, HISTORY)), error)

    def _back_up(self, digest: str, name: bytes, data: bytes) -> None:
        directory = self._place(digest)
        try:
            make_private_directory(directory)
            write_file(os.path.join(directory, os.fsdecode(name)), data)
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            raise MulliganError(f"{directory} cannot be written: {reason}", hint="make room") from error


def _read(root: bytes, name: bytes) -> bytes | None:
    """A file of the plugin's; None if there is none. Raises ForeignError for what is no plain file of its size."""
    try:
        root_fd = open_root(root)
        try:
            directory = open_directory(root_fd, DIRECTORY)
        finally:
            os.close(root_fd)
        try:
            fd = os.open(name, _READ, dir_fd=directory)
        finally:
            os.close(directory)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ForeignError(f"it cannot be read: {os.strerror(error.errno or 0).lower()}") from error
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise ForeignError("it is no plain file")
        if status.st_size > MOST_BYTES:
            raise ForeignError(f"it is larger than {MOST_BYTES >> 20} MiB")
        return file.read(MOST_BYTES + 1)
