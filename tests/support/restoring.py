"""Trees on disk for the tests of restoring: built from entries, and scanned by means that the product does not use."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from mulligan.errors import IntegrityError
from mulligan.model import ABSENT, Entry, Kind
from mulligan.restore.apply import apply
from mulligan.restore.plan import Change, Outcome, Plan, make_plan
from mulligan.restore.run import Stager

Listing = dict[bytes, Entry]


class MemoryContents:
    """A store in a dictionary; it also stands in for the capture of displaced versions."""

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {}
        self.captured: list[tuple[bytes, Entry]] = []

    def add(self, data: bytes) -> bytes:
        digest = hashlib.sha256(data).digest()
        self.data[digest] = data
        return digest

    def read(self, hash: bytes) -> bytes:
        data = self.data.get(hash)
        if data is None or hashlib.sha256(data).digest() != hash:
            raise IntegrityError("damaged")
        return data

    def chunks(self, hash: bytes) -> Iterator[bytes]:
        data = self.data.get(hash, b"")
        for start in range(0, len(data), 1 << 20):
            yield data[start : start + (1 << 20)]
        if hashlib.sha256(data).digest() != hash:
            raise IntegrityError("damaged")

    def capture(self, path: bytes, fd: int | None, found: Entry) -> Entry:
        if fd is not None:
            data = Path(f"/dev/fd/{fd}").read_bytes()
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            found = Entry(Kind.FILE, mode, len(data), self.add(data))
        self.captured.append((path, found))
        return found


class RecordingLog:
    """The operation log: what was called."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.is_staged = False

    def begin(self, plan: Plan) -> None:
        self.plan = plan

    def staged(self) -> None:
        self.is_staged = True


def file(contents: MemoryContents, data: bytes, mode: int = 0o644) -> Entry:
    """The entry of a file whose bytes the store has."""
    return Entry(Kind.FILE, mode, len(data), contents.add(data))


def link(target: bytes) -> Entry:
    return Entry(Kind.LINK, 0o777, target=target)


def directory(mode: int = 0o755) -> Entry:
    return Entry(Kind.DIR, mode)


def build(root: Path, listing: Listing, contents: MemoryContents) -> None:
    """Make an empty directory hold a listing."""
    root.mkdir(exist_ok=True)
    top = os.fsencode(root)
    for path, entry in sorted(listing.items()):
        place = os.path.join(top, path)
        if entry.kind == Kind.DIR:
            os.mkdir(place, 0o700)
        elif entry.kind == Kind.LINK:
            os.symlink(entry.target, place)
        else:
            with open(place, "wb") as stream:
                stream.write(contents.data[entry.hash])
            os.chmod(place, entry.mode)
    for path, entry in sorted(listing.items(), reverse=True):
        if entry.kind == Kind.DIR:
            os.chmod(os.path.join(top, path), entry.mode)


def scan(root: Path, contents: MemoryContents | None = None) -> Listing:
    """What is below a directory; the bytes go into the store if one is given."""
    top = os.fsencode(root)
    listing: Listing = {}
    for above, directories, files in os.walk(top):
        for name in directories + files:
            place = os.path.join(above, name)
            path = os.path.relpath(place, top)
            mode = os.lstat(place).st_mode
            if stat.S_ISLNK(mode):
                listing[path] = link(os.readlink(place))
            elif stat.S_ISDIR(mode):
                listing[path] = directory(stat.S_IMODE(mode))
            elif stat.S_ISREG(mode):
                with open(place, "rb") as stream:
                    data = stream.read()
                if contents is not None:
                    contents.add(data)
                listing[path] = Entry(Kind.FILE, stat.S_IMODE(mode), len(data), hashlib.sha256(data).digest())
            else:
                listing[path] = Entry(Kind.SPECIAL, stat.S_IMODE(mode), reason="fifo")
    return listing


def changes(live: Listing, target: Listing) -> list[Change]:
    """What has to change so that `live` becomes `target`; both are complete."""
    return [
        Change(path, target.get(path, ABSENT), live.get(path, ABSENT)) for path in sorted(live.keys() | target.keys())
    ]


class Bench:
    """A project directory beside a store: plans and applies against it."""

    def __init__(self, base: Path) -> None:
        self.root = base / "project"
        self.staging = base / "staging"
        self.contents = MemoryContents()
        self.root.mkdir()
        self.staging.mkdir(mode=0o700)
        self.operations = 0
        self.stager: Stager | None = None

    def build(self, listing: Listing) -> None:
        build(self.root, listing, self.contents)

    def scan(self) -> Listing:
        return scan(self.root, self.contents)

    def plan(self, target: Listing, live: Listing | None = None) -> Plan:
        return make_plan(changes(self.scan() if live is None else live, target))

    def apply(
        self, plan: Plan, *, force: bool = False, staging: bool = True, log: RecordingLog | None = None
    ) -> Outcome:
        self.operations += 1
        return apply(
            os.fsencode(self.root),
            plan,
            self.contents,
            operation=f"op{self.operations}",
            staging=os.fsencode(self.staging) if staging else None,
            log=log or RecordingLog(),
            capture=self.contents.capture,
            force=force,
            stager=self.stager,
        )

    def restore(self, target: Listing, *, force: bool = False) -> Outcome:
        return self.apply(self.plan(target), force=force)

    def leftovers(self) -> list[str]:
        """What an operation left in its places."""
        inside = [name for name in os.listdir(self.root) if name.startswith(".mulligan-")]
        return os.listdir(self.staging) + inside
