"""Where the transcripts are, whose they are, and which clients are alive.

Below a configuration directory: `projects/<slug>/<session>.jsonl` is a session; a subagent's file is, by the client's
version, `projects/<slug>/agent-*.jsonl` or anything named so below `projects/<slug>/<session>/subagents/`. Everything
else there (tool results, caches, replaced files) is not a transcript. The slug cannot be turned back into a path:
where a session works is said by its lines alone.

The index of gigabytes of old transcripts costs one stat a file. A directory that cannot be read counts as empty.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from mulligan.transcript.kept import SESSION
from mulligan.transcript.parse import parse_line

#: Ids of Claude Code's sessions, as they stand in file names.
UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_MAIN = re.compile(rf"projects/([^/]+)/({UUID})\.jsonl")
_KEPT = re.compile(rf"projects/([^/]+)/({SESSION})\.jsonl")
_BESIDE = re.compile(r"projects/([^/]+)/agent-([\w-]+)\.jsonl")
_BELOW = re.compile(rf"projects/([^/]+)/({UUID})/subagents/(?:[^/]+/)*agent-([\w-]+)\.jsonl")
#: How far the first lines of a file are read to learn its session and directory.
HEAD = 64 * 1024
_DEEPEST = 4
#: Names of transcript directories that are longer are cut, by clients from 2.1 on.
_LONGEST_SLUG = 200


class Transcript(msgspec.Struct, frozen=True):
    """A transcript file. `session` is empty for a subagent's file that only its lines can place; see `read_head`.

    `kept`: not an agent's, but what this daemon was told (see `transcript/kept.py`).
    """

    path: str
    session: str
    agent: str = ""
    kept: bool = False


class Found(msgspec.Struct, frozen=True):
    """A transcript and its stat when it was found."""

    transcript: Transcript
    status: os.stat_result


class Head(msgspec.Struct, frozen=True):
    """What the first lines of a file say; each is empty if they do not."""

    session: str = ""
    cwd: str = ""


class LiveClient(msgspec.Struct, frozen=True):
    """A client that is running now. `status` is "busy", "idle" or empty (older clients do not say)."""

    pid: int
    session: str
    cwd: str
    status: str = ""


def slug(directory: str) -> str:
    """The name of the transcripts' directory for sessions in a working directory without links in its path.

    Everything but ASCII letters and digits becomes "-", by UTF-16 units; a long name ends in a hash instead.
    """
    coded = directory.encode("utf-16-le", "surrogatepass")
    units = [coded[index] | coded[index + 1] << 8 for index in range(0, len(coded), 2)]
    name = "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)
    if len(name) <= _LONGEST_SLUG:
        return name
    number = 0
    for unit in units:
        number = (31 * number + unit) & 0xFFFFFFFF
    number = abs(number - (1 << 32) if number >> 31 else number)
    digits = "" if number else "0"
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"{name[:_LONGEST_SLUG]}-{digits}"


def recognise(path: str, config_dir: str) -> Transcript | None:
    """What a file below a configuration directory is, by its name alone."""
    name = os.path.relpath(path, config_dir)
    if found := _MAIN.fullmatch(name):
        return Transcript(path, session=found[2])
    if found := _KEPT.fullmatch(name):
        return Transcript(path, session=found[2], kept=True)
    if found := _BELOW.fullmatch(name):
        return Transcript(path, session=found[2], agent=found[3])
    if found := _BESIDE.fullmatch(name):
        return Transcript(path, session="", agent=found[2])
    return None


def distinct(config_dirs: Iterable[str]) -> list[str]:
    """The directories that exist, each once although it may be named twice (a link, a trailing slash)."""
    found: dict[str, str] = {}
    for path in config_dirs:
        if os.path.isdir(path):
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def find_transcripts(config_dirs: Iterable[str]) -> Iterator[Found]:
    """All transcripts, oldest change first within a project, main files before subagents' of the same age.

    The order matters to whoever reads them for the first time: a fork's file copies lines of an older one.
    """
    for config_dir in distinct(config_dirs):
        for project in _entries(os.path.join(config_dir, "projects")):
            if not project.is_dir():
                continue
            found = []
            for path in _files(project.path, _DEEPEST):
                transcript = recognise(path, config_dir)
                try:
                    status = os.stat(path) if transcript else None
                except OSError:
                    continue
                if transcript and status:
                    found.append(Found(transcript, status))
            yield from sorted(
                found, key=lambda one: (one.status.st_mtime_ns, one.transcript.agent, one.transcript.path)
            )


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _files(path: str, deepest: int) -> Iterator[str]:
    """Names ending in .jsonl, not through links: a project's directory links nowhere else."""
    for entry in _entries(path):
        if entry.is_dir(follow_symlinks=False):
            if deepest > 0:
                yield from _files(entry.path, deepest - 1)
        elif entry.name.endswith(".jsonl") and entry.is_file():
            yield entry.path


def read_head(path: str) -> Head:
    """The session and the first working directory that a file's first 64 KiB name; an unreadable file names none."""
    try:
        with open(path, "rb") as file:
            data = file.read(HEAD)
    except OSError:
        return Head()
    session = cwd = ""
    for line in data.split(b"\n"):
        said_session, said_cwd = _said(line)
        session, cwd = session or said_session, cwd or said_cwd
        if session and cwd:
            break
    return Head(session, cwd)


class _Said(msgspec.Struct):
    session: str = msgspec.field(default="", name="sessionId")
    cwd: str = ""


def _said(line: bytes) -> tuple[str, str]:
    try:
        said = msgspec.json.decode(line, type=_Said)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _said_by_events(line)
    return said.session, said.cwd if said.cwd.startswith("/") else ""


def _said_by_events(line: bytes) -> tuple[str, str]:
    for event in parse_line(line).events:
        return event.session, event.cwd
    return "", ""


class _ClientFile(msgspec.Struct, rename="camel"):
    pid: int
    session_id: str = ""
    cwd: str = ""
    status: str = ""


def process_lives(pid: int) -> bool:
    """Whether a process of this number exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return pid < 2**31
    return True


def live_clients(config_dirs: Iterable[str], alive: Callable[[int], bool] = process_lives) -> list[LiveClient]:
    """The clients that say they run and do; a file that a killed client left behind is passed over."""
    clients = []
    for config_dir in distinct(config_dirs):
        for entry in _entries(os.path.join(config_dir, "sessions")):
            stem, extension = os.path.splitext(entry.name)
            if extension != ".json" or not stem.isdigit():
                continue
            try:
                with open(entry.path, "rb") as file:
                    said = msgspec.json.decode(file.read(HEAD), type=_ClientFile)
            except (OSError, msgspec.DecodeError, ValueError, RecursionError):
                continue
            if said.pid > 0 and said.cwd.startswith("/") and said.session_id and alive(said.pid):
                clients.append(LiveClient(said.pid, said.session_id, said.cwd, said.status))
    return clients
