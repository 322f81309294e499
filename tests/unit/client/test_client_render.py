"""Lists, trees, plans, diffs and status as a person sees them."""

from __future__ import annotations

import base64
from typing import Any

from mulligan.client.render.checkpoints import listing, tree
from mulligan.client.render.diffs import coloured, content, in_order, name_status, stat
from mulligan.client.render.plan import LISTED, done_words, not_done, plan_lines, some_paths
from mulligan.client.render.progress import describe
from mulligan.client.render.status import status_lines
from mulligan.client.render.text import Palette, cells

PLAIN = Palette(False)
NOW = 1767225600.0  # 2026-01-01T00:00:00Z


def checkpoint(ordinal: int, what: str, trigger: str = "manual", seconds: int = 0, **more: Any) -> dict[str, Any]:
    metadata = {"modified": 0, "added": 0, "deleted": 0, **more.pop("metadata", {})}
    stamp = f"2025-12-31T23:{59 - seconds // 60:02d}:{59 - seconds % 60:02d}.000Z"
    return {
        "id": f"c{ordinal}",
        "ordinal": ordinal,
        "description": what,
        "trigger": trigger,
        "timestamp": stamp,
        "metadata": metadata,
        **more,
    }


def node(made: dict[str, Any], *children: dict[str, Any]) -> dict[str, Any]:
    return {"checkpoint": made, "children": list(children)}


def test_a_list_is_aligned_and_marks_where_you_are() -> None:
    made = [
        checkpoint(14, "", "prompt", metadata={"user_prompt": "fix login"}),
        checkpoint(9, "npm run format", "tool_use", 59, tool={"name": "Bash"}, metadata={"modified": 31, "added": 2}),
    ]
    assert listing(made, "c14", NOW, 80, PLAIN) == [
        "   #  when   by      what            changes",
        "@ 14  1 s    prompt  fix login       ·",
        "   9  1 min  Bash    npm run format  ~31 +2",
    ]


def test_pins_and_incomplete_checkpoints_are_said_only_where_they_are() -> None:
    plain, pinned = checkpoint(1, "one"), checkpoint(2, "two", pinned=True, complete=False)
    assert "pin" not in "".join(listing([plain], None, NOW, 80, PLAIN))
    assert "pin incomplete" in listing([pinned, plain], None, NOW, 80, PLAIN)[1]


def test_a_long_prompt_is_cut_and_a_narrow_list_drops_the_changes() -> None:
    made = [checkpoint(1, "x" * 200)]
    assert all(cells(line) <= 80 for line in listing(made, None, NOW, 80, PLAIN))
    assert "…" in listing(made, None, NOW, 80, PLAIN)[1]
    assert "changes" not in listing(made, None, NOW, 34, PLAIN)[0]


def test_a_linear_history_is_flat() -> None:
    root = node(checkpoint(1, "one", seconds=2), node(checkpoint(2, "two", seconds=1)))
    assert [line[:4] for line in tree([root], "c2", NOW, 80, PLAIN)] == ["@ 2 ", "* 1 "]


def test_a_branch_is_indented_and_closed_where_it_left() -> None:
    side = node(checkpoint(12, "a", seconds=5), node(checkpoint(13, "b", seconds=4)))
    main = node(checkpoint(15, "undo", seconds=3), node(checkpoint(16, "now", seconds=1)))
    root = node(checkpoint(10, "r", seconds=9), node(checkpoint(11, "s", seconds=8), side, main))
    lines = tree([root], "c16", NOW, 80, PLAIN)
    assert [line.split("  ")[0] for line in lines] == ["@ 16", "* 15", "| o 13", "| o 12", "|/", "* 11", "* 10"]


def test_the_line_of_the_current_checkpoint_is_the_flat_one_though_another_is_newer() -> None:
    old, new = node(checkpoint(2, "old", seconds=9)), node(checkpoint(3, "new", seconds=1))
    lines = tree([node(checkpoint(1, "r", seconds=20), old, new)], "c2", NOW, 80, PLAIN)
    assert [line.split("  ")[0] for line in lines] == ["@ 2", "| o 3", "|/", "* 1"]


