"""Verifying: every stored content is read and checked, and every checkpoint's needs are held against what is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mulligan.errors import MulliganError
from mulligan.store.catalogue import Catalogue
from mulligan.store.contents import Contents
from mulligan.store.replay import decode
from mulligan.store.segments import (
    RECORD_HEADER_SIZE,
    SEGMENT_HEADER_SIZE,
    RecordKind,
    SegmentKind,
    read_record,
    read_segment_kind,
    segment_numbers,
    segment_path,
    unpack_header,
)


@dataclass(slots=True)
class Report:
    """What a verification found: `damaged` are (hash, reason), `paths` (project, path, hash) of rows that need them.

    A place where the log itself is broken is `damaged` with the hash "": the catalogue could not be made from it again.
    """

    contents: int = 0
    size: int = 0
    damaged: list[tuple[str, str]] = field(default_factory=list)
    paths: list[tuple[int, bytes, str]] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether everything is there and is what it says."""
        return not self.damaged and not self.paths


def verify(
    catalogue: Catalogue, contents: Contents, progress: Callable[[int, int], None] = lambda _a, _b: None
) -> Report:
    """Check every content of the store, every reference of a row to one, and the log. Only reads."""
    report = Report()
    report.damaged += [("", reason) for reason in broken_log(contents.directory, catalogue)]
    (total,) = catalogue.db.execute("select count(*) from content").fetchone()
    bad: set[bytes] = set()
    for place in catalogue.places():
        report.contents += 1
        report.size += place.size
        reason = contents.check(place)
        if reason:
            bad.add(place.hash)
            report.damaged.append((place.hash.hex(), reason))
        if report.contents % 500 == 0:
            progress(report.contents, total)
    missing = "select r.project, p.dir, p.name, r.hash from row r join path p on p.id = r.path where r.kind = 1"
    for project, directory, name, digest in catalogue.db.execute(
        f"{missing} and not exists (select 1 from content c where c.hash = r.hash)"
    ):
        report.paths.append((project, directory + b"/" * bool(directory) + name, digest.hex()))
    for digest in bad:
        for project, directory, name, _ in catalogue.db.execute(f"{missing} and r.hash = ?", (digest,)):
            report.paths.append((project, directory + b"/" * bool(directory) + name, digest.hex()))
    return report


def broken_log(directory: str, catalogue: Catalogue) -> Iterator[str]:
    """What keeps the log up to the catalogue's watermark from being folded again, in words."""
    # in one look: the log goes on meanwhile
    last, end, known = catalogue.watermark()
    number = 0
    for segment in segment_numbers(directory):
        path = segment_path(directory, segment)
        if segment > last or os.path.getsize(path) < SEGMENT_HEADER_SIZE:
            continue
        try:
            if read_segment_kind(directory, segment) != SegmentKind.LOG:
                continue
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (MulliganError, OSError) as error:
            yield str(error)
            continue
        try:
            for batch in _batches(fd, end if segment == last else os.fstat(fd).st_size):
                if number and batch > number + 1:  # the first ones may be in a snapshot alone
                    yield f"segment {segment}: batch {number + 1} is missing before batch {batch}"
                number = batch
        except (MulliganError, OSError) as error:
            yield f"segment {segment}: {error}"
        finally:
            os.close(fd)
    if number < known:
        yield f"the log ends at batch {number}, the catalogue at {known}"


def _batches(fd: int, end: int) -> Iterator[int]:
    """The numbers of the batches before `end`; contents are passed over. Ends at the first record that is none."""
    offset = SEGMENT_HEADER_SIZE
    while offset < end:
        header = unpack_header(os.pread(fd, RECORD_HEADER_SIZE, offset))
        if header is None:
            return
        if header.kind == RecordKind.BATCH:
            found = read_record(fd, offset)
            if found is None:
                return
            yield decode(found).number
        offset += RECORD_HEADER_SIZE + header.stored
