"""Three versions of one path merged: kind, permissions, link and bytes each for themselves, text line by line. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from mulligan.journal import merge
from mulligan.model import Entry, Kind
from mulligan.restore.plan import same


class Clash(msgspec.Struct, frozen=True):
    """Two changes that cannot both be had."""

    reason: str
    marked: Entry | None = None


class Texts:
    """Contents by hash: the store's, and those that merging made (`made`)."""

    def __init__(self, read: Callable[[bytes], bytes]) -> None:
        self._read = read
        self.made: dict[bytes, bytes] = {}

    def read(self, digest: bytes) -> bytes:
        """The bytes of a content; what the store raises is raised."""
        return self.made[digest] if digest in self.made else self._read(digest)

    def add(self, data: bytes, mode: int) -> Entry:
        """A file of these bytes."""
        digest = hashlib.sha256(data).digest()
        self.made[digest] = data
        return Entry(Kind.FILE, mode, len(data), digest)


def merge_entries(
    base: Entry, ours: Entry, theirs: Entry, texts: Texts, labels: merge.Labels | None = None
) -> Entry | Clash:
    """`ours` with the change from `base` to `theirs`."""
    if same(base, theirs) or same(ours, theirs):
        return ours
    if same(base, ours):
        return theirs
    if base.kind == ours.kind == theirs.kind == Kind.FILE:
        return _merge_files(base, ours, theirs, texts, labels)
    if ours.kind == theirs.kind == Kind.DIR:
        return Clash("its permissions were changed since") if base.kind == Kind.DIR else ours
    if ours.kind == base.kind == Kind.DIR and theirs.kind == Kind.ABSENT:
        return theirs  # whether it is empty then is decided when all is known
    if ours.kind == Kind.ABSENT:
        return Clash("it was deleted since")
    if base.kind == Kind.ABSENT:
        return Clash("it was made again since")
    return Clash("it was changed since" if ours.kind == base.kind else "something else stands there since")


def _merge_files(base: Entry, ours: Entry, theirs: Entry, texts: Texts, labels: merge.Labels | None) -> Entry | Clash:
    if base.mode != ours.mode and theirs.mode not in (base.mode, ours.mode):
        return Clash("its permissions were changed since")
    mode = theirs.mode if base.mode == ours.mode else ours.mode
    if base.hash in (ours.hash, theirs.hash) or ours.hash == theirs.hash:
        return msgspec.structs.replace(theirs if base.hash == ours.hash else ours, mode=mode)
    if max(base.size, ours.size, theirs.size) > merge.SIZE_LIMIT:
        return Clash("it was changed since, and is too large to be merged")
    before, mine, other = (texts.read(entry.hash) for entry in (base, ours, theirs))
    if not all(merge.is_text(text) for text in (before, mine, other)):
        return Clash("it was changed since, and is binary")
    merged = merge.merge_texts(before, mine, other, labels)
    if len(merged.text) > merge.SIZE_LIMIT:
        return Clash("it was changed since, and is too large to be merged")
    made = texts.add(merged.text, mode)
    return Clash("the same lines, or lines beside them, were changed since", made) if merged.conflicts else made
