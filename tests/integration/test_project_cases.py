"""A project in use: git beside the daemon, changes while it was away, ignore rules that change, tools and people."""

from __future__ import annotations

import hashlib
import os
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture
from support.live_transcript import LiveTranscript, now, settle, stamp
from support.stored import assert_stored, files_of, reader, restore, rows, status, take, tree_of
from support.trees import assert_tree, put, snapshot

QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_TERMINAL_PROMPT": "0"}


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def git(where: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Git without anybody's configuration."""
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always"]
    return subprocess.run(
        ["git", *identity, *words],
        cwd=where, env={**os.environ, **QUIET}, capture_output=True, text=True, check=check,
    )  # fmt: skip


def repository(where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    git(where, "init", "-q", "-b", "main")
    put(where, b"code.py", b"one\ntwo\nthree\n")
    put(where, b"other.py", b"other\n")
    git(where, "add", "-A")
    git(where, "commit", "-qm", "first")


def raw_tree(where: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a directory: mode, bytes and modification time, as git's own state must stay."""
    found = {}
    for path in sorted(where.rglob("*")):
        if path.is_file() and not path.is_symlink():
            state = path.lstat()
            found[str(path)] = (state.st_mode, path.read_bytes() + b"%d" % state.st_mtime_ns)
    return found


def watching(daemon: DaemonFixture, project: Path) -> bool:
    return bool(status(daemon, project)["state"] == "watching")


# W8: git


def test_W8_a_merge_in_progress_and_staged_hunks_are_not_touched(daemon: DaemonFixture, project: Path) -> None:
    repository(project)
    git(project, "checkout", "-qb", "side")
    put(project, b"code.py", b"one\nside\nthree\n")
    git(project, "commit", "-qam", "side")
    git(project, "checkout", "-q", "main")
    put(project, b"code.py", b"one\nmain\nthree\n")
    git(project, "commit", "-qam", "main")
    assert git(project, "merge", "side", check=False).returncode != 0
    put(project, b"other.py", b"staged\n")
    git(project, "add", "other.py")
    put(project, b"other.py", b"staged, and more\n")
    before = raw_tree(project / ".git")
    assert "MERGE_HEAD" in os.listdir(project / ".git")
    daemon.add(project)
    made, tree = take(daemon, project), snapshot(project)
    put(project, b"code.py", b"resolved\n")
    put(project, b"new.py", b"new\n")
    take(daemon, project)
    restore(daemon, project, made["id"])
    assert_tree(project, tree)
    daemon.call("operation.undo", project=project, confirmed=True)
    assert raw_tree(project / ".git") == before
    assert made["git"] == {"head": git(project, "rev-parse", "HEAD").stdout.strip(), "branch": "main"}
    assert not any(b".git" in path.split(b"/") for path in files_of(daemon, project, made["id"]))


def test_W8_worktrees_submodules_and_nested_repositories_are_directories(daemon: DaemonFixture, project: Path) -> None:
    library = daemon.directory / "library"
    repository(library)
    repository(project)
    git(project, "submodule", "add", "-q", str(library), "sub")
    git(project, "worktree", "add", "-q", "tree", "-b", "tree")
    nested = project / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    put(nested, b"file", b"in a repository without commits\n")
    daemon.add(project)
    made, tree = take(daemon, project), snapshot(project)
    pointers = {place: (project / place / ".git").read_bytes() for place in ("sub", "tree")}
    stored = tree_of(daemon, project, made["id"])
    for path in (b"sub/code.py", b"tree/code.py", b"nested/file"):
        assert stored[path] == tree[path]
    assert not any(path.rpartition(b"/")[2] == b".git" or b".git/" in path for path in stored)
    inside = raw_tree(nested / ".git")
    for path in (b"sub/code.py", b"tree/code.py", b"nested/file"):
        put(project, path, b"changed\n")
    restore(daemon, project, made["id"])
    for path in (b"sub/code.py", b"tree/code.py", b"nested/file"):
        assert snapshot(project)[path] == tree[path]
    assert {place: (project / place / ".git").read_bytes() for place in pointers} == pointers
    assert raw_tree(nested / ".git") == inside
    assert git(project / "tree", "status", "--porcelain").stdout == ""
    assert git(project / "sub", "status", "--porcelain").stdout == ""


def test_W8_commits_in_a_loop_never_clash_with_the_daemon(daemon: DaemonFixture, project: Path) -> None:
    repository(project)
    daemon.add(project)
    for number in range(25):
        put(project, b"code.py", b"version %d\n" % number)
        git(project, "add", "-A")
        made = take(daemon, project) if number % 3 == 0 else None
        done = git(project, "commit", "-qm", f"number {number}", check=False)
        assert done.returncode == 0, done.stderr
        if made is not None and number:
            put(project, b"other.py", b"%d\n" % number)
            restore(daemon, project, made["id"])
    assert git(project, "rev-list", "--count", "HEAD").stdout == "26\n"
    assert not list((project / ".git").rglob("*.lock"))
    assert git(project, "status", "--porcelain").stdout == ""
    assert git(project, "fsck", "--strict").returncode == 0
    assert_stored(daemon, project)


# W9: away


@pytest.mark.parametrize("kill", [False, True])
def test_W9_what_happened_while_the_daemon_was_away(daemon: DaemonFixture, project: Path, kill: bool) -> None:
    put(project, b"edited", b"before\n")
    put(project, b"deleted", b"before\n")
    put(project, b"kept", b"kept\n")
    begun = stamp(now())
    daemon.add(project)
    made, tree = take(daemon, project), snapshot(project)
    if kill:
        daemon.kill9()
    else:
        assert daemon.stop() == 0
    gone = stamp(now())
    put(project, b"edited", b"while away\n")
    (project / "deleted").unlink()
    put(project, b"d/new", b"new\n")
    back = stamp(now())
    daemon.start()
    daemon.until(lambda: watching(daemon, project))
    (gap,) = status(daemon, project)["gaps"]
    assert gap["reason"] == "away"
    # after a kill all that is sure is that it was there when the baseline ended
    assert (begun if kill else made["timestamp"]) <= gap["start"] <= gone
    assert gap["end"] >= back
    away = 8
    assert {row[4] & away for path in (b"edited", b"deleted", b"d/new") for row in rows(daemon, path)[-1:]} == {away}
    assert all(not row[4] & away for row in rows(daemon, b"kept"))
    later = assert_stored(daemon, project)
    assert (later["metadata"]["added"], later["metadata"]["modified"], later["metadata"]["deleted"]) == (1, 1, 1)
    shown = daemon.client("status", "--json", cwd=project)
    assert '"away"' in shown.stdout
    restore(daemon, project, made["id"])
    assert_tree(project, tree)
    daemon.call("operation.undo", project=project, confirmed=True)
    assert (project / "edited").read_bytes() == b"while away\n"


# W10: ignore rules in a live project


def test_W10_a_pattern_matches_as_in_git_and_defaults_leave_out_what_is_derived(
    daemon: DaemonFixture, project: Path
) -> None:
    git(project, "init", "-q")
    put(project, b".gitignore", b"build\n*.log\n!keep.log\n/only-here\nsub/*.txt\n")
    kept = [
        b"rebuild.py", b"pkg/a.go", b"bin/run", b"vendor/lib.c", b"yarn.lock", b"Cargo.lock", b"dump.sql", b"keep.log",
        b"deep/only-here", b"deep/sub/a.txt", b".github/ci.yml", b".env", b"dist/app.js", b"target/x", b"out/y",
        b"build.gradle.txt", b".vscode/settings.json", b"node_modules.md",
    ]  # fmt: skip
    left = [
        b"build/x", b"deep/build", b"a.log", b"deep/a.log", b"only-here", b"sub/a.txt", b"node_modules/m/index.js",
        b"x/__pycache__/m.pyc", b".venv/bin/python", b".tox/x", b".mypy_cache/y",
    ]  # fmt: skip
    for path in (*kept, *left):
        put(project, path, path + b"\n")
    daemon.add(project)
    stored = tree_of(daemon, project, take(daemon, project)["id"])
    files = {path for path, entry in stored.items() if entry[0] == "file"}
    assert files == {*kept, b".gitignore"}
    for path in (*kept, *left):
        put(project, path, b"changed " + path + b"\n")
    after = tree_of(daemon, project, take(daemon, project)["id"])
    assert after.keys() == stored.keys()
    assert all(after[path] == snapshot(project)[path] for path in files - {b".gitignore"})


def test_W10_an_ignore_file_that_changes(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"data/one", b"one\n")
    put(project, b"code", b"code\n")
    daemon.add(project)
    before = assert_stored(daemon, project)
    put(project, b".gitignore", b"data/\n")
    put(project, b"data/one", b"not to be seen\n")
    put(project, b"data/two", b"nor this\n")
    hidden = take(daemon, project)
    assert not any(path.startswith(b"data/") for path in tree_of(daemon, project, hidden["id"]))
    assert hidden["metadata"]["deleted"] == 0, "out of sight is not deleted"
    assert hidden["complete"]
    assert status(daemon, project)["ignored"] >= 1
    catalogue = reader(daemon)
    try:
        assert catalogue.place(sha(b"not to be seen\n")) is None
        assert catalogue.place(sha(b"nor this\n")) is None
    finally:
        catalogue.close()
    put(project, b"code", b"changed\n")
    restore(daemon, project, hidden["id"])
    assert (project / "data/one").read_bytes() == b"not to be seen\n"
    assert (project / "data/two").read_bytes() == b"nor this\n"
    put(project, b".gitignore", b"# nothing\n")
    shown = assert_stored(daemon, project)
    assert shown["metadata"]["deleted"] == 0
    done = restore(daemon, project, hidden["id"])
    assert done["plan"]["delete"] == []
    assert (project / "data/two").read_bytes() == b"nor this\n"
    put(project, b".gitignore", b"# nothing again\n")
    assert_stored(daemon, project)
    restore(daemon, project, before["id"])
    assert (project / "data/one").read_bytes() == b"one\n"
    assert (project / "data/two").read_bytes() == b"nor this\n", "unknown then"


# M5: somebody saves while a tool is at work


def test_M5_who_saves_while_a_tool_is_at_work_is_never_taken_for_it_for_certain(
    daemon: DaemonFixture, project: Path
) -> None:
    put(project, b"mine", b"0\n")
    daemon.add(project)
    session = LiveTranscript(daemon.claude_dir, project)
    session.prompt("do something")

    def saved_during(name: str, number: int, **given: Any) -> tuple[str, str]:
        tool = f"toolu_{uuid.uuid4().hex[:12]}"
        session.write(session.call(tool, name, input=given))
        put(project, b"mine", b"by a person, %d\n" % number)
        daemon.call("watch.sync", project=project)
        session.write(session.result(tool))
        settle(daemon, project, 1 + 2 * number)
        daemon.call("watch.sync", project=project)
        call, grade = rows(daemon, b"mine")[-1][5:]
        return ("its" if call == tool else call), grade

    assert saved_during("Read", 1, file_path=str(project / "mine")) == ("", "")
    assert saved_during("WebFetch", 2, url="https://example.org") == ("", "")
    assert saved_during("Edit", 3, file_path=str(project / "other")) == ("", ""), "an edit owns what it names"
    whose, grade = saved_during("Bash", 4, command="sleep 1")
    assert whose == "its"
    assert grade == "window", "it could have been, and nobody can know"
    put(project, b"mine", b"after all calls\n")
    daemon.call("watch.sync", project=project)
    assert rows(daemon, b"mine")[-1][5:] == ("", "")


def test_R19_a_tool_call_that_names_a_path_outside_captures_and_writes_nothing_there(
    daemon: DaemonFixture, project: Path
) -> None:
    outside = daemon.directory / "outside"
    put(outside, b"secret", b"outside of every project\n")
    put(project, b"file", b"one\n")
    (project / "link").symlink_to(outside)
    daemon.add(project)
    session = LiveTranscript(daemon.claude_dir, project)
    session.prompt("edit elsewhere")
    plain = [str(outside / "secret"), "../../outside/secret", "", "\0", "/", str(project)]
    names = [*plain, f"{project}/../../outside/secret", f"{project}/link/secret", f"{project}/.git/config"]
    for number, name in enumerate(names):
        tool = f"toolu_{number}"
        session.write(session.call(tool, "Edit", input={"file_path": name}))
        put(outside, b"secret", b"outside, edit %d\n" % number)
        session.write(session.result(tool))
    settle(daemon, project, 1 + 2 * len(names))
    made = assert_stored(daemon, project)
    assert set(files_of(daemon, project, made["id"])) == {b"file", b"link"}
    catalogue = reader(daemon)
    try:
        for number in range(len(names)):
            assert catalogue.place(sha(b"outside, edit %d\n" % number)) is None
    finally:
        catalogue.close()
    restore(daemon, project, made["id"])
    assert (outside / "secret").read_bytes() == b"outside, edit %d\n" % (len(names) - 1)