def test_a_history_of_thousands_is_drawn_without_recursion() -> None:
    root = node(checkpoint(5000, "last"))
    for ordinal in range(4999, 0, -1):
        root = node(checkpoint(ordinal, "x", seconds=9), root)
    lines = tree([root], "c5000", NOW, 80, PLAIN)
    assert (len(lines), lines[0][:6], lines[-1][:6]) == (5000, "@ 5000", "* 1   ")


def file(path: str, diff: str = "", **more: Any) -> dict[str, Any]:
    return {"path": path, "additions": 0, "deletions": 0, "diff_content": diff, "binary": False, **more}


DIFF: dict[str, Any] = {
    "modified_files": [
        file("m.py", "M", additions=2, deletions=1),
        file("new name", "R", renamed_from="old name"),
        file("run.sh", "X", old_mode="100644", new_mode="100755"),
        file("kind", "K", additions=1, deletions=1, old_mode="100644", new_mode="120000"),
        file("b.bin", "B", binary=True),
    ],
    "added_files": [file("a/b", "A", additions=1)],
    "deleted_files": [file("zz", "D", deletions=3)],
}


def test_differences_come_in_the_order_of_their_paths() -> None:
    assert [one["path"] for _, one in in_order(DIFF)] == ["a/b", "b.bin", "kind", "m.py", "new name", "run.sh", "zz"]


def test_names_and_letters_for_programs() -> None:
    expected = ["A\ta/b", "M\tb.bin", "T\tkind", "M\tm.py", "R\told name\tnew name", "T\trun.sh", "D\tzz"]
    assert name_status(DIFF) == expected


def test_the_statistic_counts_lines() -> None:
    lines = stat(DIFF, 80, PLAIN)
    assert lines[0] == " a/b                  | " + lines[0].split("| ")[1]
    assert lines[0].endswith("|   1 +") and lines[3].endswith("|   3 ++-") and lines[1].endswith("| Bin")
    assert lines[-1] == " 7 files, 4 added, 5 deleted (lines)"


def test_a_patch_that_is_not_utf8_comes_byte_for_byte() -> None:
    raw = b"+caf\xe9\r\n"
    assert content(file("x", "+caf?", diff_content_b64=base64.b64encode(raw).decode())) == raw


def test_a_patch_on_a_terminal_is_coloured_and_harmless() -> None:
    shown = coloured(b"@@ -1 +1 @@\n-a\n+\x1b[2J\tb\n", Palette(True))
    assert shown == "\x1b[36m@@ -1 +1 @@\x1b[0m\n\x1b[31m-a\x1b[0m\n\x1b[32m+\\x1b[2J\tb\x1b[0m\n"


def test_a_plan_names_the_first_paths_and_counts_the_rest() -> None:
    plan = {
        "write": [f"src/file{number}.py" for number in range(20)],
        "delete": ["x"],
        "kept": ["data/"],
        "reasons": {"data/": "not seen then"},
    }
    assert plan_lines(plan, 60, PLAIN) == [
        "  write    20  src/file0.py src/file1.py src/file2.py +17",
        "  delete    1  x",
        "  kept      1  not seen then: data/",
    ]
    assert plan_lines({}, 80, PLAIN) == ["  nothing to change"]


def test_a_single_path_that_does_not_fit_is_cut() -> None:
    assert some_paths(["a" * 50, "b"], 20) == "a" * 16 + "… +1"


def test_every_path_that_was_not_done_is_named_with_its_reason() -> None:
    plan = {"write": ["a"], "skipped": [{"path": "b\n", "reason": "changed meanwhile"}]}
    assert not_done(plan) == ["  skipped b\\n: changed meanwhile"]
    assert not_done({"skipped": ["c"], "reasons": {"c": "busy"}}) == ["  skipped c: busy"]
    assert done_words(plan) == "1 written, 1 skipped"


