r"""Patterns of whole paths, as git takes them where it takes paths: `*` stands for slashes, too.

`?` is one byte, `[a-c]`, `[!x]` and `[[:digit:]]` one of some, `\*` a star. Other than git's, `**/` stands for no
directory as well, as in ignore files, a bracket never for a slash, and a pattern that matches a directory means what is
below it. Everything is bytes.
"""

from __future__ import annotations

import re

from dulwich.wildmatch import MalformedPattern, translate_bracket_expression

from mulligan.errors import UsageError

_WILD = re.compile(rb"[*?\[]")
_STAR, _DIRECTORIES = rb".*", rb"(?:.*/)?"


def is_pattern(text: bytes) -> bool:
    """Whether something stands in a text that makes it a pattern."""
    return _WILD.search(text) is not None


def compile_pattern(pattern: bytes, below: bytes = b"") -> re.Pattern[bytes]:
    """What matches, from its beginning to its end, each path that a pattern stands for.

    `below` is a directory that stands before the pattern and is taken literally. Raises UsageError for a bracket
    that is not closed, or holds a class that nobody knows.
    """
    try:
        first, rest = _translate(pattern)
    except MalformedPattern:
        raise UsageError(
            f"{pattern.decode('utf-8', 'replace')}: a bracket in it is not closed, or holds an unknown class",
            hint="a backslash before a bracket takes it as it is",
        ) from None
    source = re.escape(below + b"/" if below else b"") + first
    for number, (star, literal) in enumerate(rest, 1):
        # What stands between two stars takes the first place that fits and never another one: that finds the same, and
        # without it a pattern such as `*a*a*a*a*b` takes time without end.
        source += star + literal if number == len(rest) else b"(?>" + _lazy(star) + literal + b")"
    return re.compile(source + rb"(?:/.*)?\Z", re.DOTALL)


def _lazy(star: bytes) -> bytes:
    return b".*?" if star == _STAR else b"(?:.*?/)??"


def _translate(pattern: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """What stands before the first star, and each star with what follows it, as regular expressions."""
    parts: list[tuple[bytes, bytes]] = [(b"", b"")]
    at = 0
    while at < len(pattern):
        byte = pattern[at : at + 1]
        if byte == b"*":
            end = at + len(pattern[at:]) - len(pattern[at:].lstrip(b"*"))
            whole = end - at > 1 and pattern[at - 1 : at] in (b"", b"/") and pattern[end : end + 1] == b"/"
            parts.append((_DIRECTORIES if whole else _STAR, b""))
            at = end + whole
            continue
        if byte == b"[":
            at, literal = translate_bracket_expression(pattern, at + 1)
        elif byte == b"\\" and at + 1 < len(pattern):
            at, literal = at + 2, re.escape(pattern[at + 1 : at + 2])
        else:
            at, literal = at + 1, b"." if byte == b"?" else re.escape(byte)
        star, before = parts[-1]
        parts[-1] = (star, before + literal)
    return parts[0][1], parts[1:]
