"""Reverts without a disk: versions of paths by hand, and what a revert would make of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mulligan.model import ABSENT, Entry, Kind, Stat
from mulligan.restore.revert import Reverted, Run, Track, Version, take_out
from mulligan.restore.three_way import Texts
from support.restoring import Listing, MemoryContents, file

Texty = bytes | Entry | None


class Paper:
    """A live tree in a dictionary, and the runs that are to be taken out of it."""

    def __init__(self) -> None:
        self.contents = MemoryContents()
        self.now: Listing = {}
        self.tracks: list[Track] = []
        self.texts = Texts(self.contents.read)

    def entry(self, value: Texty) -> Entry:
        """Bytes are a file of mode 0644, None is absent."""
        if isinstance(value, bytes):
            return file(self.contents, value)
        return ABSENT if value is None else value

    def change(self, path: bytes, *runs: tuple[Texty, Texty], now: Texty, place: bytes = b"", doubt: str = "") -> None:
        """A path with its runs (before, after), and what is there now, perhaps under another name."""
        place = place or path
        found = [
            Run(
                Version(self.entry(before), f"row:{number * 2}", path),
                Version(self.entry(after), f"row:{number * 2 + 1}", path),
                doubt,
            )
            for number, (before, after) in enumerate(runs)
        ]
        entry = self.entry(now)
        if entry.kind != Kind.ABSENT:
            self.now[place] = entry
        self.tracks.append(Track(path, found, Version(entry, "row:99", place)))

    # the surroundings

    def live(self, path: bytes) -> tuple[Entry, Stat | None]:
        return self.now.get(path, ABSENT), None

    def children(self, directory: bytes) -> Iterable[tuple[bytes, Entry]]:
        return [(path, entry) for path, entry in self.now.items() if path.rpartition(b"/")[0] == directory]

    def directory(self, path: bytes) -> Entry:
        return Entry(Kind.DIR, 0o750)

    def revert(self, *, mark: bool = False) -> Reverted:
        return take_out(self.tracks, self, self.texts, mark=mark, label="prompt:3")

    def result(self, *, mark: bool = False) -> dict[bytes, Texty]:
        """Path → what it becomes: the bytes of a file of mode 0644, another entry as it is, None for absent."""
        return {change.path: self.shown(change.target) for change in self.revert(mark=mark).changes}

    def shown(self, entry: Entry | None) -> Texty:
        assert entry is not None
        if entry.kind == Kind.FILE and entry.mode == 0o644:
            return self.texts.read(entry.hash)
        return None if entry.kind == Kind.ABSENT else entry


def conflicts(reverted: Reverted) -> dict[bytes, str]:
    """Path → reason."""
    return {conflict.path: conflict.reason for conflict in reverted.conflicts}


def lines(*words: Sequence[object] | object) -> bytes:
    """A text of one word a line."""
    return b"".join(b"%s\n" % str(word).encode() for word in words)
