"""What is left out is counted, and told of where it is most of a project."""

from __future__ import annotations

from pathlib import Path

from support.daemon import DaemonFixture
from support.stored import status, take
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
