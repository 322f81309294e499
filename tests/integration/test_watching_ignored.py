"""What is left out is counted, and told of where it is most of a project."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.daemon import DaemonFixture
from support.stored import restore, status, take, tree_of
from support.trees import put


def test_W6_what_is_ignored_is_counted_at_the_first_scan_and_kept_up_to_date(
    daemon: DaemonFixture, project: Path
) -> None:
    put(project, b".gitignore", b"data/\n*.log\n")
    for name in (b"data/1", b"data/2", b"a.log", b"sub/b.log", b"sub/c", b"d", b"e", b"f", b"node_modules/x"):
        put(project, name, b"x\n")
    daemon.add(project)
    assert status(daemon, project)["ignored"] == 4
    assert status(daemon, project)["mostly_hidden"] is None
    put(project, b"sub/g.log", b"x\n")
    put(project, b"sub/more/h.log", b"x\n")
    put(project, b".gitignore", b"*.log\n")
    take(daemon, project)
    assert status(daemon, project)["ignored"] == 5


def test_a_line_that_hides_most_of_a_project_is_told_of(daemon: DaemonFixture, project: Path) -> None:
    put(project, b".gitignore", b"# as some packages have it\n/*\n!/debian/\n")
    for name in (b"Makefile", b"kernel/fork.c", b"mm/slub.c", b"debian/rules"):
        put(project, name, b"x\n")
    words = f'{project}: ".gitignore: /*" hides 4 of 5 entries at the top from capture;'
    added = daemon.client("project", "add", str(project))
    assert added.returncode == 0
    assert words in added.stderr
    said = daemon.client("status", "--project", str(project))
    assert words in said.stdout
    assert words in daemon.call("daemon.status")["warnings"][0]
    found = {"where": "top", "hidden": 4, "entries": 5, "rule": ".gitignore: /*", "hidden_by_rule": 4}
    assert status(daemon, project)["mostly_hidden"] == found
    put(project, b".mulliganignore", b"!/*\n")
    take(daemon, project)
    assert status(daemon, project)["mostly_hidden"] is None
    assert daemon.call("daemon.status")["warnings"] == []


def names(daemon: DaemonFixture, project: Path) -> set[bytes]:
    return set(tree_of(daemon, project, take(daemon, project)["id"]))


def test_W10_git_ignore_files_outside_of_the_project_count_and_their_changes_are_noticed(
    daemon: DaemonFixture,
) -> None:
    top = daemon.projects / "mono"
    project = top / "apps" / "shop"
    project.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    for name in (b"a.log", b"a.tmp", b"notes", b"code"):
        put(project, name, b"x\n")
    put(top, b".gitignore", b"*.log\n")
    daemon.add(project)
    assert names(daemon, project) == {b"a.tmp", b"notes", b"code"}
    put(daemon.home, b".config/git/ignore", b"notes\n")
    put(top, b".git/info/exclude", b"*.tmp\n")
    assert names(daemon, project) == {b"code"}
    put(top, b".gitignore", b"")
    assert names(daemon, project) == {b"a.log", b"code"}
    put(project, b".mulliganignore", b"!notes\n")
    assert names(daemon, project) == {b"a.log", b"code", b"notes", b".mulliganignore"}


def test_R20_what_a_file_outside_hid_while_the_daemon_was_away_is_not_deleted_by_going_back(
    daemon: DaemonFixture, project: Path
) -> None:
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    put(daemon.home, b".config/git/ignore", b"notes\n")
    put(project, b"notes", b"precious\n")
    put(project, b"code", b"one\n")
    daemon.add(project)
    before = take(daemon, project)
    daemon.stop()
    put(daemon.home, b".config/git/ignore", b"")
    put(project, b"code", b"two\n")
    daemon.start()
    assert b"notes" in names(daemon, project)
    done = restore(daemon, project, before["id"])
    assert (project / "notes").read_bytes() == b"precious\n"
    assert done["plan"]["kept"] == ["notes"]
    assert (project / "code").read_bytes() == b"one\n"
