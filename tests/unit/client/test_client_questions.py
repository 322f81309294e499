"""What history, blame, cat and search ask, and what a person sees of the answers."""

from __future__ import annotations

import base64
import os
from typing import Any

import pytest

from mulligan.client.main import main

AGENTS = {
    "session_id": "9f3c21aa-5d0e-4c1b-8a77-0d2f6be1c9e4", "tool": "Edit", "prompt": "add rate limiting to the login",
    "prompt_number": 2, "model": "m", "grade": "named", "ordinal": 11, "checkpoint_id": "cabcd",
    "timestamp": "2020-01-02T03:04:05.000Z",
}  # fmt: skip
NONE = {"session_id": None, "tool": None, "prompt": None, "model": None, "ordinal": 12, "checkpoint_id": "cabce",
        "timestamp": "2020-01-02T03:04:05.000Z"}  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(words)
    found = capsys.readouterr()
    return status, found.out, found.err


def version(**fields: Any) -> dict[str, Any]:
    return {"id": "cabcd", "path": "a", "kind": "file", "size": 100, "renamed_from": None, **AGENTS, **fields}


def test_history_is_a_table(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["file.history"] = {
        "path": "a",
        "versions": [
            version(kind="absent", **NONE | {"grade": "nobody"}),
            version(id="row:7", ordinal=None, tool="Bash", grade="one of 2", size=2048),
            version(path="b\x1b", renamed_from="old\x1b", prompt="line\nbreak"),
            version(**NONE | {"grade": "before mulligan"}),
        ],
    }
    assert run(capsys, "history", "a")[:2] == (
        0,
        "    #  when        by               prompt                 size\n"
        "   12  2020-01-02  no agent's call                      deleted\n"
        'row:7  2020-01-02  9f3c21aa Bash    "add rate limiti…"  2.0 KiB  one of 2 calls\n'
        '   11  2020-01-02  9f3c21aa Edit    "line break"          100 B  was old\\x1b\n'
        "   12  2020-01-02  before mulligan                        100 B\n",
    )
    here = os.path.abspath("a")
    assert daemon.asked == [("file.history", {"project": here, "paths": [here]})]


def test_blame_is_a_line_a_line(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [AGENTS, AGENTS | {"grade": "one of 2", "prompt": "x", "tool": "Bash"}] + [
        NONE | {"grade": grade} for grade in ("before mulligan", "nobody", "gap", "restored")
    ]
    daemon.answers["file.blame"] = {
        "path": "a",
        "lines": [{"line": number, "text": f"\tx{number}\x1b", **one} for number, one in enumerate(lines, 1)],
    }
    status, out, _ = run(capsys, "blame", "a", "--at", "11")
    assert status == 0
    assert out.splitlines() == [
        '11  9f3c21aa Edit  "add rate limiting to the lo…"  1  \tx1\\x1b',
        '11  9f3c21aa Bash  "x"  one of 2 calls             2  \tx2\\x1b',
        " ·  before mulligan                                3  \tx3\\x1b",
        " ·  no agent's call, on 2020-01-02                 4  \tx4\\x1b",
        " ·  while nobody watched, on 2020-01-02            5  \tx5\\x1b",
        " ·  brought back, on 2020-01-02                    6  \tx6\\x1b",
    ]
    here = os.path.abspath("a")
    assert daemon.asked == [("file.blame", {"project": here, "id": "11", "paths": [here]})]


@pytest.mark.parametrize(
    ("project", "path", "whole"),
    [
        ("/p", "src/a", "/p/src/a"),
        ("/p", "/p/b/../a", "/p/a"),
        ("CWD", "src/a", "CWD/src/a"),
        ("ABOVE", "src/a", "CWD/src/a"),
    ],
)
def test_a_path_begins_in_the_project_that_is_named(
    project: str, path: str, whole: str, daemon: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    here = os.getcwd()
    places = {"CWD": here, "ABOVE": os.path.dirname(here)}
    daemon.answers["file.history"] = {"path": "a", "versions": []}
    run(capsys, "history", path, "--project", places.get(project, project))
    ((_, asked),) = daemon.asked
    assert asked == {"project": places.get(project, project), "paths": [whole.replace("CWD", here)]}


@pytest.mark.parametrize(
    ("name", "position", "path"),
    [
        ("14:src/a", "14", "src/a"),
        ("@~2:a:b", "@~2", "a:b"),
        ("prompt:-1:a", "prompt:-1", "a"),
        ("row:7:a", "row:7", "a"),
        ("2026-11-30T06:14:00Z:a", "2026-11-30T06:14:00Z", "a"),
        ("2026-11-30 06:14:a", "2026-11-30 06:14", "a"),
        ("2026-11-30T06:14:00+01:00:a", "2026-11-30T06:14:00+01:00", "a"),
        ("2026-11-30:a", "2026-11-30", "a"),
        ("10m ago:a\nb", "10m ago", "a\nb"),
    ],
)
def test_cat_tells_the_position_from_the_path(
    name: str, position: str, path: str, daemon: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["file.cat"] = {"content": "x\n", "next_offset": None}
    assert run(capsys, "cat", name)[:2] == (0, "x\n")
    ((_, asked),) = daemon.asked
    assert (asked["id"], asked["paths"]) == (position, [os.path.abspath(path)])


@pytest.mark.parametrize("name", ["a", ":a", "14:", ""])
def test_cat_without_a_position_or_a_path_is_a_usage_error(
    name: str, daemon: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "cat", name)[0] == 2
    assert daemon.asked == []


def test_cat_fetches_all_pieces_of_one_position(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def piece(asked: dict[str, Any]) -> dict[str, Any]:
        offset = asked.get("offset", 0)
        data = b"ab\xffcd"[offset : offset + 2]
        following = offset + 2 if offset < 4 else None
        coded = base64.b64encode(data).decode()
        return {"checkpoint_id": "cabcd", "content": None, "content_b64": coded, "next_offset": following}

    daemon.answers["file.cat"] = piece
    assert '"content_b64":"YWL/Y2Q="' in run(capsys, "cat", "latest:a", "--json")[1]
    assert [(asked["id"], asked.get("offset")) for _, asked in daemon.asked] == [
        ("latest", None), ("cabcd", 2), ("cabcd", 4),
    ]  # fmt: skip


def test_search_says_where_and_when(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["file.search"] = {
        "text": "x",
        "matches": [
            {"path": "src/a", "line_number": 7, "line": "  def x():\x1b", "appeared": AGENTS,
             "vanished": NONE | {"grade": "nobody", "ordinal": None}, "renamed_from": "old",
             "last": {"id": "row:7", "ordinal": None}},
            {"path": "b", "line_number": 1, "line": "x", "appeared": NONE | {"grade": "before mulligan"}},
        ],
        "prompts": [{"session_id": AGENTS["session_id"], "prompt_number": 2, "timestamp": AGENTS["timestamp"],
                     "prompt": "say x\nplease"}],
        "index": {"available": True, "pending": 1200},
        "cut": True,
        "unsearched_paths": 3,
        "exit_status": 3,
    }  # fmt: skip
    status, out, err = run(capsys, "search", "x", "--regex", "--path", "*.py", "--path", "src", "--since", "2d")
    assert status == 3
    assert out.splitlines() == [
        "src/a:7  def x():\\x1b",
        '  appeared  on 2020-01-02 (11)  was old  9f3c21aa Edit  "add rate limiting to t…',
        "  vanished  on 2020-01-02  no agent's call",
        "  last in   row:7:src/a",
        "b:1  x",
        "  appeared  on 2020-01-02 (12)  before mulligan",
        'prompt:2  9f3c21aa  on 2020-01-02  "say x please"',
    ]
    assert "there is more" in err and "3 paths were not looked at" in err and "1,200 versions to take in" in err
    ((_, asked),) = daemon.asked
    assert asked == {
        "project": os.getcwd(), "text": "x", "regex": True, "paths": ["*.py", "src"], "since": "2d",
    }  # fmt: skip


def test_search_without_an_index_says_why(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["file.search"] = {"text": "x", "index": {"available": False, "reason": "SQLite 3.31 has none"}}
    status, out, err = run(capsys, "search", "x")
    assert (status, out) == (0, "")
    assert '"x" was never here' in err and "there is no index: SQLite 3.31 has none" in err


def test_a_text_that_is_not_utf8_is_refused(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "search", "\udcff")[0] == 2
    assert daemon.asked == []
