"""Rescue: whatever a shell did away with comes back by one command, and nothing else is touched."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.stored import assert_stored, restore, rows, take
from support.trees import assert_tree, put, snapshot

OLD = b"written before anybody looked\n" * 40
DRAFT = b"an hour of work\n" * 30
GIT = "git -c user.name=t -c user.email=t@example.com -c init.defaultBranch=main -c core.autocrlf=false"


def sh(project: Path, command: str) -> None:
    """A person's shell, outside of any call."""
    subprocess.run(["/bin/sh", "-ec", command.replace("git ", GIT + " ")], cwd=project, check=True, capture_output=True)


def rescue(daemon: DaemonFixture, project: Path, *words: str, status: int = 0) -> dict[str, Any]:
    """The command, with JSON."""
    done = daemon.client("rescue", "--yes", "--json", *words, cwd=project)
    assert done.returncode == status, (done.stdout, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout or done.stderr)
    return found


def hows(result: dict[str, Any]) -> dict[str, str]:
    return {entry["path"]: entry["how"] for entry in result["entries"]}


def history(daemon: DaemonFixture, project: Path, *, tracked: bool) -> None:
    """`old.md` from before mulligan looked and never touched since; then a draft, which is a second old."""
    put(project, b"docs/old.md", b"as it was committed\n" * 30 if tracked else OLD)
    put(project, b"docs/deep/keep.md", b"keep\n", 0o600)
    if tracked:
        put(project, b"docs/draft.md", b"as it was committed, too\n" * 25)
        sh(project, "git init -q . && git add -A && git commit -qm one")
        time.sleep(0.1)
        put(project, b"docs/old.md", OLD)
    daemon.add(project)
    put(project, b"docs/draft.md", DRAFT, 0o640)
    time.sleep(1)


UNTRACKED = {
    "rm": ("rm -rf docs", {"docs/old.md": "vanished", "docs/draft.md": "vanished", "docs/deep/keep.md": "vanished"}),
    "mv away": ("mv docs/old.md docs/draft.md ../", {"docs/old.md": "vanished", "docs/draft.md": "vanished"}),
    "mv aside": (
        "mv docs aside && touch new",
        {"docs/old.md": "vanished", "docs/draft.md": "vanished", "docs/deep/keep.md": "vanished"},
    ),
    "mv over": ("mv docs/draft.md docs/old.md", {"docs/old.md": "moved over", "docs/draft.md": "vanished"}),
    "truncate": (": > docs/old.md; : > docs/draft.md", {"docs/old.md": "emptied", "docs/draft.md": "emptied"}),
    "truncate and rm": (
        "for f in docs/old.md docs/draft.md; do : > $f; sleep 0.1; rm $f; done",
        {"docs/old.md": "vanished", "docs/draft.md": "vanished"},
    ),
    "shrink": (
        "for f in docs/old.md docs/draft.md; do head -n 1 $f > x; cat x > $f; done; rm x",
        {"docs/old.md": "shrank", "docs/draft.md": "shrank"},
    ),
    "git clean": (
        "git init -q . && git commit -qm one --allow-empty && git clean -qfdx",
        {"docs/old.md": "vanished", "docs/draft.md": "vanished", "docs/deep/keep.md": "vanished"},
    ),
}
TRACKED = ["git checkout -- .", "git restore .", "git reset -q --hard"]


@pytest.mark.parametrize("variant", UNTRACKED)
def test_W1_both_come_back(daemon: DaemonFixture, project: Path, variant: str) -> None:
    history(daemon, project, tracked=False)
    before = snapshot(project)
    command, expected = UNTRACKED[variant]
    sh(project, command)
    after = snapshot(project)
    assert {path: entry for path, entry in after.items() if path in before} != before
    result = rescue(daemon, project)
    assert hows(result) == expected
    assert result["conflicts"] == [] and result["plan"]["skipped"] == [] and result["operation_id"]
    restored = snapshot(project)
    assert {path: entry for path, entry in restored.items() if path in before} == before
    assert_stored(daemon, project)
    daemon.call("operation.undo", project=project, confirmed=True)
    assert_tree(project, after)
    daemon.call("operation.redo", project=project, confirmed=True)
    assert_tree(project, restored)


@pytest.mark.parametrize("command", TRACKED)
def test_W1_both_come_back_from_git(daemon: DaemonFixture, project: Path, command: str) -> None:
    """Both are tracked: the draft was captured live, the old one was dirty at the first look and never touched."""
    history(daemon, project, tracked=True)
    before = snapshot(project)
    sh(project, command)
    assert (project / "docs/old.md").read_bytes() == b"as it was committed\n" * 30
    result = rescue(daemon, project)
    assert hows(result) == {"docs/old.md": "put back", "docs/draft.md": "put back"}, rows(daemon, b"docs/draft.md")
    assert_tree(project, before)


