"""The daemon ends and comes back in the middle of a session: the same checkpoints as without that, none twice."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mulligan.model import Flag
from support.daemon import DaemonFixture
from support.live_transcript import (
    APART,
    LiveTranscript,
    await_checkpoint,
    checkpoints,
    now,
    replace,
    session_of,
    settle,
    transcripts,
)
from support.stored import rows, tree_of
from support.trees import Snapshot, put, snapshot


@pytest.fixture
def watched(daemon: DaemonFixture, project: Path) -> Path:
    """A project that is protected and takes a checkpoint at each tool use."""
    daemon.call("settings.set", key="strategy", value="per_tool_use", scope="global")
    put(project, b"a", b"0\n")
    daemon.add(project)
    return project


@pytest.mark.parametrize("kill", [False, True], ids=["clean", "kill9"])
def test_a_restart_in_between_gives_the_same_checkpoints_none_twice(
    daemon: DaemonFixture, watched: Path, kill: bool
) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    trees: dict[str, Snapshot] = {}
    for number in range(1, 7):
        session.prompt(f"p{number}")
        time.sleep(0.02)
        tool = session.put_call(watched / "a", b"%d\n" % number)
        trees[tool] = snapshot(watched)
        time.sleep(0.02)
        session.end_turn()
        if number in (2, 4):
            daemon.restart(kill=kill)
    await_checkpoint(daemon, watched, "tool_use", 6)
    daemon.restart(kill=kill)
    settle(daemon, watched, 0)
    made = checkpoints(daemon, watched, "tool_use")
    assert [one["tool"]["id"] for one in made] == list(trees)
    for one in made:
        assert one["complete"], one
        assert tree_of(daemon, watched, one["id"]) == trees[one["tool"]["id"]]
    assert session_of(daemon, watched, session.session)["prompts"] == 6
    parents = [one["parent_checkpoint_id"] for one in made]
    assert parents[1:] == [one["id"] for one in made[:-1]]


@pytest.mark.parametrize("kill", [False, True], ids=["clean", "kill9"])
def test_what_was_written_while_the_daemon_was_away_is_read_at_its_start(
    daemon: DaemonFixture, watched: Path, kill: bool
) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("one")
    session.put_call(watched / "a", b"1\n")
    await_checkpoint(daemon, watched, "tool_use", 1)
    if kill:
        daemon.kill9()
    else:
        daemon.stop()
    time.sleep(0.05)
    session.prompt("two, unseen")
    time.sleep(0.05)
    tool = session.put_call(watched / "b", b"made unseen\n")
    after = snapshot(watched)
    time.sleep(0.05)
    session.end_turn()
    new = LiveTranscript(daemon.claude_dir, watched)
    new.prompt("a session that nobody saw begin")
    daemon.start()
    made = await_checkpoint(daemon, watched, "tool_use", 2)
    assert made["tool"]["id"] == tool
    assert tree_of(daemon, watched, made["id"]) == after
    daemon.until(lambda: session_of(daemon, watched, session.session)["prompts"] == 2)
    daemon.until(lambda: len(daemon.call("session.list", project=watched)["sessions"]) == 2)
    assert session_of(daemon, watched, new.session)["prompts"] == 1


@pytest.mark.parametrize("point", ["checkpoint.before_commit", "checkpoint.committed"])
def test_killed_at_a_checkpoint_it_is_there_once_afterwards(daemon: DaemonFixture, watched: Path, point: str) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("one")
    daemon.stop()
    daemon.arm(f"{point}=kill")
    daemon.start()
    tree: dict[str, Snapshot] = {}

    def write(data: bytes) -> None:
        tool = session.put_call(watched / "a", data)
        tree[tool] = snapshot(watched)

    write(b"1\n")
    daemon.until(lambda: not daemon.running, what=f"{point} was not met")
    for data in (b"2\n", b"3\n"):
        time.sleep(0.03)
        write(data)
    daemon.arm("")
    daemon.start()
    await_checkpoint(daemon, watched, "tool_use", 3)
    settle(daemon, watched, 0)
    made = checkpoints(daemon, watched, "tool_use")
    assert [one["tool"]["id"] for one in made] == list(tree)
    assert session_of(daemon, watched, session.session)["prompts"] == 1
    listed = [[item["path"] for item in one["incomplete_paths"]] for one in made]
    assert listed[1:] == [["a"], []], "what came and went while nobody looked is named"
    # Killed before it was committed: if the call ended behind the last look, nobody knows what stood there in between.
    assert listed[0] == [] or (point == "checkpoint.before_commit" and listed[0] == ["a"])
    for one in (made[0], made[2]):
        assert tree_of(daemon, watched, one["id"]) == tree[one["tool"]["id"]]


def test_an_idle_restart_reads_and_takes_nothing(daemon: DaemonFixture, watched: Path) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("one")
    session.put_call(watched / "a", b"1\n")
    session.end_turn()
    await_checkpoint(daemon, watched, "tool_use", 1)
    settle(daemon, watched, 4)
    before = [made["id"] for made in checkpoints(daemon, watched)]
    daemon.restart()
    settle(daemon, watched, 0)
    assert transcripts(daemon)["lines"] <= 1, "the file was read again"
    assert [made["id"] for made in checkpoints(daemon, watched)] == before


def test_S20_settings_of_all_scopes_are_remembered_over_restarts(
    daemon_factory: Callable[..., DaemonFixture],
) -> None:
    daemon = daemon_factory()
    one, two = daemon.projects / "one", daemon.projects / "two"
    for root in (one, two):
        root.mkdir()
        daemon.add(root)
    sessions = {name: LiveTranscript(daemon.claude_dir, one) for name in ("manual", "project")}
    other = LiveTranscript(daemon.claude_dir, two)
    for session in (*sessions.values(), other):
        session.prompt("hello")
    daemon.until(lambda: len(daemon.call("session.list", all=True)["sessions"]) == 3)
    manual = sessions["manual"].session
    daemon.call("settings.set", key="strategy", value="manual", project=one, session=manual)
    daemon.call("settings.set", key="strategy", value="per_prompt", project=one)
    daemon.call("settings.set", key="turn_end", value="false", scope="global")
    for kill in (False, True):
        daemon.restart(kill=kill)
        got = daemon.call("settings.get", project=one, session=manual)["settings"]
        assert got["strategy"] == {"value": "manual", "source": "session"}
        assert got["turn_end"] == {"value": False, "source": "global"}
        assert daemon.call("settings.get", project=one)["settings"]["strategy"]["source"] == "project"
        assert daemon.call("settings.get", project=two)["settings"]["strategy"]["source"] == "config"
        sessions["manual"].prompt("takes none")
        sessions["manual"].put_call(one / "f", b"by %d\n" % kill)
        sessions["manual"].end_turn()
        sessions["project"].prompt("takes one")
        other.prompt("takes none at a prompt")
        other.put_call(two / "g", b"smart %d\n" % kill)
        made = await_checkpoint(daemon, one, "prompt", 1 + kill)
        assert (made["session_id"], made["strategy"]) == (sessions["project"].session, "per_prompt")
        assert await_checkpoint(daemon, two, "tool_use", 1 + kill)["strategy"] == "smart"
    assert {made["session_id"] for made in checkpoints(daemon, one, "prompt")} == {sessions["project"].session}
    assert checkpoints(daemon, one, "tool_use", "turn_end") == checkpoints(daemon, two, "prompt", "turn_end") == []


def test_auto_checkpoint_off_takes_none_and_still_knows_the_session(daemon: DaemonFixture, watched: Path) -> None:
    daemon.call("settings.set", key="auto_checkpoint", value="off", project=watched)
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("one")
    session.put_call(watched / "a", b"1\n")
    session.end_turn()
    settle(daemon, watched, 4)
    assert [made["trigger"] for made in checkpoints(daemon, watched)] == ["baseline"]
    shown = session_of(daemon, watched, session.session)
    assert (shown["prompts"], shown["calls"]) == (1, 1)


def test_B2_a_checkpoint_of_long_ago_is_placed_behind_the_ones_before_it(daemon: DaemonFixture, watched: Path) -> None:
    """A line that comes very late is inserted into its branch; what is current stays current."""
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("one")
    session.put_call(watched / "a", b"1\n")
    first = await_checkpoint(daemon, watched, "tool_use", 1)
    time.sleep(0.03)
    replace(watched / "a", b"between\n")
    between = snapshot(watched)
    time.sleep(0.03)
    late = [session.call("toolu_late", "Bash", input={"command": "true"}, at=now()), session.result("toolu_late")]
    time.sleep(0.03)
    session.put_call(watched / "a", b"2\n")
    second = await_checkpoint(daemon, watched, "tool_use", 2)
    session.write(*late)
    daemon.until(lambda: len(checkpoints(daemon, watched, "tool_use")) == 3)
    made = {one["tool"]["id"]: one for one in checkpoints(daemon, watched, "tool_use")}
    assert tree_of(daemon, watched, made["toolu_late"]["id"]) == between
    assert made["toolu_late"]["parent_checkpoint_id"] == first["id"]
    assert made[second["tool"]["id"]]["parent_checkpoint_id"] == made["toolu_late"]["id"]
    timeline = daemon.call("timeline.get", project=watched, session=session.session)
    assert timeline["current_checkpoint_id"] == second["id"]
    assert os.path.samefile(made["toolu_late"]["project_path"], watched)


@pytest.mark.parametrize("name", ["a", "new", "made/new"])
@pytest.mark.parametrize("kill", [False, True], ids=["clean", "kill9"])
def test_what_came_and_went_while_nobody_looked_is_named(
    daemon: DaemonFixture, watched: Path, kill: bool, name: str
) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    session.prompt("one")
    session.put_call(watched / "b", b"0\n")
    await_checkpoint(daemon, watched, "tool_use", 1)
    if kill:
        daemon.kill9()
    else:
        daemon.stop()
    put(watched, b"made/beside", b"0\n")
    time.sleep(APART)
    session.put_call(watched / name, b"came and went\n")
    time.sleep(APART)
    session.put_call(watched / name, b"stayed\n")
    after = snapshot(watched)
    time.sleep(APART)
    daemon.start()
    await_checkpoint(daemon, watched, "tool_use", 3)
    _, lost, kept = checkpoints(daemon, watched, "tool_use")
    assert name in [item["path"] for item in lost["incomplete_paths"]]
    assert not lost["complete"]
    assert kept["complete"]
    assert tree_of(daemon, watched, kept["id"]) == after


def test_what_a_kill_left_unproven_was_there_before_the_gap(daemon: DaemonFixture, watched: Path) -> None:
    session = LiveTranscript(daemon.claude_dir, watched)
    daemon.call("watch.sync", project=watched)
    time.sleep(APART)
    spoken = now()
    time.sleep(APART)
    before = snapshot(watched)
    (watched / "link").symlink_to("a")
    daemon.call("watch.sync", project=watched)
    (row,) = rows(daemon, b"link")
    assert row[4] == Flag.UNPROVEN, "it was made too lately to be proven"
    daemon.kill9()
    daemon.start()
    daemon.call("settings.set", key="strategy", value="per_prompt", scope="global")
    session.prompt("late", spoken)
    made = await_checkpoint(daemon, watched, "prompt", 1)
    assert len(rows(daemon, b"link")) == 2, "the comparison proved it"
    assert made["complete"], made["incomplete_paths"]
    assert tree_of(daemon, watched, made["id"]) == before
