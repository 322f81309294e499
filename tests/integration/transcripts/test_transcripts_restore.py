"""Restoring beside an agent: what no restore undoes is listed, and nobody's turn is broken into unasked."""

from __future__ import annotations

import json
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.live_transcript import LiveTranscript, settle, stamp
from support.stored import restore, take
from support.trees import put

PUSH = (
    "git add -A && git commit -m \"$(cat <<'EOF'\n"
    + "Words of a long message, more than is shown.\n" * 8
    + 'EOF\n)" && '
)


@pytest.fixture
def watched(daemon: DaemonFixture, project: Path) -> Path:
    """A protected project with a file."""
    put(project, b"f", b"one\n")
    daemon.add(project)
    return project


#: Lines bear milliseconds.
APART = 0.005


def run(session: LiveTranscript, command: str, **more: Any) -> str:
    """The agent's shell runs something."""
    tool = f"toolu_{uuid.uuid4().hex[:12]}"
    session.write(session.call(tool, "Bash", input={"command": command}), session.result(tool, told={}, **more))
    time.sleep(APART)
    return tool


def at_work(daemon: DaemonFixture, project: Path) -> list[bool]:
    return [one["at_work"] for one in daemon.call("session.list", project=project)["sessions"]]


def test_B12_a_restore_lists_what_it_does_not_undo(daemon: DaemonFixture, watched: Path) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("publish it")
    run(session, "npm publish")
    settle(daemon, watched, session.count)
    time.sleep(APART)
    made = take(daemon, watched)
    time.sleep(APART)
    put(watched, b"f", b"two\n")
    pushed = run(session, PUSH + "git push origin main")
    failed = run(session, "ssh host deploy", is_error=True)
    run(session, "git log && curl https://example.com")
    session.write(session.user("<bash-input>kubectl delete pod x</bash-input>"))
    session.end_turn()
    settle(daemon, watched, session.count)
    planned = daemon.call("checkpoint.restore", project=watched, id=made["id"], dry_run=True)
    assert [(one["kind"], one["command"], one["call_id"], one["is_error"]) for one in planned["side_effects"]] == [
        ("cluster", "kubectl delete pod x", None, False),
        ("remote", "ssh host deploy", failed, True),
        ("push", "git push origin main", pushed, False),
    ]
    assert {one["session_id"] for one in planned["side_effects"]} == {session.session}
    assert all(made["timestamp"] < one["timestamp"] <= stamp(time.time_ns()) for one in planned["side_effects"])
    text = daemon.client("restore", made["id"], "--dry-run", "--project", str(watched)).stdout
    assert "  no restore undoes: kubectl delete pod x (" in text
    assert "ssh host deploy (" in text and ", failed)" in text
    done = daemon.client("restore", made["id"], "--yes", "--json", "--project", str(watched))
    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert result["side_effects"] == planned["side_effects"]
    assert "no restore undoes: git push origin main" in result["warnings"]
    assert (watched / "f").read_bytes() == b"one\n"


def test_S10_a_restore_beside_a_session_at_work_waits_for_quiet(daemon: DaemonFixture, watched: Path) -> None:
    made = take(daemon, watched)
    put(watched, b"f", b"two\n")
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("make it better")
    session.write(session.call("toolu_1", "Bash", input={"command": "make"}))
    settle(daemon, watched, session.count)
    planned = daemon.call("checkpoint.restore", project=watched, id=made["id"], dry_run=True)
    assert planned["warnings"] == [f"session {session.session[:8]} is at work: the restore waits for a pause"]
    done: dict[str, Any] = {}
    waiting = threading.Thread(target=lambda: done.update(restore(daemon, watched, made["id"], wait_seconds=60)))
    waiting.start()
    time.sleep(2.5)  # longer than a pause
    assert (watched / "f").read_bytes() == b"two\n"
    session.write(session.result("toolu_1", told={}))
    waiting.join(30)
    assert done["plan"]["write"] == ["f"]
    assert (watched / "f").read_bytes() == b"one\n"


def test_S10_who_is_not_quiet_in_time_is_busy_and_force_goes_on(daemon: DaemonFixture, watched: Path) -> None:
    made = take(daemon, watched)
    put(watched, b"f", b"two\n")
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("make it better")
    session.write(session.call("toolu_1", "Bash", input={"command": "cd ~/src/mulligan && make"}))
    settle(daemon, watched, session.count)
    assert at_work(daemon, watched) == [True]
    with pytest.raises(RpcError) as refused:
        restore(daemon, watched, made["id"], wait_seconds=0.2)
    assert (refused.value.code, refused.value.data["exit_status"]) == ("busy", 8)
    assert refused.value.data["sessions"] == [session.session] and "--force" in refused.value.hint
    assert (watched / "f").read_bytes() == b"two\n"
    assert daemon.client("restore", made["id"], "--yes", "--project", str(watched)).returncode == 8
    assert daemon.client("restore", made["id"], "--yes", "--force", "--project", str(watched)).returncode == 0
    assert (watched / "f").read_bytes() == b"one\n"


@pytest.mark.parametrize(
    ("command", "environment"),
    [("cd src && mulligan restore 2 --yes", {}), ("make undo", {"CLAUDE_CODE_SESSION_ID": ""})],
)
def test_S10_an_agent_does_not_wait_for_its_own_command(
    daemon: DaemonFixture, watched: Path, command: str, environment: dict[str, str]
) -> None:
    made = take(daemon, watched)
    put(watched, b"f", b"two\n")
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("take it back")
    session.write(session.call("toolu_1", "Bash", input={"command": command}))
    settle(daemon, watched, session.count)
    daemon.env |= dict.fromkeys(environment, session.session)
    done = daemon.client("restore", made["id"], "--yes", "--json", "--project", str(watched))
    assert (done.returncode, json.loads(done.stdout)["plan"]["write"]) == (0, ["f"]), done.stderr
    assert (watched / "f").read_bytes() == b"one\n"


def test_S10_nobody_waits_for_the_end_of_a_turn_or_for_a_call_that_only_reads(
    daemon: DaemonFixture, watched: Path
) -> None:
    made = take(daemon, watched)
    put(watched, b"f", b"two\n")
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("make it better")
    session.write(session.call("toolu_1", "WebFetch", input={"url": "https://example.com"}))
    settle(daemon, watched, session.count)
    restore(daemon, watched, made["id"])
    assert at_work(daemon, watched) == [True]
    assert (watched / "f").read_bytes() == b"one\n"


def test_S10_another_projects_session_keeps_nobody_waiting(daemon: DaemonFixture, watched: Path) -> None:
    made = take(daemon, watched)
    other = daemon.projects / "other"
    other.mkdir()
    daemon.add(other)
    session = LiveTranscript(daemon.claude_dir, other)
    session.prompt("make it better")
    session.write(session.call("toolu_1", "Bash", input={"command": "make"}))
    daemon.until(lambda: at_work(daemon, other) == [True])
    restore(daemon, watched, made["id"], wait_seconds=0)
