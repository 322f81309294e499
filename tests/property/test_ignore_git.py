"""Each kind of line means what git takes it to mean: many lines over the same names, judged by git in one call."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mulligan.model import RelPath
from mulligan.watch.ignore import IgnoreRules
from mulligan.watch.patterns import PatternFile

NAMES = [
    b"a", b"b", b"ab", b"abc", b"A", b"x.py", b".x", b"-d", b"s p", b"t ", b"#h", b"!n", b"[x]", b"a]", b"a-b",
    b"\xe9", b"\xc3\xa9", b"\xff\xfe", b"a*b", b"a?b", b"a\\b", b"\\", b"new\nline",
]  # fmt: skip
PATHS = [*NAMES, *(b"d/" + name for name in NAMES[:6]), b"a2/a", b"a2/b/c", b"d/e/ab/abc"]
ATOMS = [
    b"a", b"b", b"ab", b"*", b"**", b"***", b"?", b"*.py", b"*b", b"a*", b"*a*b*", b"a**", b"**a", b"[ab]", b"[!a]",
    b"[^\xff]", b"[a-c]", b"[]a]", b"[a\\-c]", b"[[:alpha:]]", b"[[:bogus:]]", b"[z-a]", b"[", b"[/]", b"\\a", b"\\*",
    b"a\\*b", b"\\\\", b"#h", b"\\#h", b"\\!n", b"s p", b"t\\ ", b"\xe9", b"[\xc3-\xff]", b"\xff*", b"d", b".", b"..",
]  # fmt: skip
ENDS = [b"", b"", b"", b"/", b"/**", b"/*", b"//", b" ", b"  ", b"\\ ", b" \\ ", b"\t", b"\r", b"\\", b"\0x"]

piece = st.lists(st.sampled_from(ATOMS), min_size=1, max_size=2).map(b"".join)
glob = st.builds(
    lambda lead, pieces, end: lead + b"/".join(pieces) + end,
    st.sampled_from([b"", b"", b"", b"/", b"**/", b"./", b"//"]),
    st.lists(piece, min_size=1, max_size=3),
    st.sampled_from(ENDS),
)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(lines=st.lists(glob, min_size=20, max_size=40))
def test_W10_a_line_means_what_it_means_to_git(lines: list[bytes]) -> None:
    lines += [b"a**/*", b"a**/b", b"d/a**", b"\\\\ ", b"*a*b", b"a\r", b"a\0b"]
    with tempfile.TemporaryDirectory() as directory:
        root = os.fsencode(directory)
        alone = {
            "PATH": os.environ["PATH"],
            "HOME": directory,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        subprocess.run(["git", "init", "-q", directory], check=True, env=alone)
        asked: dict[bytes, bool] = {}
        for number, line in enumerate(lines):
            top = b"%d" % number
            for path in PATHS:
                whole = os.path.join(root, top, path)
                os.makedirs(os.path.dirname(whole), exist_ok=True)
                os.close(os.open(whole, os.O_CREAT | os.O_WRONLY, 0o600))
                above = path.rpartition(b"/")[0]
                asked.update({top + b"/" + path: False, **({top + b"/" + above: True} if above else {})})
            with open(os.path.join(root, top, b".gitignore"), "wb") as file:
                file.write(line + b"\n")
        done = subprocess.run(
            ["git", "check-ignore", "--no-index", "-z", "--stdin"],
            input=b"\0".join(asked), cwd=root, env=alone, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stderr
        theirs = set(filter(None, done.stdout.split(b"\0")))
        judge = IgnoreRules(root).judge
        ours = {path for path, is_dir in asked.items() if judge(RelPath(path), is_dir)}
        assert [(lines[int(path.split(b"/")[0])], path) for path in sorted(ours ^ theirs)] == []


@pytest.mark.parametrize(
    "line", [b"*a" * 20 + b"b", b"?*" * 20 + b"b", b"d/" + b"*a" * 20 + b"b", b"*[ac]*" * 12 + b"b"]
)
def test_no_line_takes_time_without_end(line: bytes) -> None:
    file = PatternFile(line + b"\n", RelPath(b""), "a test")
    before = time.process_time()
    found = [
        pattern
        for pattern in file.candidates(b"a" * 250)
        if pattern.whole is None or pattern.whole.match(b"d/" + b"a" * 250)
    ]
    assert found == []
    assert time.process_time() - before < 5  # by trying all ways it would be years
