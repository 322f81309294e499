"""Transcripts that a test writes line by line into a real daemon's configuration directory, as the client does."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from subprocess import Popen
from typing import Any
from weakref import WeakKeyDictionary

from support.daemon import DaemonFixture
from support.transcripts import Writer

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
#: Longer than the margins within which a change's own time is known.
APART = 0.04
_SILENT = '{"type": "summary"}'
#: How many silent lines a process was given: it counts them among those that it read.
_asked: WeakKeyDictionary[Popen[bytes], int] = WeakKeyDictionary()


def now() -> int:
    """The wall clock in nanoseconds."""
    return time.time_ns()


def stamp(moment: int) -> str:
    """A line's time: RFC 3339, cut to milliseconds."""
    seconds, rest = divmod(moment, SECOND)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{rest // MILLISECOND:03d}Z"


def slug(path: Path) -> str:
    """The name of a directory's transcripts, as the client makes it."""
    return re.sub("[^A-Za-z0-9]", "-", str(path))


class LiveTranscript(Writer):
    """A session's transcript. Lines bear the time at which they are made, or `at` if that is given.

    Making a line and writing it are apart, because the client writes late: `write` appends whole lines in one go.
    """

    def __init__(self, config_dir: Path, cwd: Path, session: str = "", version: str = "2.1.112") -> None:
        super().__init__(session or str(uuid.uuid4()), version, str(cwd))
        self.path = config_dir / "projects" / slug(cwd) / f"{self.session}.jsonl"

    def line(self, type_: str, **more: Any) -> dict[str, Any]:
        """A line of now, or of the moment `at`."""
        moment = more.pop("at", None) or now()
        return super().line(type_, **{"timestamp": stamp(moment), **more})

    def write(self, *lines: dict[str, Any] | bytes) -> None:
        """Append lines; bytes are appended as they are, without a newline."""
        coded = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, b"".join(coded))
        finally:
            os.close(fd)

    def prompt(self, text: str, at: int | None = None) -> dict[str, Any]:
        """Write a person's words; the line."""
        line = self.user(text, at=at)
        self.write(line)
        return line

    def put_call(self, path: Path, data: bytes, name: str = "Write") -> str:
        """A tool writes a file, and its lines follow as with a client that holds them back; the call's id."""
        tool = f"toolu_{uuid.uuid4().hex[:12]}"
        called = self.call(tool, name, input={"file_path": str(path)})
        replace(path, data)
        self.write(called, self.result(tool, told={"filePath": str(path)}))
        return tool

    def end_turn(self) -> None:
        """Write the model's last word."""
        self.write(self.end(f"msg_{uuid.uuid4().hex[:12]}"))


class LiveConversation(LiveTranscript):
    """A transcript whose lines follow each other, as those that a client resumes; `last` is set for a rewind."""

    def __init__(self, config_dir: Path, cwd: Path, session: str = "", version: str = "2.1.112") -> None:
        super().__init__(config_dir, cwd, session, version)
        self.last: str | None = None

    def line(self, type_: str, **more: Any) -> dict[str, Any]:
        """A line that follows the one before."""
        line = super().line(type_, **{"parentUuid": self.last, **more})
        self.last = line["uuid"]
        return line


class Agent(LiveTranscript):
    """Calls that are open for as long as a test wants."""

    def open(self, name: str, **arguments: Any) -> str:
        """A call begins; its line is written, as by clients that write it at once."""
        tool = f"toolu_{uuid.uuid4().hex[:12]}"
        self.write(self.call(tool, name, input=arguments))
        time.sleep(APART)
        return tool

    def close(self, tool: str, **more: Any) -> None:
        """Its result arrives."""
        time.sleep(APART)
        self.write(self.result(tool, **more))
        time.sleep(APART)

    def edit(self, path: Path, data: bytes) -> str:
        """A whole Edit of a file; its id."""
        tool = self.open("Edit", file_path=str(path))
        replace(path, data)
        self.close(tool, told={"filePath": str(path)})
        return tool


def replace(path: Path, data: bytes) -> None:
    """Write a file as the client's tools do: beside it, then renamed over it."""
    beside = path.with_name(f"{path.name}.tmp.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    beside.write_bytes(data)
    beside.rename(path)


def started(make: Callable[..., DaemonFixture]) -> DaemonFixture:
    """A running daemon whose agent has been used before: it need not wait for the directory of transcripts."""
    daemon = make(start=False)
    (daemon.claude_dir / "projects").mkdir(mode=0o700)
    return daemon.start()


def transcripts(daemon: DaemonFixture) -> dict[str, Any]:
    """What `daemon.status` says of the transcripts."""
    found: dict[str, Any] = daemon.call("daemon.status")["daemon"]["transcripts"]
    return found


def settle(daemon: DaemonFixture, project: Path, lines: int) -> None:
    """Wait until the daemon has read so many lines in its life and the project has executed what they caused."""
    assert daemon.process is not None
    lines += _asked.get(daemon.process, 0)
    daemon.until(lambda: transcripts(daemon)["lines"] >= lines, what=f"{lines} lines were not read")
    # a request is taken between two readings, so what was read has been given to the project by then
    daemon.call("message.track", project=project, session=str(uuid.uuid4()), line=_SILENT)
    _asked[daemon.process] = _asked.get(daemon.process, 0) + 1
    daemon.call("watch.sync", project=project)


def checkpoints(daemon: DaemonFixture, project: Path, *triggers: str, session: str = "") -> list[dict[str, Any]]:
    """The checkpoints of a project, oldest moment first, or those of some triggers or of a session."""
    found = daemon.call("checkpoint.list", project=project, **({"session": session} if session else {}))["checkpoints"]
    return [made for made in reversed(found) if not triggers or made["trigger"] in triggers]


def await_checkpoint(daemon: DaemonFixture, project: Path, trigger: str, count: int = 1) -> dict[str, Any]:
    """Wait for the `count`-th checkpoint of a trigger and return the newest; the project may not be there yet."""
    protected = str(project)

    def found() -> list[dict[str, Any]]:
        if all(item["path"] != protected for item in daemon.call("daemon.status")["projects"]):
            return []
        return checkpoints(daemon, project, trigger)

    daemon.until(lambda: len(found()) >= count, what=f"there are not {count} {trigger} checkpoints")
    return found()[-1]


def session_of(daemon: DaemonFixture, project: Path, session: str) -> dict[str, Any]:
    """The `session` object, once the daemon has recorded the session."""
    daemon.until(
        lambda: any(one["id"] == session for one in daemon.call("session.list", project=project)["sessions"]),
        what=f"session {session} is not known",
    )
    shown: dict[str, Any] = daemon.call("session.show", project=project, session=session)["session"]
    return shown
