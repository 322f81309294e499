"""One ignore file: its patterns, in git's syntax and with git's meaning.

The regular expressions are dulwich's; what is added is speed. Nearly every name is decided by three look-ups (plain
names, suffixes, one expression for the rest) that say which patterns can have anything to do with it at all.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from dulwich.ignore import translate
from dulwich.wildmatch import MalformedPattern

from mulligan.model import RelPath

_WILD = frozenset(b"*?[\\")
#: To git, more than two stars between slashes are two.
_MANY_STARS = re.compile(rb"(?:\A|(?<=/))\*{3,}(?=/|\Z)")
_BOM = b"\xef\xbb\xbf"
#: A star, and what stands between it and the next star of the same name.
_STARRED = re.compile(rb"\[\^/\]\*((?:\\.|\[(?:\\.|[^\]\\])+\](?![*+?])|[^/\\\[(.*+?])+)(?=\[\^/\]\*)", re.DOTALL)
#: An ignore file beyond this size is cut: nobody writes such a thing, and it may be anything.
_SIZE_LIMIT = 4 << 20


class Expression:
    """A glob as something that matches; it is compiled when first asked, for most lines of most files never are."""

    __slots__ = ("_compiled", "_plain", "_source")

    def __init__(self, source: bytes, plain: bytes | None = None) -> None:
        self._source, self._plain = source, plain
        self._compiled: re.Pattern[bytes] | None = None

    def match(self, text: bytes) -> bool:
        """Whether it matches all of a text."""
        if self._plain is not None:
            return text == self._plain
        if self._compiled is None:
            self._compiled = re.compile(self._source)
        return self._compiled.match(text) is not None


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line. `name` matches a path's last name, `whole` the path from the file's directory on; None is no bar."""

    line: str
    negated: bool
    only_directories: bool
    name: Expression | None
    whole: Expression | None


def _lines(data: bytes) -> Iterator[bytes]:
    """The lines that hold a pattern, without what git takes off their ends."""
    for line in data.removeprefix(_BOM).split(b"\n"):
        if line and not line.startswith(b"#"):
            line = line.removesuffix(b"\r").partition(b"\0")[0]
            kept = line.rstrip(b" ")
            if kept != line and (len(kept) - len(kept.rstrip(b"\\"))) % 2:
                kept += b" "  # the backslash before it keeps one
            yield kept


def _regex(glob: bytes) -> bytes:
    """The regular expression of a glob. Raises MalformedPattern.

    Where stars follow one another in a name, each but the last takes the first place that fits and never another one:
    that finds the same, and without it a line such as `*a*a*a*a*b` takes time without end.
    """
    return _STARRED.sub(rb"(?>[^/]*?\1)", translate(glob))


def _parts(glob: bytes) -> tuple[bytes, bytes]:
    """What git compares literally, and the rest if that is a pattern of its own: `a**/b` is `a`, then `**/b`."""
    start = next((at for at, byte in enumerate(glob) if byte in _WILD), len(glob))
    literal, rest = glob[:start].removeprefix(b"/"), glob[start:]
    if b"/" in glob and literal and not literal.endswith(b"/") and rest.startswith(b"**"):
        rest = _MANY_STARS.sub(b"**", rest)
        return literal, b"**" if rest == b"**/*" else rest  # here a star may match nothing
    return b"", glob


def parse_pattern(line: bytes) -> tuple[Pattern, bytes | None] | None:
    """A pattern and the glob of its last name; None for what git never matches with anything."""
    glob = line
    negated = glob.startswith(b"!")
    if negated:
        glob = glob[1:]
    only_directories = glob.endswith(b"/")
    if only_directories:
        glob = glob[:-1]
    glob = _MANY_STARS.sub(b"**", glob)
    backslashes = len(glob) - len(glob.rstrip(b"\\"))
    if not glob.strip(b"/") or backslashes % 2:
        return None
    literal, rest = _parts(glob)
    try:
        if literal:
            source, last = b"(?ms)" + re.escape(literal) + _regex(b"/" + rest).removeprefix(b"(?ms)"), None
        else:
            source, last = _regex(glob), _last_name(glob)
        name = None if last is None else Expression(_regex(last), None if _WILD.intersection(last) else last)
    except MalformedPattern:
        return None
    whole = Expression(source) if b"/" in glob else None
    return Pattern(os.fsdecode(line), negated, only_directories, name, whole), last


def _last_name(glob: bytes) -> bytes | None:
    """The glob of the last name, where it can be cut off safely; None matches anything."""
    if b"/" not in glob:
        return glob
    if b"[" in glob or b"\\" in glob:
        return None  # a slash may stand inside a bracket
    last = glob.rpartition(b"/")[2]
    return None if last in (b"**", b"") else last


class PatternFile:
    """The patterns of one file, for everything below the directory `base`; `origin` is how people know the file.

    The file may lie above `base`: `way` leads from its directory down to `base`, and is empty or ends with a slash.
    """

    def __init__(self, data: bytes, base: RelPath, origin: str, way: bytes = b"") -> None:
        self.data, self.base, self.origin, self.way = data, base, origin, way
        self.cut = len(base) + 1 if base else 0
        self._names: set[bytes] = set()
        self._any = False
        patterns: list[Pattern] = []
        suffixes: list[bytes] = []
        expressions: list[bytes] = []
        for line in _lines(data):
            parsed = parse_pattern(line)
            if parsed is None:
                continue
            pattern, last = parsed
            patterns.append(pattern)
            if last is None:
                self._any = True
            elif not _WILD.intersection(last):
                self._names.add(last)
            elif last[:1] == b"*" and len(last) > 1 and not _WILD.intersection(last[1:]):
                suffixes.append(last[1:])
            else:
                expressions.append(_regex(last).removeprefix(b"(?ms)"))
        self._suffixes = tuple(suffixes)
        self._rest = re.compile(b"(?ms)(?:" + b"|".join(expressions) + b")") if expressions else None
        #: The last pattern that matches decides, so they are kept in this order.
        self.patterns = tuple(reversed(patterns))

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def within(self, path: bytes) -> bytes:
        """A path as it is from the file's own directory on."""
        return self.way + path[self.cut :]

    def leaves_out(self, path: bytes) -> bool | None:
        """What the file says of a directory, named from the file's own on; None: nothing."""
        for pattern in self.candidates(path.rpartition(b"/")[2]):
            if pattern.whole is None or pattern.whole.match(path):
                return not pattern.negated
        return None

    def candidates(self, name: bytes) -> list[Pattern]:
        """The patterns that may match a path with this last name, the deciding one first."""
        if not (
            self._any
            or name in self._names
            or name.endswith(self._suffixes)
            or (self._rest is not None and self._rest.match(name))
        ):
            return []
        return [pattern for pattern in self.patterns if pattern.name is None or pattern.name.match(name)]


def read_regular(path: bytes, limit: int = _SIZE_LIMIT, *, follow: bool = False) -> bytes | None:
    """The beginning of a regular file, or None: links are not followed, and a FIFO of that name blocks nobody."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except OSError:
        return None
    try:
        return os.read(fd, limit) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(fd)
