"""The rules leave out what git leaves out: random trees and random ignore files, judged by both."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mulligan.model import RelPath
from mulligan.watch.ignore import IgnoreRules

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

NAMES = ["a", "b", "ab", "build", "rebuild.py", "x.py", "x.log", "foo.o", "-d", "sp ace", "#h", "!n", "[x]", "é", "a*b"]
PIECES = [
    "a", "b", "ab", "*", "**", "?", "a*", "*.py", "*.o", "*.log", "build", "x.*", "[ab]", "[!a]", "[^b]", "[a-c]*",
    "-d", "sp ace", "\\#h", "\\!n", "\\[x\\]", "é", "a\\*b", "re*.py", "[[:alpha:]]", "[z-a]", "[", "a[/]b", "***",
]  # fmt: skip

pattern = st.builds(
    lambda negated, lead, parts, tail: ("!" if negated else "") + lead + "/".join(parts) + tail,
    st.sampled_from([False, False, False, True]),
    st.sampled_from(["", "", "/", "**/"]),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=3),
    st.sampled_from(["", "", "", "/", "/**", "/*", " ", "\\ ", "\r"]),
)
line = st.one_of(pattern, pattern, pattern, st.sampled_from(["", "# comment", "   ", "!", "/", "\\", "a\\"]))
ignore_file = st.builds(
    lambda bom, lines, end: (bom + "\n".join(lines) + end).encode(),
    st.sampled_from(["", "", "", "\ufeff"]), st.lists(line, max_size=6), st.sampled_from(["\n", ""]),
)  # fmt: skip
tree = st.sets(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(tuple), min_size=1, max_size=14)
ignore_files = st.dictionaries(st.lists(st.sampled_from(NAMES), max_size=2).map(tuple), ignore_file, max_size=3)


def lay_out(root: Path, files: set[tuple[str, ...]], rules: dict[tuple[str, ...], bytes], exclude: bytes) -> list[str]:
    """Make the tree, as far as its files and directories do not contradict one another; returns all paths in it."""
    subprocess.run(["git", "init", "-q", str(root)], check=True, capture_output=True)
    (root / ".git/info/exclude").write_bytes(exclude)
    for parts in sorted(files, key=len, reverse=True):
        path = root.joinpath(*parts)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    for parts, content in rules.items():
        directory = root.joinpath(*parts)
        if directory.is_dir():
            (directory / ".gitignore").write_bytes(content)
    return sorted(
        os.path.relpath(os.path.join(at, name), root)
        for at, directories, names in os.walk(root)
        for name in [*directories, *names]
        if ".git" not in os.path.relpath(os.path.join(at, name), root).split(os.sep)
    )


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(files={("a",), ("d", "a", "b")}, rules={}, exclude=b"a/a\n***/a\n")
@example(files={("a",), ("b",)}, rules={(): b"\xef\xbb\xbfa\r\n"}, exclude=b"")
@example(files={("build", "x"), ("rebuild.py",), ("src", "build")}, rules={(): b"build\n"}, exclude=b"")
@example(files={("d", "a"), ("d", "b")}, rules={(): b"d/\n", ("d",): b"!a\n"}, exclude=b"")
@given(files=tree, rules=ignore_files, exclude=ignore_file)
def test_W10_patterns_match_as_git_matches(
    files: set[tuple[str, ...]], rules: dict[tuple[str, ...], bytes], exclude: bytes
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        paths = lay_out(root, files, rules, exclude)
        asked = subprocess.run(
            ["git", "-c", "core.excludesFile=", "check-ignore", "--no-index", "-z", "--stdin"],
            input=b"\0".join(os.fsencode(path) for path in paths),
            cwd=root, capture_output=True, check=False,
        )  # fmt: skip
        assert asked.returncode in (0, 1), asked.stderr
        ours = IgnoreRules(os.fsencode(root))
        found = {os.fsencode(path) for path in paths if ours.judge(RelPath(os.fsencode(path)), (root / path).is_dir())}
        theirs = set(filter(None, asked.stdout.split(b"\0")))
        assert found == theirs
        for directory in {path for path in paths if (root / path).is_dir()} - {os.fsdecode(path) for path in theirs}:
            inside = IgnoreRules(os.fsencode(root / directory))
            below = [path.removeprefix(directory + "/") for path in paths if path.startswith(directory + "/")]
            ours_below = {
                path for path in below if inside.judge(RelPath(os.fsencode(path)), (root / directory / path).is_dir())
            }
            assert ours_below == {path for path in below if os.fsencode(f"{directory}/{path}") in theirs}, directory
