"""Verifying a store: all contents or some by chance, and what the journal needs of what is damaged."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from mulligan.errors import IntegrityError
from mulligan.store.catalogue import Catalogue
from mulligan.store.checking import Findings, Harm, Question, Structure, check, harm_of
from mulligan.store.contents import Contents
from mulligan.store.encoding import Encoding
from mulligan.store.needs import stays

#: What a child looks at before it answers.
_SLICE_BYTES, _SLICE_CONTENTS = 256 << 20, 20_000
#: Of more checkpoints so many are chosen by chance: each costs the rows between it and now.
_CHECKPOINTS = 50

#: Answers a question, here or in a process of its own.
Look = Callable[[Question], Findings]


@dataclass(slots=True)
class Report:
    """What a verification looked at and found.

    `harms`: contents that are damaged, or that rows name and nobody stored. `paths`: (project, path, hash) of rows that
    need them. `log`, `digests`: as in `Findings`. `healed`: contents that were made whole again, and from what.
    """

    contents: int = 0
    size: int = 0
    total_contents: int = 0
    total_size: int = 0
    checkpoints: int = 0
    total_checkpoints: int = 0
    harms: dict[bytes, Harm] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    digests: list[tuple[int, str]] = field(default_factory=list)
    paths: list[tuple[int, bytes, str]] = field(default_factory=list)
    healed: dict[bytes, str] = field(default_factory=dict)

    @property
    def damaged(self) -> list[tuple[str, str]]:
        """(hash, reason); a place where the log itself is broken has the hash ""."""
        return [("", reason) for reason in self.log] + [(each.hash.hex(), each.reason) for each in self.harms.values()]

    @property
    def clean(self) -> bool:
        """Whether everything that was looked at is there and is what it says."""
        return not (self.harms or self.log or self.digests)

    def add(self, found: Findings) -> None:
        """Take in what was found in a part."""
        self.contents += found.contents
        self.size += found.size
        self.log += found.log
        self.digests += found.digests
        self.harms.update((harm.hash, harm) for harm in found.harms)
        for digest in found.missing:
            self.harms[digest] = Harm(digest, f"content {digest.hex()[:12]} is not in the store", digest)


def verify(
    catalogue: Catalogue,
    contents: Contents,
    progress: Callable[[int, int], None] = lambda _a, _b: None,
    *,
    share: float = 1.0,
    look: Look | None = None,
) -> Report:
    """Check contents, references, log and digests; of contents and checkpoints a share by chance, each as likely.

    What builds on a damaged content is found as well, chosen or not. Only reads.
    """
    look = look or (lambda question: check(question, catalogue, contents))
    directory = os.path.dirname(contents.directory)
    report = Report()
    query = "select count(*), coalesce(sum(size), 0) from content"
    report.total_contents, report.total_size = catalogue.db.execute(query).fetchone()
    structure = some_checkpoints(catalogue, share)
    report.checkpoints = len(structure.checkpoints)
    (report.total_checkpoints,) = catalogue.db.execute("select count(*) from checkpoint").fetchone()
    report.add(look(Question(directory, [], structure)))
    chosen = None if share >= 1 else _by_chance(catalogue, share)
    for numbers, _ in slices(catalogue, chosen=chosen):
        report.add(look(Question(directory, numbers)))
        progress(report.contents, report.total_contents if chosen is None else len(chosen))
    find_dependants(catalogue, contents, report.harms)
    report.paths = paths_of(catalogue, report.harms)
    return report


def some_checkpoints(catalogue: Catalogue, share: float = 1.0) -> Structure:
    """The structure with the checkpoints whose digests are looked at: a share by chance, and of all if they are few."""
    names = [name for (name,) in catalogue.db.execute("select id from checkpoint")]
    return Structure(random.sample(names, min(_part(len(names), share), _CHECKPOINTS)))


def _part(count: int, share: float) -> int:
    """A share of so many, at least one of some."""
    return max(1, round(count * share)) if count else 0


def _by_chance(catalogue: Catalogue, share: float) -> set[int]:
    numbers = [number for (number,) in catalogue.db.execute("select id from content")]
    return set(random.sample(numbers, _part(len(numbers), share)))


def slices(
    catalogue: Catalogue, after: int = 0, chosen: Collection[int] | None = None, most: int = _SLICE_BYTES
) -> Iterator[tuple[list[int], int]]:
    """(ids, bytes) of contents behind an id, in their order, as many at once as one question is to have."""
    numbers: list[int] = []
    size = 0
    query = "select id, size from content where id > ? order by id limit ?"
    while page := catalogue.db.execute(query, (after, _SLICE_CONTENTS)).fetchall():
        after = page[-1][0]
        for number, length in page:
            if chosen is not None and number not in chosen:
                continue
            numbers.append(number)
            size += length
            if size >= most or len(numbers) >= _SLICE_CONTENTS:
                yield numbers, size
                numbers, size = [], 0
    if numbers:
        yield numbers, size


def find_dependants(catalogue: Catalogue, contents: Contents, harms: dict[bytes, Harm]) -> None:
    """Add what builds on damaged contents: deltas, files in blocks. Costs nothing if there are none."""
    if not harms:
        return
    broken = {each.culprit for each in harms.values()}
    above = defaultdict(list)
    names: dict[int, bytes] = {}
    for number, digest, base in catalogue.db.execute("select id, hash, base from content where base != 0"):
        names[number] = digest
        above[base].append(number)
    waiting = [place.id for digest in broken if (place := catalogue.place(digest)) is not None]
    found: list[bytes] = []
    while waiting:
        number = waiting.pop()
        found += [names[number]] if number in names else []
        waiting += above.pop(number, ())
    broken.update(found)
    for (digest,) in catalogue.db.execute("select hash from content where encoding = ?", (Encoding.BLOCKS,)).fetchall():
        if _builds_on(contents, digest, broken):
            found.append(digest)
    for digest in found:
        if digest not in harms and (harm := harm_of(contents, digest)) is not None:
            harms[digest] = harm


def _builds_on(contents: Contents, digest: bytes, broken: set[bytes]) -> bool:
    """Whether one of the blocks of a file is broken, or the list of them cannot be read."""
    try:
        return not broken.isdisjoint(contents.blocks(digest))
    except IntegrityError:
        return True


def paths_of(catalogue: Catalogue, hashes: Collection[bytes]) -> list[tuple[int, bytes, str]]:
    """(project, path, hash) of what ever had one of these contents."""
    return sorted({(each.project, each.path, each.hash.hex()) for each in stays(catalogue, hashes)})
