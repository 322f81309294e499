"""What differs between two trees, as counts for a list and as a patch that applies. Pure: contents come by `read`.

A diff is made of `Change`s: a path with what stood there and what stands there. Two trees that hold the same paths
with other kinds differ by a deletion and an addition. What is unknown on a side is neither: it is listed as unseen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from mulligan.journal import patch
from mulligan.journal.lines import split_lines
from mulligan.journal.renames import Rename, find_renames
from mulligan.model import Entry, Kind, RelPath

#: Files with more bytes than this on a side are counted and not shown.
SIZE_LIMIT = 4 << 20
#: A file is binary if a zero byte is among its first ones, as for git.
BINARY_PROBE = 8000

Read = Callable[[bytes], bytes]
Status = Literal["added", "modified", "deleted", "renamed"]
_TYPE_BITS = {Kind.FILE: 0o100000, Kind.LINK: 0o120000, Kind.DIR: 0o040000}


class Change(msgspec.Struct, frozen=True):
    """A path and its two entries; None is the same as absent."""

    path: RelPath
    old: Entry | None
    new: Entry | None


class Options(msgspec.Struct, frozen=True):
    """How to compare: lines of context, white space as ``git diff -w``, bytes of the largest text that is compared."""

    context: int = 3
    ignore_whitespace: bool = False
    size_limit: int = SIZE_LIMIT
    renames: bool = True


class FileDiff(msgspec.Struct, frozen=True, kw_only=True):
    """One file or link. `path` is the new name; `renamed_from` and `similarity` (per cent) are a rename's.

    Modes are octal with git's type bits and all permission bits ("100600"); both are set only if they differ, and one
    of them if the file is new or gone. The patch itself shows git's two modes alone, so a change of other bits has an
    empty `diff`. `too_large`: not compared; its counts leave the order of lines aside.
    """

    path: RelPath
    status: Status
    additions: int = 0
    deletions: int = 0
    diff: bytes = b""
    binary: bool = False
    too_large: bool = False
    old_mode: str | None = None
    new_mode: str | None = None
    renamed_from: RelPath | None = None
    similarity: int | None = None


class DirectoryDiff(msgspec.Struct, frozen=True, kw_only=True):
    """A directory that came, went or changed its permissions: real here, unknown to git, so in no patch."""

    path: RelPath
    status: Status
    old_mode: str | None = None
    new_mode: str | None = None


class Unseen(msgspec.Struct, frozen=True):
    """A path of which one side is not known, or is special and has no content; `reason` says which."""

    path: RelPath
    reason: str


class TreeDiff(msgspec.Struct, frozen=True):
    """All that differs, by path; at one path the deletion stands before the addition."""

    files: list[FileDiff]
    directories: list[DirectoryDiff]
    unseen: list[Unseen]

    def patch(self) -> bytes:
        """The whole patch."""
        return b"".join(file.diff for file in self.files)


class _Pair(msgspec.Struct, frozen=True):
    """Two sides of one file; a rename has two paths."""

    old_path: RelPath
    new_path: RelPath
    old: Entry | None
    new: Entry | None
    similarity: int | None = None


def diff_trees(changes: Iterable[Change], read: Read, options: Options | None = None) -> TreeDiff:
    """Compare. Equal entries are left out; `read` gives the bytes of a hash, and what it raises is raised."""
    options = options or Options()
    gone: dict[RelPath, Entry] = {}
    come: dict[RelPath, Entry] = {}
    pairs: list[_Pair] = []
    directories: list[DirectoryDiff] = []
    unseen: list[Unseen] = []
    for change in changes:
        old, new = _present(change.old), _present(change.new)
        if old == new:
            continue
        if hidden := _hidden(old) or _hidden(new):
            unseen.append(Unseen(change.path, hidden))
            continue
        directories += _directory(change.path, old, new)
        old, new = _content(old), _content(new)
        if old is not None and new is not None and old.kind is new.kind:
            pairs.append(_Pair(change.path, change.path, old, new))
            continue
        if old is not None:
            gone[change.path] = old
        if new is not None:
            come[change.path] = new
    for rename in find_renames(list(gone.items()), list(come.items()), read) if options.renames else []:
        pairs.append(_renamed(rename, gone.pop(rename.old), come.pop(rename.new)))
    pairs += [_Pair(path, path, entry, None) for path, entry in gone.items()]
    pairs += [_Pair(path, path, None, entry) for path, entry in come.items()]
    pairs.sort(key=lambda pair: (pair.new_path, pair.new is not None))
    files = [found for pair in pairs if (found := _file(pair, read, options)) is not None]
    directories.sort(key=lambda directory: directory.path)
    unseen.sort(key=lambda item: item.path)
    return TreeDiff(files, directories, unseen)


def _present(entry: Entry | None) -> Entry | None:
    return None if entry is None or entry.kind is Kind.ABSENT else entry


def _hidden(entry: Entry | None) -> str:
    if entry is None or entry.there:
        return ""
    return entry.reason or ("special" if entry.kind is Kind.SPECIAL else "unknown")


def _content(entry: Entry | None) -> Entry | None:
    return None if entry is None or entry.kind is Kind.DIR else entry


def _directory(path: RelPath, old: Entry | None, new: Entry | None) -> list[DirectoryDiff]:
    old = old if old is not None and old.kind is Kind.DIR else None
    new = new if new is not None and new.kind is Kind.DIR else None
    if old is None and new is None:
        return []
    status: Status = "added" if old is None else "deleted" if new is None else "modified"
    old_mode, new_mode = _modes(old, new)
    return [DirectoryDiff(path=path, status=status, old_mode=old_mode, new_mode=new_mode)]


def _renamed(rename: Rename, old: Entry, new: Entry) -> _Pair:
    return _Pair(rename.old, rename.new, old, new, rename.similarity)


def _octal(entry: Entry) -> str:
    return f"{_TYPE_BITS[entry.kind] | (0 if entry.kind is Kind.LINK else entry.mode):06o}"


def _modes(old: Entry | None, new: Entry | None) -> tuple[str | None, str | None]:
    before = None if old is None else _octal(old)
    after = None if new is None else _octal(new)
    return (None, None) if before == after else (before, after)


def _file(pair: _Pair, read: Read, options: Options) -> FileDiff | None:
    """The diff of one pair; None if nothing is to be told, as for a change of white space that is ignored."""
    old, new = pair.old, pair.new
    old_mode, new_mode = _modes(old, new)
    body = _body(pair, read, options)
    renamed = pair.similarity is not None
    alone = not body.diff and not renamed
    head = patch.header(pair.old_path, pair.new_path, old, new, similarity=pair.similarity, alone=alone)
    whole = renamed or old is None or new is None
    git_sees = whole or (old is not None and new is not None and patch.git_mode(old) != patch.git_mode(new))
    if not body.diff and not whole and old_mode is None:
        return None
    return FileDiff(
        path=pair.new_path,
        status="renamed" if renamed else "added" if old is None else "deleted" if new is None else "modified",
        additions=body.additions,
        deletions=body.deletions,
        diff=head + body.diff if body.diff or git_sees else b"",
        binary=body.binary,
        too_large=body.too_large,
        old_mode=old_mode,
        new_mode=new_mode,
        renamed_from=pair.old_path if renamed else None,
        similarity=pair.similarity,
    )


class _Body(msgspec.Struct, frozen=True):
    diff: bytes = b""
    additions: int = 0
    deletions: int = 0
    binary: bool = False
    too_large: bool = False


def _body(pair: _Pair, read: Read, options: Options) -> _Body:
    old, new = pair.old, pair.new
    if old is not None and new is not None and (old.hash, old.target) == (new.hash, new.target):
        return _Body()
    a, b = _bytes(old, read), _bytes(new, read)
    old_path = None if old is None else pair.old_path
    new_path = None if new is None else pair.new_path
    if _binary(old, a) or _binary(new, b):
        return _Body(patch.binary_line(old_path, new_path), binary=True)
    if max(len(a), len(b)) > options.size_limit:
        before, after = Counter(split_lines(a)), Counter(split_lines(b))
        additions, deletions = (after - before).total(), (before - after).total()
        return _Body(patch.too_large_line(old_path, new_path), additions, deletions, too_large=True)
    found = patch.hunks(a, b, context=options.context, ignore_whitespace=options.ignore_whitespace)
    if not found.text:
        return _Body()
    return _Body(patch.file_lines(old_path, new_path) + found.text, found.additions, found.deletions)


def _bytes(entry: Entry | None, read: Read) -> bytes:
    if entry is None:
        return b""
    return entry.target if entry.kind is Kind.LINK else read(entry.hash)


def _binary(entry: Entry | None, data: bytes) -> bool:
    return entry is not None and entry.kind is Kind.FILE and b"\0" in data[:BINARY_PROBE]
