"""Sessions in places that are not protected: counted, said once, and never a reason to stop following the others."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from support.daemon import DaemonFixture
from support.live_transcript import (
    LiveTranscript,
    await_checkpoint,
    checkpoints,
    session_of,
    settle,
    transcripts,
)
from support.stored import status, tree_of
from support.trees import put, snapshot


def unprotected(daemon: DaemonFixture) -> dict[str, str]:
    """{path: reason} as `daemon.status` tells it."""
    return {item["path"]: item["reason"] for item in transcripts(daemon)["unprotected"]}


def await_lines(daemon: DaemonFixture, count: int) -> None:
    """Wait until so many lines were read."""
    daemon.until(lambda: transcripts(daemon)["lines"] >= count, what=f"{count} lines were not read")


def per_prompt(daemon: DaemonFixture) -> None:
    daemon.call("settings.set", key="strategy", value="per_prompt", scope="global")


def test_W6_places_that_must_not_be_watched_are_refused_with_a_reason(
    daemon_factory: Callable[..., DaemonFixture],
) -> None:
    daemon = daemon_factory(start=False)
    excluded, gone = daemon.projects / "excluded", daemon.projects / "gone"
    excluded.mkdir()
    daemon.config_file.write_text(f"strategy: per_prompt\nexclude: ['{excluded}']\n")
    daemon.start()
    reasons = {
        daemon.home: "it holds the home directory",
        Path("/"): "it holds the home directory",
        daemon.data_dir: "it lies in mulligan's own store",
        daemon.directory: "it holds the home directory",
        excluded: "it is excluded",
        gone: "the directory does not exist",
    }
    sessions = [LiveTranscript(daemon.claude_dir, place) for place in reasons]
    for number in range(3):
        for session in sessions:
            session.prompt(f"prompt {number}")
            session.end_turn()
    project = daemon.projects / "project"
    project.mkdir()
    LiveTranscript(daemon.claude_dir, project).prompt("beside them")
    await_checkpoint(daemon, project, "prompt")
    await_lines(daemon, 37)
    assert unprotected(daemon) == {str(place): reason for place, reason in reasons.items()}
    for place in reasons:
        assert daemon.log().count(f"{place} is not protected") == 1, place
    assert [item["path"] for item in daemon.call("daemon.status")["projects"]] == [str(project)]


def test_a_directory_that_comes_to_be_or_is_added_by_hand_is_protected_from_then_on(
    daemon_factory: Callable[..., DaemonFixture],
) -> None:
    daemon = daemon_factory(start=False)
    daemon.config_file.write_text("strategy: per_prompt\nmax_project_files: 3\n")
    daemon.start()
    later, big = daemon.projects / "later", daemon.projects / "big"
    for number in range(5):
        put(big, b"f%d" % number, b"x\n")
    sessions = [LiveTranscript(daemon.claude_dir, place) for place in (later, big)]
    for session in sessions:
        session.prompt("not protected")
    await_lines(daemon, 2)
    assert unprotected(daemon) == {
        str(later): "the directory does not exist",
        str(big): "it has no version control and more than 3 files",
    }
    found = {item["path"]: item["reason"] for item in daemon.call("project.list", found=True)["found"]}
    assert found == unprotected(daemon)
    later.mkdir()
    daemon.add(big)
    for session, place in zip(sessions, (later, big), strict=True):
        session.prompt("protected")
        assert await_checkpoint(daemon, place, "prompt")["metadata"]["user_prompt"] == "protected"
    assert unprotected(daemon) == {}


def test_auto_add_off_adds_nothing(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(start=False)
    daemon.config_file.write_text("auto_add: false\n")
    project = daemon.projects / "project"
    project.mkdir()
    daemon.start()
    session = LiveTranscript(daemon.claude_dir, project)
    session.prompt("one")
    await_lines(daemon, 1)
    assert unprotected(daemon) == {str(project): "auto_add is off"}
    daemon.config_file.write_text("strategy: per_prompt\n")
    daemon.call("daemon.reload")
    session.prompt("two")
    assert await_checkpoint(daemon, project, "prompt")["metadata"]["user_prompt"] == "two"


def test_a_home_directory_under_version_control_does_not_swallow_the_projects_in_it(daemon: DaemonFixture) -> None:
    per_prompt(daemon)
    (daemon.home / ".git").mkdir()
    project = daemon.home / "src" / "project"
    put(project, b"a", b"a\n")
    LiveTranscript(daemon.claude_dir, project).prompt("one")
    await_checkpoint(daemon, project, "prompt")
    assert [item["path"] for item in daemon.call("daemon.status")["projects"]] == [str(project)]


def test_a_project_that_vanishes_and_comes_back(daemon: DaemonFixture, project: Path) -> None:
    """Nothing is taken of what is not there, prompts are kept, and other projects go on."""
    per_prompt(daemon)
    other = daemon.projects / "other"
    other.mkdir()
    put(project, b"a", b"a\n")
    daemon.add(project)
    daemon.add(other)
    session, beside = LiveTranscript(daemon.claude_dir, project), LiveTranscript(daemon.claude_dir, other)
    session.prompt("one")
    await_checkpoint(daemon, project, "prompt", 1)
    away = project.with_name("away")
    project.rename(away)
    daemon.until(lambda: status(daemon, project)["state"] == "missing")
    for number in range(5):
        session.prompt(f"while it is away {number}")
    daemon.until(lambda: transcripts(daemon)["odd"].get("no checkpoint: missing", 0) >= 5)
    for number in range(3):
        beside.prompt(f"beside {number}")
    await_checkpoint(daemon, other, "prompt", 3)
    away.rename(project)
    before = snapshot(project)
    daemon.until(lambda: status(daemon, project)["state"] == "watching")
    session.prompt("back")
    made = await_checkpoint(daemon, project, "prompt", 2)
    assert made["metadata"]["user_prompt"] == "back"
    assert tree_of(daemon, project, made["id"]) == before
    assert session_of(daemon, project, session.session)["prompts"] == 7
    assert daemon.log().count("no checkpoints are taken: it is missing") == 1
    assert "could not be executed" not in transcripts(daemon)["odd"]


def test_a_paused_project_takes_none_and_goes_on_after_it(daemon: DaemonFixture, project: Path) -> None:
    per_prompt(daemon)
    daemon.add(project)
    session = LiveTranscript(daemon.claude_dir, project)
    session.prompt("one")
    await_checkpoint(daemon, project, "prompt", 1)
    daemon.call("project.pause", project=project)
    session.prompt("two")
    daemon.until(lambda: transcripts(daemon)["odd"].get("no checkpoint: paused", 0) >= 1)
    daemon.call("project.resume", project=project)
    session.prompt("three")
    made = await_checkpoint(daemon, project, "prompt", 2)
    assert made["metadata"]["user_prompt"] == "three"


def test_a_project_that_is_removed_in_the_middle_of_a_session(daemon: DaemonFixture, project: Path) -> None:
    per_prompt(daemon)
    daemon.add(project)
    session = LiveTranscript(daemon.claude_dir, project)
    session.prompt("one")
    await_checkpoint(daemon, project, "prompt", 1)
    daemon.call("project.remove", project=project)
    session.prompt("two")
    daemon.until(lambda: unprotected(daemon) == {str(project): "it is excluded"})
    read = transcripts(daemon)["lines"]
    session.prompt("three")
    await_lines(daemon, read + 1)
    daemon.add(project)
    session.prompt("four")
    made = await_checkpoint(daemon, project, "prompt", 2)
    assert made["metadata"]["user_prompt"] == "four"


def test_a_full_disk_loses_no_prompt(daemon: DaemonFixture, project: Path) -> None:
    """What could not be written is done when it can be, in the same order, each once."""
    per_prompt(daemon)
    daemon.add(project)
    session = LiveTranscript(daemon.claude_dir, project)
    session.prompt("one")
    await_checkpoint(daemon, project, "prompt", 1)
    daemon.stop()
    daemon.arm("checkpoint.before_commit=enospc@1")
    daemon.start()
    before = snapshot(project)
    session.prompt("two")
    daemon.until(daemon.faults_hit, what="the fault was not met")
    put(project, b"after", b"after\n")
    session.prompt("three")
    await_checkpoint(daemon, project, "prompt", 3)
    made = checkpoints(daemon, project, "prompt")
    assert [one["metadata"]["user_prompt"] for one in made] == ["one", "two", "three"]
    assert tree_of(daemon, project, made[1]["id"]) == before
    assert session_of(daemon, project, session.session)["prompts"] == 3
    assert transcripts(daemon)["odd"] == {"could not be executed": 1}


def test_an_inner_directory_is_its_outer_projects_until_it_is_one_itself(daemon: DaemonFixture, project: Path) -> None:
    per_prompt(daemon)
    inner = project / "inner"
    put(project, b"inner/deep/a", b"a\n")
    subprocess.run(["git", "init", "-q", str(inner)], check=True)
    daemon.add(project)
    session = LiveTranscript(daemon.claude_dir, inner / "deep")
    session.prompt("one")
    assert await_checkpoint(daemon, project, "prompt")["metadata"]["user_prompt"] == "one"
    daemon.add(inner)
    session.prompt("two")
    made = await_checkpoint(daemon, inner, "prompt")
    assert made["metadata"]["user_prompt"] == "two"
    assert tree_of(daemon, inner, made["id"]) == snapshot(inner)
    assert len(checkpoints(daemon, project, "prompt")) == 1
    assert session_of(daemon, inner, session.session)["prompts"] == 2


def test_the_agents_directory_is_swept_away_and_made_again(daemon: DaemonFixture, project: Path) -> None:
    per_prompt(daemon)
    daemon.add(project)
    LiveTranscript(daemon.claude_dir, project).prompt("one")
    await_checkpoint(daemon, project, "prompt", 1)
    shutil.rmtree(daemon.claude_dir)
    daemon.claude_dir.mkdir()
    settle(daemon, project, 1)
    LiveTranscript(daemon.claude_dir, project).prompt("two")
    await_checkpoint(daemon, project, "prompt", 2)
