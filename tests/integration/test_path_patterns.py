"""Patterns where paths are given: restore, diff, rescue, search, through a real daemon."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.stored import restore, take
from support.trees import put

FILES = [b"a.py", b"a.md", b"src/b.py", b"src/x/c.py", b"src/x/d.txt", b"doc.d/e", b"caf\xe9.py", b"x[1]", b"x1"]


@pytest.fixture
def project(daemon: DaemonFixture) -> Path:
    """A project of which every file was changed after its first checkpoint."""
    root = daemon.projects / "project"
    for path in FILES:
        put(root, path, b"old " + path)
    put(root, b".gitignore", b"*.log\n")
    put(root, b"src/own.log", b"mine\n")
    daemon.add(root)
    for path in FILES:
        put(root, path, b"new " + path)
    take(daemon, root)
    return root


def old(project: Path) -> set[bytes]:
    """The files that are as they were at first."""
    root = os.fsencode(project)
    return {path for path in FILES if Path(os.fsdecode(os.path.join(root, path))).read_bytes().startswith(b"old")}


MATCHING: list[tuple[str, set[bytes]]] = [
    ("*.py", {b"a.py", b"src/b.py", b"src/x/c.py", b"caf\xe9.py"}),
    ("src/*.py", {b"src/b.py", b"src/x/c.py"}),
    ("src/**/*.py", {b"src/b.py", b"src/x/c.py"}),
    ("src/?/*", {b"src/x/c.py", b"src/x/d.txt"}),
    ("*.d", {b"doc.d/e"}),
    ("s*", {b"src/b.py", b"src/x/c.py", b"src/x/d.txt"}),
    ("a.[mp]*", {b"a.py", b"a.md"}),
    ("x[1]", {b"x[1]"}),  # what is there is meant as it stands
    ("x[0-9]", {b"x1"}),
    ("x\\[*", {b"x[1]"}),
]


def test_a_pattern_restores_what_it_matches(daemon: DaemonFixture, project: Path) -> None:
    for pattern, found in MATCHING:
        planned = daemon.call("checkpoint.restore", project=project, id="1", paths=[pattern], dry_run=True)["plan"]
        assert planned["write"] == sorted(path.decode("utf-8", "replace") for path in found), pattern
        done = restore(daemon, project, "1", paths=[pattern])
        assert old(project) == found and done["files_processed"] == len(found), pattern
        assert (project / "src/own.log").read_bytes() == b"mine\n"
        daemon.call("operation.undo", project=project, confirmed=True)
        assert old(project) == set()


def test_patterns_and_paths_together_and_bytes_that_are_no_text(daemon: DaemonFixture, project: Path) -> None:
    coded = [base64.b64encode(path).decode() for path in (b"caf\xe9*", b"src/x", b"a.m?")]
    restore(daemon, project, "1", paths_b64=coded)
    assert old(project) == {b"caf\xe9.py", b"src/x/c.py", b"src/x/d.txt", b"a.md"}


def test_what_came_since_goes_if_it_matches_and_what_is_ignored_stays(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"src/new.py", b"since\n")
    put(project, b"new.txt", b"since\n")
    plan = restore(daemon, project, "1", paths=["src/*new*"])["plan"]
    assert plan["delete"] == ["src/new.py"] and plan["write"] == []
    assert not (project / "src/new.py").exists() and (project / "new.txt").exists()
    with pytest.raises(RpcError) as ignored:
        restore(daemon, project, "1", paths=["*.lo?"])
    assert ignored.value.code == "not_found"
    assert (project / "src/own.log").read_bytes() == b"mine\n"


def test_a_pattern_that_nothing_matches_is_named(daemon: DaemonFixture, project: Path) -> None:
    for words in (
        ["restore", "1", "*.nothing", "a.py", "--yes"],
        ["diff", "1", "--", "*.nothing"],
        ["rescue", "*.nothing"],
    ):
        done = daemon.client(*words, cwd=project)
        assert (done.returncode, done.stdout) == (5, "")
        assert done.stderr.startswith("mulligan: no path in this project matches *.nothing\n")
    assert old(project) == set()
    done = daemon.client("restore", "1", "a[", "--yes", cwd=project)
    assert done.returncode == 2 and "a[: a bracket in it is not closed" in done.stderr


def test_where_somebody_stands_is_no_pattern(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"[s]rc/b.py", b"old\n")
    made = take(daemon, project)
    put(project, b"[s]rc/b.py", b"new\n")
    put(project, b"src/b.py", b"newer\n")
    done = daemon.client("restore", made["id"], "*.py", "--yes", cwd=project / "[s]rc")
    assert done.returncode == 0, done.stderr
    assert (project / "[s]rc/b.py").read_bytes() == b"old\n"
    assert (project / "src/b.py").read_bytes() == b"newer\n"


def test_the_client_asks_with_a_command_that_can_be_pasted(daemon: DaemonFixture, project: Path) -> None:
    done = daemon.client("restore", "1", "src/*.py", cwd=project)
    assert done.returncode == 4 and old(project) == set()
    assert "mulligan restore 1 'src/*.py' --yes" in done.stderr
    assert "src/b.py src/x/c.py" in done.stdout


def paths_of(found: dict[str, Any]) -> set[str]:
    return {one["path"] for part in ("modified", "added", "deleted") for one in found[f"{part}_files"]}


def test_diff_takes_patterns(daemon: DaemonFixture, project: Path) -> None:
    assert paths_of(daemon.call("checkpoint.diff", project=project, **{"from": "1"}, paths=["src/*"])) == {
        "src/b.py", "src/x/c.py", "src/x/d.txt",
    }  # fmt: skip
    put(project, b"src/new.py", b"just now\n")
    done = daemon.client("diff", "2", "--name-status", "--", "*.py", cwd=project / "src")
    assert (done.returncode, done.stdout) == (0, "A\tsrc/new.py\n")
    done = daemon.client("diff", "1", "2", "--stat", "--json", "--", "x[0-9]", cwd=project)
    assert paths_of(json.loads(done.stdout)) == {"x1"}


def test_rescue_takes_patterns(daemon: DaemonFixture, project: Path) -> None:
    for path in (b"src/b.py", b"src/x/d.txt", b"a.md"):
        os.unlink(os.path.join(os.fsencode(project), path))
    found = daemon.call("operation.rescue", project=project, paths=["src/*"], confirmed=True)
    assert found["plan"]["write"] == ["src/b.py", "src/x/d.txt"]
    assert not (project / "a.md").exists()
    with pytest.raises(RpcError, match=r"nothing of \*\.py was lost"):
        daemon.call("operation.rescue", project=project, paths=["*.md", "*.py"], dry_run=True)


def test_search_takes_the_same_patterns(daemon: DaemonFixture, project: Path) -> None:
    for pattern, expected in {
        "src/**/*.py": {"src/b.py", "src/x/c.py"}, "c.py": {"src/x/c.py"}, "doc.d": {"doc.d/e"}, "x[[]1]": {"x[1]"},
    }.items():  # fmt: skip
        found = daemon.call("file.search", project=project, text="new", paths=[pattern])["matches"]
        assert {one["path"] for one in found} == expected, pattern
    with pytest.raises(RpcError) as bad:
        daemon.call("file.search", project=project, text="new", paths=["a["])
    assert bad.value.data["exit_status"] == 2
