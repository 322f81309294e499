"""Verifying: every stored content is read and checked, and every checkpoint's needs are held against what is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mulligan.store.catalogue import Catalogue
from mulligan.store.contents import Contents
from mulligan.store.continuity import broken_log


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
