"""Patterns match what git's own do: random ones, judged by both."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mulligan.errors import UsageError
from mulligan.journal.pathspec import compile_pattern

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

DIRECTORIES = [b"a", b"ab", b"[x]", b"caf\xe9"]
PATHS = sorted(
    b"/".join((*above, name))
    for name in (b"a.py", b"b", b"x", b"a*b", b"\xff")
    for depth in range(3)
    for above in product(DIRECTORIES, repeat=depth)
)
#: Git's brackets may stand for a slash.
SLASH_IN_BRACKET = re.compile(rb"\[(?:[!^]|[^\]]*/|[^\]]*-)")
PIECES = [b"a", b"b", b"x", b".py", b"*", b"**", b"?", b"/", b"[ab]", b"[!a]", b"[^x]", b"[a-c]", b"\\*", b"\\[", b"]",
          b"\xe9", b"[[:alpha:]]", b"[", b"**/", b"/**/", b"\xff"]  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("git")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    empty = b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    index = b"".join(b"100644 %b 0\t%b\0" % (empty, path) for path in PATHS)
    subprocess.run(["git", "update-index", "-z", "--index-info"], cwd=root, input=index, check=True)
    yield root


def by_git(repository: Path, pattern: bytes) -> set[bytes]:
    done = subprocess.run(
        ["git", "ls-files", "-z", "--", b":(top)" + pattern], cwd=repository, capture_output=True, check=True,
        env={"PATH": os.environ["PATH"], "HOME": str(repository)},
    )  # fmt: skip
    return set(done.stdout.split(b"\0")) - {b""}


def above(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map(b"".join))
def test_what_git_matches(repository: Path, pattern: bytes) -> None:
    pattern = pattern.strip(b"/")
    if not pattern or b"//" in pattern or pattern.endswith(b"\\"):
        return  # a path is normalised before it is taken for a pattern
    git = {path for path in by_git(repository, pattern) if pattern not in (path, *above(path))}  # these are no pattern
    try:
        matches = compile_pattern(pattern).match
    except UsageError:
        assert not git
        return
    ours = {path for path in PATHS if matches(path)}
    assert git <= ours or SLASH_IN_BRACKET.search(pattern)
    more = {path for path in ours - git if not any(map(matches, above(path))) and path != pattern}
    assert not more or b"**/" in pattern