def test_what_was_kept_is_named_with_its_reason_and_the_rest_is_counted() -> None:
    reasons = {"b": "unknown then (ignored)", "a\x1b": "holds entries that are kept"}
    assert not_done({"kept": ["b", "a\x1b"], "skipped": ["c"], "reasons": reasons}) == [
        "  skipped c",
        "  kept a\\x1b: holds entries that are kept",
        "  kept b: unknown then (ignored)",
    ]
    many = [f"{number:04d}" for number in range(1500)]
    lines = not_done({"kept": many, "skipped": many})
    assert lines[:1500] == [f"  skipped {name}" for name in many], "each that was left out is named"
    assert lines[1500:] == [*(f"  kept {name}" for name in many[:LISTED]), f"  and {1500 - LISTED:,} more kept"]
    assert not_done({"kept": many[: LISTED + 1]})[-1] == f"  kept {many[LISTED]}", "as long as the line that counts it"


def test_progress_says_how_far_and_how_long() -> None:
    params = {"stage": "baseline", "done": 50, "total": 200, "bytes": 3 << 20, "rate": 1 << 20}
    assert describe(params, 10.0) == "baseline: 50 of 200 files · 3.0 MiB · 1.0 MiB/s · 30 s left"
    assert describe({"stage": "b\x1b", "done": 5, "rate": 7}, 0.0) == "b\\x1b: 5 files · 7/s"


STATUS: dict[str, Any] = {
    "daemon": {"version": "1.0.0", "uptime_seconds": 273600, "rss_bytes": 38 << 20},
    "project": {
        "path": "/p/shop",
        "state": "watching",
        "files": 3210,
        "last_capture": "2025-12-31T23:59:58.000Z",
        "checkpoints": 14,
        "newest_checkpoint": checkpoint(14, "fix login"),
    },
    "projects": [{"path": "/p/shop", "overflows": 0}, {"path": "/p/x", "state": "excluded"}],
    "sessions": [
        {"id": "s9f3c21aa", "project_path": "/p/shop", "strategy": "smart", "prompts": 6, "calls": 23, "at_work": True},
        {"id": "elsewhere", "project_path": "/p/other"},
    ],
    "store": {"bytes": 43201331, "budget_bytes": 10 << 30, "objects": 7},
    "warnings": ["something \x1b"],
}


def shown(status: dict[str, Any], width: int = 100) -> list[str]:
    return status_lines(status, "/p/shop", NOW, width, PLAIN, lambda path: path)


def test_status_says_first_that_the_project_is_protected() -> None:
    assert shown(STATUS) == [
        'protected: /p/shop  3,210 files · captured 2 s ago · 14 checkpoints, newest "fix login" 1 s ago',
        "session    s9f3c21a  smart · 6 prompts · 23 calls · at work",
        "store      41.2 MiB of 10.0 GiB · 7 objects",
        "daemon     1.0.0 · up 3 d 4 h · 1 project · 38.0 MiB · 0 overflows",
        "warning    something \\x1b",
    ]


def test_status_says_why_not_and_what_to_do() -> None:
    nobody = {**STATUS, "project": None, "reason": "", "warnings": []}
    assert shown(nobody)[0] == "NOT protected: /p/shop is nobody's project.    mulligan project add /p/shop"
    paused = {**STATUS, "project": {"path": "/p/shop", "state": "paused"}}
    assert shown(paused)[0] == "NOT protected: /p/shop is paused.    mulligan project resume /p/shop"


def test_status_does_not_call_a_baseline_protection() -> None:
    project = {"path": "/p", "state": "baseline", "progress": {"done": 5, "total": 9}}
    assert shown({**STATUS, "project": project})[0] == "baseline:  /p  5 of 9 files read · not yet complete"