def test_W1_the_newest_version_comes_back_and_the_list_says_when_and_how_large(
    daemon: DaemonFixture, project: Path
) -> None:
    history(daemon, project, tracked=False)
    put(project, b"docs/draft.md", DRAFT + b"one line more\n")
    time.sleep(0.3)
    sh(project, "rm docs/old.md && sleep 0.1 && rm docs/draft.md")
    text = daemon.client("rescue", "--dry-run", cwd=project).stdout.splitlines()
    assert text[0].startswith("Lost in the last 1 h: 2 paths") or text[0].startswith("Lost in the last 60 min: 2 paths")
    assert [line.split()[:2] for line in text[3:5]] == [["vanished", "docs/draft.md"], ["vanished", "docs/old.md"]]
    assert "no agent's call" in text[3] and "494 B" in text[3]
    result = rescue(daemon, project)
    newest, older = result["entries"]
    assert newest["timestamp"] > older["timestamp"] and newest["lost_at"] > older["lost_at"]
    assert (newest["size"], newest["call"], newest["now"], newest["newer"]) == (len(DRAFT) + 14, None, None, False)
    assert (project / "docs/draft.md").read_bytes() == DRAFT + b"one line more\n"


def test_B1_chosen_paths_alone_come_back(daemon: DaemonFixture, project: Path) -> None:
    history(daemon, project, tracked=False)
    sh(project, "rm -rf docs")
    result = rescue(daemon, project, "docs/old.md")
    assert hows(result) == {"docs/old.md": "vanished"}
    assert sorted(path.name for path in (project / "docs").iterdir()) == ["old.md"]
    with pytest.raises(RpcError) as none:
        daemon.call("operation.rescue", project=project, paths=["nothing.md"], dry_run=True)
    assert (none.value.code, none.value.data["exit_status"]) == ("not_found", 5)


def test_B1_something_newer_is_kept_and_named_unless_forced(daemon: DaemonFixture, project: Path) -> None:
    history(daemon, project, tracked=False)
    sh(project, "rm docs/old.md; sleep 0.1; echo newer > docs/old.md; rm docs/draft.md")
    result = rescue(daemon, project, status=3)
    assert hows(result) == {"docs/old.md": "shrank", "docs/draft.md": "vanished"}
    (conflict,) = result["conflicts"]
    assert (conflict["path"], conflict["ours"]["size"], conflict["theirs"]["size"]) == ("docs/old.md", 6, len(OLD))
    assert result["plan"]["skipped"] == ["docs/old.md"]
    assert (project / "docs/old.md").read_bytes() == b"newer\n"
    assert (project / "docs/draft.md").read_bytes() == DRAFT
    assert rescue(daemon, project, "--force")["plan"]["write"] == ["docs/old.md"]
    assert (project / "docs/old.md").read_bytes() == OLD


def test_B1_without_a_confirmation_nothing_comes_back(daemon: DaemonFixture, project: Path) -> None:
    history(daemon, project, tracked=False)
    sh(project, "rm docs/old.md")
    done = daemon.client("rescue", "--since", "5m", cwd=project)
    assert (done.returncode, "mulligan rescue --since 5m --yes" in done.stderr) == (4, True)
    assert "vanished  docs/old.md" in done.stdout
    assert daemon.client("rescue", "--dry-run", cwd=project).returncode == 0
    with pytest.raises(RpcError) as refused:
        daemon.call("operation.rescue", project=project)
    assert refused.value.code == "refused"
    assert not (project / "docs/old.md").exists()


def test_B1_nothing_lost_is_no_error_and_asks_nothing(daemon: DaemonFixture, project: Path) -> None:
    history(daemon, project, tracked=False)
    put(project, b"docs/draft.md", DRAFT + b"more\n")
    done = daemon.client("rescue", "--since", "10m", cwd=project)
    assert (done.returncode, done.stdout) == (0, "Lost in the last 10 min: nothing\n")
    assert rescue(daemon, project)["operation_id"] is None
    with pytest.raises(RpcError) as unclear:
        daemon.call("operation.rescue", project=project, since="a while", dry_run=True)
    assert unclear.value.code == "usage"


def test_B1_what_was_lost_before_that_time_stays_lost(daemon: DaemonFixture, project: Path) -> None:
    history(daemon, project, tracked=False)
    sh(project, "rm docs/old.md")
    time.sleep(2)
    sh(project, "rm docs/draft.md")
    assert hows(rescue(daemon, project, "--since", "1s")) == {"docs/draft.md": "vanished"}


