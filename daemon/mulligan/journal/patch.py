"""The text of a patch, byte for byte as ``git apply`` and ``patch -p1`` read it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mulligan.journal.lines import Edit, edits, split_lines
from mulligan.model import Entry, Kind, RelPath

_ESCAPES = {7: b"\\a", 8: b"\\b", 9: b"\\t", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
_PLAIN = bytes(byte for byte in range(0x20, 0x7F) if byte not in _ESCAPES)
#: The abbreviated object name of the empty file: patch(1) reads from it that a file is empty before or after.
_EMPTY, _NONE = b"e69de29", b"0000000"
_NO_NEWLINE = b"\\ No newline at end of file\n"
NOWHERE = b"/dev/null"


def quoted(name: bytes) -> bytes:
    """The name as git prints it: in C quotes if a control character, a quote, a backslash or a byte ≥ 0x80 is in it."""
    return _always_quoted(name) if name.translate(None, _PLAIN) else name


def _always_quoted(name: bytes) -> bytes:
    return b'"' + b"".join(_quoted_byte(byte) for byte in name) + b'"'


def _quoted_byte(byte: int) -> bytes:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return bytes([byte]) if 0x20 <= byte < 0x7F else b"\\%03o" % byte


def git_mode(entry: Entry) -> bytes:
    """The mode that git records: it knows links, and of a file's permissions the owner's x bit alone."""
    if entry.kind is Kind.LINK:
        return b"120000"
    return b"100755" if entry.mode & 0o100 else b"100644"


class Hunks(msgspec.Struct, frozen=True):
    """The body of a patch and its counted lines."""

    text: bytes
    additions: int
    deletions: int


def hunks(old: bytes, new: bytes, *, context: int = 3, ignore_whitespace: bool = False) -> Hunks:
    """The unified hunks between two texts; empty if they are equal.

    With `ignore_whitespace`, lines that differ in white space alone are equal and the new one is shown as context, so
    such a patch is for reading: it need not apply.
    """
    a, b = split_lines(old), split_lines(new)
    if ignore_whitespace:
        changes = edits([b"".join(line.split()) for line in a], [b"".join(line.split()) for line in b])
    else:
        changes = edits(a, b)
    parts: list[bytes] = []
    for group in _groups(changes, context):
        parts += _hunk(group, a, b, context)
    return Hunks(
        b"".join(parts),
        additions=sum(j1 - j0 for _, _, j0, j1 in changes),
        deletions=sum(i1 - i0 for i0, i1, _, _ in changes),
    )


def _groups(changes: list[Edit], context: int) -> Iterator[list[Edit]]:
    """Changes whose contexts touch belong to one hunk."""
    group: list[Edit] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * context:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _hunk(group: list[Edit], a: list[bytes], b: list[bytes], context: int) -> Iterator[bytes]:
    before = min(context, group[0][0])
    after = min(context, len(a) - group[-1][1])
    a0, b0 = group[0][0] - before, group[0][2] - before
    a1, b1 = group[-1][1] + after, group[-1][3] + after
    yield b"@@ -%s +%s @@\n" % (_span(a0, a1), _span(b0, b1))
    at = b0
    for i0, i1, j0, j1 in group:
        yield from _marked(b" ", b[at:j0])
        yield from _marked(b"-", a[i0:i1])
        yield from _marked(b"+", b[j0:j1])
        at = j1
    yield from _marked(b" ", b[at:b1])


def _span(start: int, end: int) -> bytes:
    """Line numbers count from 1; an empty range is named by the line before it."""
    count = end - start
    if count == 1:
        return b"%d" % (start + 1)
    return b"%d,%d" % (start + 1 if count else start, count)


def _marked(mark: bytes, lines: list[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield mark
        yield line
        if not line.endswith(b"\n"):
            yield b"\n" + _NO_NEWLINE


def header(
    old_path: RelPath,
    new_path: RelPath,
    old: Entry | None,
    new: Entry | None,
    *,
    similarity: int | None = None,
    alone: bool = False,
) -> bytes:
    """The extended header: which file, and what became of its mode and its name. `similarity` (per cent) = a rename.

    A header that stands `alone` is the only place of its names, and blanks in them mislead git 2.39 and patch(1) 2.7:
    there such names are quoted, which git itself does not do.
    """
    show = _always_quoted if alone and old_path.find(b" ") >= 0 else quoted
    lines = [b"diff --git %s %s" % (show(b"a/" + old_path), show(b"b/" + new_path))]
    if old is None and new is not None:
        lines.append(b"new file mode " + git_mode(new))
        if new.kind is Kind.FILE and not new.size:
            lines.append(b"index %s..%s" % (_NONE, _EMPTY))
    elif new is None and old is not None:
        lines.append(b"deleted file mode " + git_mode(old))
        if old.kind is Kind.FILE and not old.size:
            lines.append(b"index %s..%s" % (_EMPTY, _NONE))
    elif old is not None and new is not None and git_mode(old) != git_mode(new):
        lines += [b"old mode " + git_mode(old), b"new mode " + git_mode(new)]
    if similarity is not None:
        lines.append(b"similarity index %d%%" % similarity)
        lines += [b"rename from " + quoted(old_path), b"rename to " + quoted(new_path)]
    return b"\n".join(lines) + b"\n"


def file_lines(old_path: RelPath | None, new_path: RelPath | None) -> bytes:
    """The ``---`` and ``+++`` lines. A name with a blank ends in a tab: without it patch(1) would cut the name off."""
    return b"--- %s\n+++ %s\n" % (_side(b"a/", old_path), _side(b"b/", new_path))


def _side(prefix: bytes, path: RelPath | None) -> bytes:
    if path is None:
        return NOWHERE
    return quoted(prefix + path) + (b"\t" if path.find(b" ") >= 0 else b"")


def binary_line(old_path: RelPath | None, new_path: RelPath | None) -> bytes:
    """What stands in place of hunks when a side is binary; ``git apply`` refuses it, and nothing is half applied."""
    old = NOWHERE if old_path is None else quoted(b"a/" + old_path)
    new = NOWHERE if new_path is None else quoted(b"b/" + new_path)
    return b"Binary files %s and %s differ\n" % (old, new)


def too_large_line(old_path: RelPath | None, new_path: RelPath | None) -> bytes:
    """What stands in place of hunks when a side is over the limit."""
    old = NOWHERE if old_path is None else quoted(b"a/" + old_path)
    new = NOWHERE if new_path is None else quoted(b"b/" + new_path)
    return b"Files %s and %s differ (too large to compare line by line)\n" % (old, new)
