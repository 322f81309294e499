"""Stores for tests: small facts to write, what the catalogue holds, where the groups of a segment end."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mulligan import faults
from mulligan.model import ABSENT, Checkpoint, Entry, Kind, Row, Stat
from mulligan.store.catalogue import Project
from mulligan.store.encoding import Encoded, encode
from mulligan.store.log import Receipt
from mulligan.store.records import AnyFact, ProjectFact, RowsFact
from mulligan.store.segments import SEGMENT_HEADER_SIZE, RecordKind, scan, segment_path
from mulligan.store.store import Store

ROOT = b"/somewhere/project"


@contextmanager
def opened(directory: Path) -> Iterator[Store]:
    """An open store."""
    store = Store(str(directory))
    try:
        yield store
    finally:
        store.close()


@contextmanager
def armed(points: str) -> Iterator[None]:
    """Arm fault points in this process, as `MULLIGAN_FAULTS` would."""
    before = faults._armed
    faults._armed = faults._parse(points)
    faults._passes.clear()
    try:
        yield
    finally:
        faults._armed = before


def without_reserve(store: Store) -> None:
    """As on a disk that was full before."""
    (Path(store.pool) / "reserve").unlink()


def project_fact(number: int = 1, path: bytes = ROOT) -> ProjectFact:
    """A project that is watched."""
    return ProjectFact(number, path, "watching", 1, 2, 1, added=5)


def add_project(store: Store, number: int = 1, path: bytes = ROOT) -> Project:
    """Make a project."""
    store.log.append([project_fact(number, path)])
    return store.catalogue().project(number)


def checkpoint(**fields: Any) -> Checkpoint:
    """A checkpoint of project 1."""
    needed = {"id": "first", "ordinal": 1, "project": 1, "timestamp": 7, "created": 7, "seq": 0, "trigger": "manual"}
    return Checkpoint(**(needed | fields))


def file_entry(data: bytes, mode: int = 0o644) -> Entry:
    """The entry of a file."""
    return Entry(Kind.FILE, mode, len(data), encode(data).hash)


def row(path: bytes, entry: Entry = ABSENT, at: int = 0, since: int = 0, flags: int = 0) -> Row:
    """A row of one path."""
    return Row(path, entry, since or at, at, flags)


def rows_fact(*rows: Row, project: int = 1) -> RowsFact:
    """Rows with stats that say when they were seen."""
    return RowsFact(project, list(rows), [Stat(seen=each.at) for each in rows])


def write(
    store: Store, files: dict[bytes, bytes], *, project: int = 1, facts: tuple[AnyFact, ...] = (), flags: int = 0
) -> Receipt:
    """Commit versions of files, with their contents, in one submission."""
    now = store.clock.now()
    rows = [row(path, file_entry(data), now, flags=flags) for path, data in files.items()]
    contents: list[Encoded] = [encode(data) for data in dict.fromkeys(files.values())]
    return store.log.append([rows_fact(*rows, project=project), *facts], contents)


def read(store: Store, path: bytes, project: int = 1) -> bytes:
    """The bytes of the last version of a file."""
    live = store.catalogue().live(project, path)
    assert live is not None
    return store.contents.read(live.entry.hash)


def tables(path: Path | str) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that a catalogue holds."""
    connection = sqlite3.connect(path)
    try:
        names = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        return {name: sorted(connection.execute(f"select * from {name}"), key=repr) for name in names}
    finally:
        connection.close()


def pool(directory: Path) -> Path:
    """Where the segments lie."""
    return directory / "content_pool"


def segment(directory: Path, number: int = 1) -> Path:
    """A segment's file."""
    return Path(segment_path(str(pool(directory)), number))


def group_ends(path: Path) -> list[int]:
    """The offsets at which the groups of a log segment end, the first group's beginning before them."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return [SEGMENT_HEADER_SIZE] + [
            found.end for found in scan(fd, SEGMENT_HEADER_SIZE) if found.header.kind == RecordKind.BATCH
        ]
    finally:
        os.close(fd)


def forget_catalogue(directory: Path) -> None:
    """Throw the catalogue away."""
    for name in ("catalogue.db", "catalogue.db-wal", "catalogue.db-shm"):
        (directory / name).unlink(missing_ok=True)


def flip(path: Path, offset: int, bits: int = 0xFF) -> None:
    """Change one byte."""
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ bits]))


def damage_page(directory: Path, table: str) -> None:
    """Break the first page of a table of the catalogue, which nobody has open."""
    connection = sqlite3.connect(directory / "catalogue.db")
    (page,) = connection.execute("select rootpage from sqlite_master where name = ?", (table,)).fetchone()
    (size,) = connection.execute("pragma page_size").fetchone()
    connection.close()
    with (directory / "catalogue.db").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
