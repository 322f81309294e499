"""What git holds of a project's files: which contents, since when, and which paths it tracks. Read, never written.

Whoever asks reads a repository that git may be changing: what cannot be read counts as not held.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from mulligan.clock import NANOSECONDS
from mulligan.journal.gitinfo import common_directory, git_directory

#: Larger contents are not worth the reading.
LARGEST = 16 << 20
#: What reading a damaged file, or one that git is just replacing, may lead to.
_UNREADABLE = (OSError, ValueError, KeyError, IndexError, AssertionError, struct.error, zlib.error)


class GitStore:
    """The objects and the index of the repository that holds a project, if there is one; `close` gives it back."""

    def __init__(self, root: bytes) -> None:
        found = git_directory(os.path.abspath(root))
        self._top, self._directory = found if found is not None else (b"", b"")
        self._root = root
        self._objects: Any = None
        self._tracked: dict[bytes, bytes] | None = None

    def close(self) -> None:
        """Let go of the packs."""
        if self._objects is not None:
            self._objects.close()
            self._objects = None

    @property
    def there(self) -> bool:
        """Whether a repository holds the project."""
        return bool(self._directory)

    def held_since(self, data: bytes) -> int:
        """The moment (wall clock) since when git holds a content; 0 if it does not."""
        if not self.there:
            return 0
        name = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest().encode()
        try:
            return int(self._open().get_object_mtime(name) * NANOSECONDS)
        except KeyError:
            return self._in_alternates(name)
        except _UNREADABLE:
            return 0

    def _open(self) -> Any:
        if self._objects is None:
            from dulwich.object_store import DiskObjectStore  # noqa: PLC0415 - megabytes, and rarely needed

            self._objects = DiskObjectStore(os.fsdecode(os.path.join(common_directory(self._directory), b"objects")))
        return self._objects

    def versions(self, path: bytes, commits: Sequence[str], size: int) -> Iterator[bytes]:
        """What git holds of a path of the project, of a size: in its index, and in some commits (their names)."""
        if not self.there:
            return
        name = self._name(path)
        seen: set[bytes] = set()
        for blob in (self._index().get(name, b""), *(self._blob(commit, name) for commit in commits)):
            if not blob or blob in seen:
                continue
            seen.add(blob)
            try:
                found = self._open()[blob]
                if found.type_name == b"blob" and found.raw_length() == size:
                    yield found.as_raw_string()
            except _UNREADABLE:
                continue

    def _blob(self, commit: str, name: bytes) -> bytes:
        """The name of a path's blob in a commit, empty if there is none."""
        from dulwich.errors import FileFormatException, NotTreeError  # noqa: PLC0415 - as above
        from dulwich.object_store import tree_lookup_path  # noqa: PLC0415 - as above
        from dulwich.objects import SubmoduleEncountered  # noqa: PLC0415 - as above

        objects = self._open()
        try:
            return bytes(tree_lookup_path(objects.__getitem__, objects[commit.encode()].tree, name)[1])
        except (*_UNREADABLE, AttributeError, FileFormatException, NotTreeError, SubmoduleEncountered):
            return b""

    def _in_alternates(self, name: bytes) -> int:
        """What a repository borrows of others was there before it."""
        try:
            return int(any(name in other for other in self._objects.alternates))
        except _UNREADABLE:
            return 0

    def tracks(self, path: bytes) -> bool:
        """Whether the index lists a path of the project."""
        return self._name(path) in self._index()

    def _name(self, path: bytes) -> bytes:
        return os.path.relpath(os.path.join(self._root, path), self._top)

    def _index(self) -> dict[bytes, bytes]:
        if self._tracked is None:
            self._tracked = self._read_index()
        return self._tracked

    def _read_index(self) -> dict[bytes, bytes]:
        if not self.there:
            return {}
        from dulwich.errors import ChecksumMismatch  # noqa: PLC0415 - as above
        from dulwich.index import Index, UnsupportedIndexFormat  # noqa: PLC0415 - as above

        try:
            index = Index(os.fsdecode(os.path.join(self._directory, b"index")))
            return {name: getattr(index[name], "sha", b"") for name in index}  # a conflict has no one blob
        except (*_UNREADABLE, ChecksumMismatch, UnsupportedIndexFormat):
            return {}
