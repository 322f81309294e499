"""Patterns of paths: what they match, what they do not, and that none takes long."""

from __future__ import annotations

import time

import pytest

from mulligan.errors import UsageError
from mulligan.journal.pathspec import compile_pattern, is_pattern

PATHS = [
    b"a.py", b"src", b"src/a.py", b"src/x/b.py", b"src/x/y/c.py", b"b/f1", b"b/f12", b"star*", b"start",
    b"caf\xe9.py", b"new\nline.py", b"]", b"a]b", b"a-b", b"[x]/q.py",
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "below", "found"),
    [
        (
            b"*.py",
            b"",
            [b"a.py", b"src/a.py", b"src/x/b.py", b"src/x/y/c.py", b"caf\xe9.py", b"new\nline.py", b"[x]/q.py"],
        ),
        (b"src/*.py", b"", [b"src/a.py", b"src/x/b.py", b"src/x/y/c.py"]),
        (b"src/**/*.py", b"", [b"src/a.py", b"src/x/b.py", b"src/x/y/c.py"]),
        (b"src/**/x/*.py", b"", [b"src/x/b.py", b"src/x/y/c.py"]),
        (b"**/b.py", b"", [b"src/x/b.py"]),
        (b"src/x**y/*", b"", [b"src/x/y/c.py"]),
        (b"s?c", b"", [b"src", b"src/a.py", b"src/x/b.py", b"src/x/y/c.py"]),
        (b"b/f?", b"", [b"b/f1"]),
        (b"b/f[0-9]*", b"", [b"b/f1", b"b/f12"]),
        (b"b/f[!a]", b"", [b"b/f1"]),
        (b"b/f[^1]", b"", []),
        (b"[[:lower:]].py", b"", [b"a.py"]),
        (b"star\\*", b"", [b"star*"]),
        (b"star*", b"", [b"star*", b"start"]),
        (b"caf?.py", b"", [b"caf\xe9.py"]),
        (b"caf\xe9*", b"", [b"caf\xe9.py"]),
        (b"[]]", b"", [b"]"]),
        (b"a[]-]b", b"", [b"a]b", b"a-b"]),
        (b"x/*", b"src", [b"src/x/b.py", b"src/x/y/c.py"]),
        (b"*.py", b"[x]", [b"[x]/q.py"]),
        (b"*", b"", PATHS),
        (b"***", b"", PATHS),
        (b"src/x/?", b"", [b"src/x/y/c.py"]),
    ],
)
def test_what_a_pattern_matches(pattern: bytes, below: bytes, found: list[bytes]) -> None:
    matches = compile_pattern(pattern, below).match
    assert [path for path in PATHS if matches(path)] == found


@pytest.mark.parametrize("pattern", [b"a[", b"[", b"a[]", b"[[:nothing:]]", b"[a\\"])
def test_a_bracket_that_is_none_is_told_of(pattern: bytes) -> None:
    with pytest.raises(UsageError, match="bracket"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("text", "is_one"), [(b"a", False), (b"a\\b", False), (b"a*", True), (b"?", True), (b"x[1]", True), (b"]", False)]
)
def test_what_makes_a_pattern(text: bytes, is_one: bool) -> None:
    assert is_pattern(text) == is_one


@pytest.mark.parametrize("pattern", [b"*a" * 40 + b"b", b"**/a/" * 20 + b"b", b"?*" * 40 + b"b", b"*" * 200 + b"b"])
def test_no_pattern_takes_long(pattern: bytes) -> None:
    started = time.perf_counter()
    assert not compile_pattern(pattern).match(b"a/" * 2000 + b"a")
    assert time.perf_counter() - started < 1
