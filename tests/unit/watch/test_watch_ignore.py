"""Rules that change while a project is watched, and ignore files that are odd."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from mulligan.model import RelPath
from mulligan.watch.ignore import IgnoreRules

LIMIT = 1 << 20


def rules(root: Path, *boundaries: bytes) -> IgnoreRules:
    return IgnoreRules(os.fsencode(root), boundaries)


def test_R3_what_an_ignore_file_now_hides_was_in_scope_in_the_state_before(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    ours = rules(tmp_path)
    data, inside = RelPath(b"data"), RelPath(b"data/big.bin")
    assert not ours.judge(data, True)
    assert not ours.judge(inside, False)
    (tmp_path / ".gitignore").write_bytes(b"data/\n")
    before = ours.snapshot()
    assert ours.reload(RelPath(b""))
    assert ours.judge(data, True)
    assert ours.judge(inside, False)
    assert not before.judge(data, True)
    assert not before.judge(inside, False)


@pytest.mark.parametrize("looked_inside_first", [False, True])
def test_what_lies_in_a_directory_that_a_tool_named_stays_left_out(tmp_path: Path, looked_inside_first: bool) -> None:
    (tmp_path / "node_modules/one").mkdir(parents=True)
    ours = rules(tmp_path)
    if looked_inside_first:
        assert ours.judge(RelPath(b"node_modules/one/index.js"), False)
    assert ours.force(RelPath(b"node_modules"))
    assert not ours.judge(RelPath(b"node_modules"), True)
    assert ours.judge(RelPath(b"node_modules/one"), True)
    assert ours.judge(RelPath(b"node_modules/one/index.js"), False)


def test_a_line_that_the_limit_cuts_does_not_count(tmp_path: Path) -> None:
    first = b"*.tmp\n"
    comment = b"#" * (LIMIT - len(first) - 2) + b"\n"
    (tmp_path / ".gitignore").write_bytes(first + comment + b"*.log\n")
    ours = rules(tmp_path)
    assert ours.judge(RelPath(b"a.tmp"), False)
    assert not ours.judge(RelPath(b"main.py"), False)
    assert not ours.judge(RelPath(b"a.log"), False)


def test_an_ignore_file_of_just_the_limit_counts_to_its_end(tmp_path: Path) -> None:
    last = b"\n*.log"
    (tmp_path / ".gitignore").write_bytes(b"#" * (LIMIT - len(last)) + last)
    assert rules(tmp_path).judge(RelPath(b"a.log"), False)


def test_an_ignore_file_that_cannot_be_read_is_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / ".gitignore").symlink_to("elsewhere")
    (tmp_path / "elsewhere").write_bytes(b"*\n")
    ours = rules(tmp_path)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            ours.reload(RelPath(b""))
            assert not ours.judge(RelPath(b"a"), False)
    assert [record.getMessage().partition(" ")[0] for record in caplog.records] == [str(tmp_path / ".gitignore")]


def test_a_boundary_may_end_with_a_slash(tmp_path: Path) -> None:
    ours = rules(tmp_path, os.fsencode(tmp_path / "inner") + b"/")
    assert ours.judge(RelPath(b"inner"), True)
    assert ours.judge(RelPath(b"inner/a"), False)
    assert not ours.judge(RelPath(b"inner2"), True)
