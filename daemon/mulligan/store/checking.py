"""Looking at what is stored: contents against their hashes, the log, references, digests. Only reads.

Large stores are looked at by a niced process of its own, some contents at a time: `python -m mulligan.store.checking`
is asked a `Question`. It holds no lock, and may be killed at any moment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from mulligan import child
from mulligan.errors import IntegrityError, MulliganError
from mulligan.store.catalogue import NAME, Catalogue, connect
from mulligan.store.contents import Contents
from mulligan.store.continuity import broken_log
from mulligan.store.digest import ZERO_DIGEST, add_digest, entry_digest

_NICENESS = 15


class Structure(msgspec.Struct, frozen=True):
    """What to look at besides contents: the log, references, the digests of the live trees and of some checkpoints."""

    checkpoints: list[str]


class Question(msgspec.Struct, frozen=True):
    """Contents of a store, by their ids, and perhaps its structure."""

    directory: str
    contents: list[int]
    structure: Structure | None = None


class Harm(msgspec.Struct, frozen=True):
    """What is wrong with one content, in words; `culprit` is the content on whose bytes it fails, itself or another."""

    hash: bytes
    reason: str
    culprit: bytes


class Findings(msgspec.Struct):
    """What was looked at and found.

    `missing` are hashes that rows name and nobody stored, `log` says what keeps the log from being folded again,
    `digests` are (project, checkpoint or "" for the live tree) whose tree is not the one that was recorded.
    """

    contents: int = 0
    size: int = 0
    harms: list[Harm] = []
    missing: list[bytes] = []
    log: list[str] = []
    digests: list[tuple[int, str]] = []


def check(question: Question, catalogue: Catalogue, contents: Contents) -> Findings:
    """Answer a question in this process."""
    found = Findings()
    for number in question.contents:
        place = catalogue.place_by_id(number)
        if place is None:
            continue  # it left the store meanwhile
        found.contents += 1
        found.size += place.size
        if (harm := harm_of(contents, place.hash)) is not None:
            found.harms.append(harm)
    if question.structure is not None:
        found.log = broken_log(contents.directory, catalogue)
        found.missing = missing(catalogue)
        found.digests = list(wrong_digests(catalogue, question.structure.checkpoints))
    return found


def check_aside(question: Question) -> Findings:
    """Answer a question in a process of its own. Raises MulliganError if that dies."""
    try:
        return child.ask("mulligan.store.checking", question, Findings)
    except child.ChildError as error:
        raise MulliganError(f"the process that reads the store {error}", hint="try again") from error


def harm_of(contents: Contents, digest: bytes) -> Harm | None:
    """What is wrong with a content; None if its bytes are there and are what its hash says."""
    try:
        for _ in contents.chunks(digest):
            pass
    except IntegrityError as error:
        return Harm(digest, error.message, bytes.fromhex(error.data.get("hash", "")) or digest)
    return None


def missing(catalogue: Catalogue) -> list[bytes]:
    """The hashes that rows name and the store does not have."""
    query = "select distinct hash from row r where kind = 1 and not exists (select 1 from content where hash = r.hash)"
    return [digest for (digest,) in catalogue.db.execute(query)]


def wrong_digests(catalogue: Catalogue, checkpoints: Sequence[str]) -> Iterator[tuple[int, str]]:
    """(project, checkpoint) whose tree is not the one that was recorded; "" is the live tree. Walks every live tree."""
    catalogue.db.execute("begin")  # the trees and their digests, of one moment
    try:
        projects = {}
        for project in catalogue.projects():
            total = sum(entry_digest(live.path, live.entry) for live in catalogue.below(project.id, b"", there=True))
            digest = add_digest(ZERO_DIGEST, total)
            if digest != project.digest:
                yield project.id, ""
            # what is wrong with the live digest alone is no fault of the checkpoints
            projects[project.id] = replace(project, digest=digest)
        for name in checkpoints:
            made = catalogue.checkpoint(name)
            if made is not None and made.tree and catalogue.digest(projects[made.project], made.cut) != made.tree:
                yield made.project, made.id
    finally:
        catalogue.db.execute("rollback")


def main() -> int:
    """Answer one question."""
    question = child.question(Question, _NICENESS)
    catalogue = Catalogue(connect(os.path.join(question.directory, NAME)))
    contents = Contents(os.path.join(question.directory, "content_pool"), lambda: catalogue)
    child.answer(check(question, catalogue, contents))
    return 0


if __name__ == "__main__":
    sys.exit(main())
