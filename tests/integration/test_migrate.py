"""Task state of checkpoint-orchestrator 1.x: taken over once, by a copy, and adopted only on request."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.trees import assert_tree, put, snapshot

#: Written by version 1.0.1 of the plugin itself.
WRITTEN = Path(__file__).parent.parent / "fixtures" / "checkpoint-orchestrator-1.0.1"
STATE = WRITTEN / "checkpoint.json"
SESSIONS = ["11111111-2222-4333-8444-555555555555", "22222222-2222-4333-8444-555555555555"]
WANTED = {
    "title": "Fix the login",
    "status": "active",
    "goal": "users can log in",
    "steps": [
        {"id": "legacy-done-1", "text": "wrote the test", "status": "done"},
        {"id": "legacy-next-1", "text": "fix the bug", "status": "pending"},
    ],
    "next": ["fix the bug"],
    "blockers": ["no database"],
    "files": ["src/auth.py"],
    "notes": ["ask Ana"],
    "summary": "half way",
    "plan": ["test", "fix"],
}


def left_behind(project: Path, data: bytes = STATE.read_bytes()) -> None:
    put(project, b".opencode/state/checkpoint.json", data)
    put(project, b".opencode/state/checkpoint-history.json", (WRITTEN / "checkpoint-history.json").read_bytes())
    put(project, b".opencode/state/handoff.md", b"# Handoff")


def report(daemon: DaemonFixture, project: Path, **more: Any) -> dict[str, Any]:
    return daemon.call("state.migrate", project=project, **{"session": SESSIONS[0], **more})


def backups(daemon: DaemonFixture) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (daemon.data_dir / "legacy-backup").rglob("*.json")}


def test_T20_it_is_imported_when_a_project_is_added_and_backed_up(daemon: DaemonFixture, project: Path) -> None:
    left_behind(project)
    before = snapshot(project)
    daemon.add(project)
    daemon.until(lambda: backups(daemon))
    found = report(daemon, project)
    (legacy,) = found["legacy"]
    assert legacy.pop("imported_at").endswith("Z")
    assert legacy == {
        "namespace": f"legacy::{project}",
        "source": str(project / ".opencode/state/checkpoint.json"),
        "title": "Fix the login",
        "status": "active",
        "adopted_by": None,
    }
    assert (found["foreign"], found["adopted"]) == ([], None)
    assert backups(daemon) == {path.name: path.read_bytes() for path in WRITTEN.iterdir()}
    for path in (daemon.data_dir / "legacy-backup").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert_tree(project, before)
    assert not daemon.call("state.load", project=project, session=SESSIONS[0])["exists"]  # no live session has it


def test_a_purge_of_the_project_takes_the_copies_along(daemon: DaemonFixture, project: Path) -> None:
    left_behind(project)
    daemon.add(project)
    daemon.until(lambda: backups(daemon) and report(daemon, project)["legacy"])
    daemon.call("project.remove", project=project, purge=True, confirmed=True)
    assert backups(daemon) == {}
    assert (project / ".opencode/state/checkpoint.json").read_bytes() == STATE.read_bytes()


def test_T7_adopting_merges_it_and_leaves_a_way_back(daemon: DaemonFixture, project: Path) -> None:
    left_behind(project)
    daemon.add(project)
    mine = {"title": "mine", "decisions": ["tabs"], "steps": [{"id": "own", "text": "x"}]}
    daemon.call("state.save", project=project, session=SESSIONS[0], state=mine)
    daemon.call("state.save", project=project, session=SESSIONS[1], state={"title": "another's"})
    found = report(daemon, project, adopt=True)
    assert found["adopted"] == f"legacy::{project}" and found["undo"].startswith("pre-restore-")
    assert found["legacy"][0]["adopted_by"] == SESSIONS[0]
    state = daemon.call("state.load", session=SESSIONS[0])["state"]
    steps = [{"id": "own", "text": "x"}, *WANTED["steps"]]
    assert state == {**WANTED, "decisions": ["tabs"], "steps": steps}
    assert daemon.call("state.load", session=SESSIONS[1])["state"] == {"title": "another's"}
    daemon.call("state.save", session=SESSIONS[0], state={"title": "later"})
    again = report(daemon, project, adopt=True)
    assert (again["adopted"], again["undo"]) == (f"legacy::{project}", None)
    assert daemon.call("state.load", session=SESSIONS[0])["state"]["title"] == "later"
    daemon.call("state.restore_snapshot", session=SESSIONS[0], name=found["undo"])
    assert daemon.call("state.load", session=SESSIONS[0])["state"] == mine


def test_T7_what_one_session_has_another_takes_only_by_its_name(daemon: DaemonFixture, project: Path) -> None:
    left_behind(project)
    daemon.add(project)
    assert report(daemon, project, adopt=True)["undo"] is None
    with pytest.raises(RpcError) as refused:
        report(daemon, project, adopt=True, session=SESSIONS[1])
    assert refused.value.code == "conflict" and SESSIONS[0][:8] in str(refused.value)
    name = f"legacy::{project}"
    assert report(daemon, project, adopt=True, session=SESSIONS[1], namespace=name)["adopted"] == name
    assert daemon.call("state.load", session=SESSIONS[1])["state"] == WANTED
    with pytest.raises(RpcError) as unknown:
        report(daemon, project, adopt=True, namespace="legacy::nowhere")
    assert unknown.value.code == "not_found"


def test_T20_it_is_never_imported_twice(daemon: DaemonFixture, project: Path) -> None:
    left_behind(project)
    daemon.add(project)
    first = report(daemon, project, adopt=True)["legacy"][0]
    daemon.call("state.clear", session=SESSIONS[0], confirmed=True)
    put(project, b".opencode/state/checkpoint.json", STATE.read_bytes().replace(b"the login", b"the logout"))
    daemon.restart(kill=True)
    daemon.until(lambda: daemon._watching(project))
    found = report(daemon, project)["legacy"]
    assert found == [first]
    assert "the login" in json.dumps(report(daemon, project, adopt=True)) and len(found) == 1
    assert daemon.call("state.load", session=SESSIONS[0])["state"] == WANTED  # cleared, so it may be had again


FOREIGN = {
    b'{"version": 2, "updatedAt": "x", "mine": 1}': "unknown field",
    b'{"checkpoints": []}': "shape is another one",
    b'{"version": 3, "updatedAt": "x", "summary": "x"}': "shape is another one",
    b'{"version": 2, "updatedAt": "x"}': "neither a task nor a summary nor a plan",
    b'{"version": 2, "updatedAt": "x", "task": {"status": "great"}}': "shape is another one",
    b'{"version": 2': "not JSON",
    b"\xff\xfe": "not JSON",
    b"": "not JSON",
    b"[" * 100_000: "shape is another one",
}


@pytest.mark.parametrize("data", FOREIGN, ids=range(len(FOREIGN)))
def test_T20_a_file_of_somebody_elses_is_reported_and_left_alone(
    daemon: DaemonFixture, project: Path, data: bytes
) -> None:
    left_behind(project, data)
    before = snapshot(project)
    daemon.add(project)
    found = report(daemon, project)
    assert found["legacy"] == [] and not backups(daemon)
    (foreign,) = found["foreign"]
    assert foreign["path"] == str(project / ".opencode/state/checkpoint.json") and FOREIGN[data] in foreign["reason"]
    assert_tree(project, before)
    with pytest.raises(RpcError) as refused:
        report(daemon, project, adopt=True)
    assert refused.value.code == "not_found"


def test_T20_nothing_is_read_through_a_link_and_a_pipe_is_not_waited_for(daemon: DaemonFixture, project: Path) -> None:
    outside = daemon.directory / "outside"
    left_behind(outside)
    (project / ".opencode").symlink_to(outside / ".opencode")
    daemon.add(project)
    assert report(daemon, project)["legacy"] == []
    (project / ".opencode").unlink()
    (project / ".opencode/state").mkdir(parents=True)
    os.mkfifo(project / ".opencode/state/checkpoint.json")
    found = report(daemon, project)
    assert found["legacy"] == [] and found["foreign"][0]["reason"] == "it is no plain file"


def test_T19_it_can_be_turned_off(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(config='legacy_import: "off"\n')
    project = daemon.projects / "p"
    left_behind(project)
    daemon.add(project)
    found = report(daemon, project)
    assert found["legacy"] == [] and found["foreign"][0]["reason"] == "legacy_import is off" and not backups(daemon)
    daemon.config_file.write_text("legacy_import: namespace\n")
    daemon.call("daemon.reload")
    assert len(report(daemon, project)["legacy"]) == 1


def test_the_client_reports_and_adopts(daemon: DaemonFixture, project: Path) -> None:
    left_behind(project)
    daemon.add(project)
    told = daemon.client("state", "migrate", "--session", SESSIONS[0], cwd=project)
    assert (told.returncode, told.stdout) == (0, f"legacy::{project}  Fix the login, active\n")
    assert "--adopt" in told.stderr
    daemon.call("state.save", project=project, session=SESSIONS[0], state={"title": "mine"})
    told = daemon.client("state", "migrate", "--adopt", "--session", SESSIONS[0], cwd=project)
    lines = told.stdout.splitlines()
    assert lines[0].endswith(f"active, in session {SESSIONS[0][:8]}") and "restore-snapshot pre-restore-" in lines[2]
    assert daemon.client("state", "migrate", "--namespace", "x", cwd=project).returncode == 2
    other = daemon.projects / "other"
    other.mkdir()
    daemon.add(other)
    told = daemon.client("--json", "state", "migrate", cwd=other)
    assert json.loads(told.stdout)["legacy"] == [] and told.returncode == 0