def test_B1_what_a_restore_took_away_is_no_loss(daemon: DaemonFixture, project: Path) -> None:
    history(daemon, project, tracked=False)
    made = take(daemon, project)
    put(project, b"docs/made.md", b"made since\n")
    time.sleep(0.3)
    restore(daemon, project, made["id"])
    assert not (project / "docs/made.md").exists()
    result = rescue(daemon, project)
    assert (result["entries"], list(result["left_out"].values())) == ([], [1])
    assert hows(rescue(daemon, project, "--all")) == {"docs/made.md": "vanished"}


def test_M2_another_branch_takes_nothing_away(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"both", b"on main\n" * 40)
    sh(project, "git init -q . && git add -A && git commit -qm one && git checkout -qb other")
    for number in range(20):
        put(project, b"f%d" % number, b"%d\n" % number * 40)
    put(project, b"both", b"on the other one\n" * 40)
    sh(project, "git add -A && git commit -qm two")
    daemon.add(project)
    time.sleep(0.3)
    sh(project, "git checkout -q main")
    result = rescue(daemon, project)
    assert result["entries"] == []
    assert result["left_out"] == {
        "taken away by git, which still holds them": 20,
        "replaced by git, which still holds what was there": 1,
    }
    assert len(rescue(daemon, project, "--all", "--dry-run")["entries"]) == 21


def test_B1_steps_of_saving_are_no_losses(daemon: DaemonFixture, project: Path) -> None:
    history(daemon, project, tracked=False)
    for number in range(3):
        for name in (b"docs/.old.md.swp", b"docs/old.md~", b"docs/x.tmp"):
            put(project, name, b"a step\n")
        daemon.call("watch.sync", project=project)
        put(project, b"docs/new", OLD + b"saved %d\n" % number)
        os.rename(project / "docs/new", project / "docs/old.md")
        (project / "docs/x.tmp").unlink()
        daemon.call("watch.sync", project=project)
    time.sleep(0.3)
    sh(project, "rm docs/.old.md.swp docs/old.md~")
    result = rescue(daemon, project)
    assert result["entries"] == []
    assert sum(result["left_out"].values()) in (3, 4)


def test_W9_what_vanished_while_nobody_looked_comes_back(daemon: DaemonFixture, project: Path) -> None:
    history(daemon, project, tracked=False)
    daemon.call("watch.sync", project=project)
    assert daemon.stop() == 0
    sh(project, "rm -rf docs")
    daemon.start()
    assert set(hows(rescue(daemon, project))) == {"docs/old.md", "docs/draft.md", "docs/deep/keep.md"}
    assert (project / "docs/old.md").read_bytes() == OLD
    assert (project / "docs/deep/keep.md").stat().st_mode & 0o777 == 0o600


def test_W4_what_was_in_a_root_that_was_removed_and_made_again_comes_back(daemon: DaemonFixture, project: Path) -> None:
    history(daemon, project, tracked=False)
    before = snapshot(project)
    sh(project.parent, "rm -rf project")
    done = daemon.client("rescue", "--yes", "--project", str(project))
    assert (done.returncode, "does not exist" in done.stderr) == (5, True)
    project.mkdir()
    put(project, b"new", b"made since\n")
    daemon.until(lambda: daemon.call("daemon.status")["projects"][0]["state"] == "watching")
    result = rescue(daemon, project)
    assert set(hows(result)) == {"docs/old.md", "docs/draft.md", "docs/deep/keep.md"}
    assert {path: entry for path, entry in snapshot(project).items() if path != b"new"} == before
    daemon.call("operation.undo", project=project, confirmed=True)
    assert set(snapshot(project)) == {b"new"}


def test_R8_a_rescue_that_was_killed_is_finished_at_the_next_start(daemon: DaemonFixture, project: Path) -> None:
    history(daemon, project, tracked=False)
    before = snapshot(project)
    daemon.call("watch.sync", project=project)
    daemon.stop()
    daemon.arm("restore.before_done_commit=kill")
    daemon.start()
    sh(project, "rm -rf docs")
    with pytest.raises((EOFError, ConnectionError)):
        daemon.call("operation.rescue", project=project, confirmed=True)
    daemon.until(lambda: not daemon.running)
    daemon.arm("")
    daemon.start()
    assert_tree(project, before)
    assert_stored(daemon, project)
    daemon.call("operation.undo", project=project, confirmed=True)
    assert snapshot(project) == {}
