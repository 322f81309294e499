"""`mulligan revert` and the plan by authors: words, exit status and what a person sees."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from mulligan.client.main import main
from mulligan.client.render.plan import grouped_lines
from mulligan.client.render.text import Palette, cells

NOW = 1767225600.0  # 2026-01-01T00:00:00Z
PARTS: dict[str, Any] = {"write": ["a"], "delete": [], "kept": [], "skipped": []}
CONFLICT = {
    "path": "b\n", "ours": "row:9:b\n", "theirs": "row:4:b\n", "base": "row:5:b\n", "reason": "same", "marked": False,
}  # fmt: skip
CLEAN = {"target": "prompt:3", "plan": PARTS, "conflicts": [], "warnings": [], "operation_id": None}
STUCK = {**CLEAN, "conflicts": [CONFLICT]}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(words)
    found = capsys.readouterr()
    return status, found.out, found.err


def test_it_asks_for_what_was_said(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["operation.revert"] = {**CLEAN, "operation_id": "op1"}
    words = ["--yes", "--partial", "--write-conflicts", "--force", "--session", "s1"]
    status, out, _ = run(capsys, "revert", "prompt:3", *words)
    assert (status, out) == (0, "reverted prompt:3: 1 written\n")
    asked = {
        "project": os.getcwd(), "target": "prompt:3", "session": "s1", "partial": True, "write_conflicts": True,
        "force": True, "confirmed": True,
    }  # fmt: skip
    assert daemon.asked == [("operation.revert", asked)]


def test_without_a_terminal_the_plan_is_printed_and_nothing_done(
    daemon: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["operation.revert"] = CLEAN
    status, out, err = run(capsys, "revert", "prompt:3")
    assert status == 4 and out.startswith("Without the changes of prompt:3\n\n  write    1  a\n")
    assert err.endswith("  mulligan revert prompt:3 --yes\n") and len(daemon.asked) == 1


def test_a_conflict_is_exit_6_and_named_on_both_streams(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.fails("operation.revert", "conflict", 6, "1 path is in conflict", conflicts=[CONFLICT], plan=PARTS)
    status, out, err = run(capsys, "revert", "prompt:3", "--yes")
    assert (status, out) == (6, "  conflict b\\n: same\n    now row:9:b\\n    before row:4:b\\n\n")
    assert err == "mulligan: 1 path is in conflict\n  step\n"
    status, out, err = run(capsys, "revert", "prompt:3", "--yes", "--json")
    assert status == 6 and json.loads(err)["error"]["code"] == "conflict"
    found = json.loads(out)
    assert (found["conflicts"], found["plan"], found["operation_id"]) == ([CONFLICT], PARTS, None)


def test_what_was_left_is_named_once_and_exit_3(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    plan = {**PARTS, "skipped": ["b\n", "c"], "reasons": {"b\n": "same", "c": "changed"}}
    daemon.answers["operation.revert"] = {**STUCK, "plan": plan, "operation_id": "op1"}
    status, out, _ = run(capsys, "revert", "prompt:3", "--yes", "--partial")
    assert status == 3 and out.count("b\\n:") == 1 and "  skipped c: changed\n" in out


def test_markers_are_said(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["operation.revert"] = {**STUCK, "conflicts": [{**CONFLICT, "marked": True}]}
    status, out, _ = run(capsys, "revert", "prompt:3", "--yes", "--write-conflicts")
    assert status == 3 and "same; both versions are in it now\n" in out


def test_a_terminal_is_not_asked_about_what_will_not_be_done(daemon: Any) -> None:
    daemon.answers["operation.revert"] = STUCK
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "mulligan.client.main", "revert", "prompt:3"]
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower) as client:
        os.close(follower)
        seen = b""
        try:
            while data := os.read(leader, 65536):
                seen += data
        except OSError:  # the terminal's other end was closed
            pass
    os.close(leader)
    assert client.returncode == 6 and b"Go on?" not in seen and b"conflict b\\n: same" in seen
    assert [params.get("confirmed") for _, params in daemon.asked] == [None]


def group(by: str, session: str | None = None, **more: Any) -> dict[str, Any]:
    file = {"path": "x", "bytes": 512, "lines": 14, "timestamp": "2025-12-31T23:58:00.000Z"}
    return {"by": by, "session_id": session, "write": ["x"], "bytes": 512, "lines": 14, "files": [file], **more}


def test_a_plan_says_whose_changes_go_and_what_would_be_lost() -> None:
    plan = {
        "write": ["x"],
        "kept": ["data"],
        "reasons": {"data": "unknown then"},
        "groups": [
            group("this_session", "s1", write=["a", "b"], delete=["c"], lines=None),
            group("another_session", "s2"),
            group("nobody", write=["README.md"]),
            group("nobody", write=[], mkdir=["d"], files=[], lines=None, bytes=0),
        ],
    }
    lines = grouped_lines(plan, 80, Palette(False), NOW)
    assert lines == [
        "  this session     write 2  delete 1  a b c  (512 B)",
        "  another session  write 1            x  (2 min ago, 14 lines, 512 B)",
        "  no agent's call  write 1            README.md  (2 min ago, 14 lines, 512 B)",
        "  no agent's call  mkdir 1            d",
        "  kept     1  unknown then: data",
    ]
    assert all(cells(line) <= 80 for line in lines)


def test_several_other_sessions_are_told_apart_and_a_plan_without_groups_is_a_plan() -> None:
    plan = {"write": ["x"], "groups": [group("another_session", "s2abcdefgh"), group("another_session", "s3")]}
    assert [line[:18] for line in grouped_lines(plan, 80, Palette(False), NOW)] == [
        "  session s2abcdef",
        "  session s3      ",
    ]
    assert grouped_lines({"write": ["x"]}, 80, Palette(False), NOW) == ["  write    1  x"]
