"""Writing the transcripts that are kept here; reading them is the follower's.

What was appended survives the end of the daemon, not of the machine: agents do not sync their transcripts either.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterable

from mulligan.clock import NANOSECONDS, Clock
from mulligan.errors import BusyError
from mulligan.faults import point
from mulligan.store.atomic import make_private_directory, write_all
from mulligan.transcript.events import TranscriptEvent
from mulligan.transcript.kept import SESSION, kept_lines

#: A session that was silent for so long is in the catalogue as a whole.
_OLD = 30 * 24 * 3600 * NANOSECONDS


class UnkeptError(BusyError):
    """Something could not be kept, and is to be told again later."""


class KeptTranscripts:
    """The files of one directory, which lies in the data directory. Any thread."""

    def __init__(self, data_dir: str, clock: Clock) -> None:
        self.directory = os.path.join(data_dir, "opencode")
        self._files = os.path.join(self.directory, "projects", "kept")
        self._clock, self._lock = clock, threading.Lock()

    def open(self) -> None:
        """Make the directory, 0700."""
        make_private_directory(self._files)

    def append(self, session: str, events: Iterable[TranscriptEvent]) -> None:
        """Append what a session did: all of it, or UnkeptError and nothing. `session` is judged already."""
        data = kept_lines(events)
        if data:
            try:
                self._append(os.path.join(self._files, f"{session}.jsonl"), data)
            except OSError as error:
                raise UnkeptError(f"what was told cannot be kept: {error}", hint="it is told again") from error

    def _append(self, path: str, data: bytes) -> None:
        with self._lock:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(path, flags, 0o600)
            try:
                end = os.fstat(descriptor).st_size
                try:
                    point("kept.append")
                    write_all(descriptor, data)
                except OSError:
                    os.ftruncate(descriptor, end)
                    raise
            finally:
                os.close(descriptor)

    def erase(self, sessions: Iterable[str]) -> None:
        """Remove the files of some sessions, if there are any."""
        for session in sessions:
            if re.fullmatch(SESSION, session):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._files, f"{session}.jsonl"))

    def sweep(self) -> None:
        """Remove the files of sessions that were silent for a month."""
        before = self._clock.now() - self._clock.correction - _OLD
        with contextlib.suppress(OSError), os.scandir(self._files) as entries:
            for entry in entries:
                if entry.stat(follow_symlinks=False).st_mtime_ns < before:
                    os.unlink(entry.path)
