"""A configuration that is broken, and one that changes while the daemon runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import DaemonFixture, RpcError
from support.stored import status, take
from support.trees import put

BROKEN = [
    ("strategy: smart\nstrateggy: manual\n", "strateggy"),
    ("strategy: [\n", "2"),
    ("auto_checkpoint: yes\n", "auto_checkpoint"),
    ("max_file_bytes: -1\n", "max_file_bytes"),
    ("strategy: smart\nstrategy: manual\n", "strategy"),
    ("budget_bytes: 10 MB\nexclude: /not/a/list\n", "exclude"),
    ("- a list\n", "1"),
]


@pytest.mark.parametrize(("text", "named"), BROKEN)
def test_V4_a_broken_configuration_is_refused_with_file_and_line(
    daemon_factory: Callable[..., DaemonFixture], text: str, named: str
) -> None:
    daemon = daemon_factory(start=False, config=text)
    daemon.start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(30) == 78
    assert f"{daemon.config_file}:" in daemon.log()
    assert named in daemon.log()
    assert not daemon.socket.exists()
    assert not daemon.data_dir.exists(), "nothing was made for it"


def test_V4_a_configuration_that_may_not_be_read_is_refused(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(start=False, config="strategy: manual\n")
    os.chmod(daemon.config_file, 0)
    daemon.start(wait=False)
    assert daemon.process is not None
    assert daemon.process.wait(30) == 78
    assert str(daemon.config_file) in daemon.log()


def strategy(daemon: DaemonFixture, project: Path) -> object:
    return daemon.call("settings.get", project=project, key="strategy")["settings"]["strategy"]["value"]


@pytest.mark.parametrize("how", ["request", "signal"])
def test_V4_a_reload_takes_a_valid_configuration_and_keeps_the_old_one_else(
    daemon_factory: Callable[..., DaemonFixture], how: str
) -> None:
    daemon = daemon_factory(config="strategy: per_prompt\n")
    project = daemon.projects / "project"
    put(project, b"file", b"one\n")
    daemon.add(project)

    def reload() -> str:
        if how == "request":
            try:
                daemon.call("daemon.reload")
            except RpcError as error:
                assert error.code == "config"
                assert error.data["exit_status"] == 78
                return str(error)
            return ""
        said = len(daemon.log())
        os.kill(daemon.pid, signal.SIGHUP)
        ends = ("read again", "not taken")
        return str(daemon.until(lambda: [new for new in [daemon.log()[said:]] if any(end in new for end in ends)])[0])

    assert strategy(daemon, project) == "per_prompt"
    for text, named in BROKEN:
        daemon.config_file.write_text(text)
        said = reload()
        assert f"{daemon.config_file}:" in said
        assert named in said
        assert strategy(daemon, project) == "per_prompt"
    daemon.config_file.write_text("strategy: manual\n")
    reload()
    daemon.until(lambda: strategy(daemon, project) == "manual")
    assert daemon.running
    take(daemon, project)


def test_a_reload_changes_the_size_limit_of_watched_projects(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory(config="max_file_bytes: 1 KiB\n")
    project = daemon.projects / "project"
    put(project, b"big", b"x" * 2000)
    daemon.add(project)
    assert [item["path"] for item in take(daemon, project)["incomplete_paths"]] == ["big"]
    daemon.config_file.write_text("max_file_bytes: 1 MiB\n")
    daemon.call("daemon.reload")
    daemon.until(lambda: take(daemon, project)["complete"], 10, "the larger limit is not in effect")
    daemon.config_file.write_text("max_file_bytes: 1 KiB\n")
    daemon.call("daemon.reload")
    put(project, b"big", b"y" * 3000)
    assert [item["path"] for item in take(daemon, project)["incomplete_paths"]] == ["big"]


def test_a_reload_that_excludes_a_watched_project_ends_its_watching(
    daemon_factory: Callable[..., DaemonFixture],
) -> None:
    daemon = daemon_factory()
    project, other = daemon.projects / "project", daemon.projects / "other"
    for root in (project, other):
        put(root, b"file", b"one\n")
        daemon.add(root)
    take(daemon, project)
    daemon.config_file.write_text(f"exclude: [{project}]\n")
    daemon.call("daemon.reload")
    watched = daemon.until(
        lambda: (
            [item["path"] for item in daemon.call("daemon.status")["projects"] if item["state"] == "watching"]
            == [str(other)]
        ),
        10,
        "an excluded project is still watched",
    )
    assert watched
    assert status(daemon, other)["state"] == "watching"
    with pytest.raises(RpcError) as caught:
        daemon.call("project.add", project=project)
    assert caught.value.code == "refused"
    daemon.restart()
    states = {item["path"]: item["state"] for item in daemon.call("daemon.status")["projects"]}
    assert states.get(str(project)) in (None, "excluded")
    put(project, b"file", b"while nobody watched\n")
    daemon.config_file.write_text("exclude: []\n")
    daemon.call("daemon.reload")
    daemon.until(lambda: status(daemon, project)["state"] == "watching")
    made = take(daemon, project)
    assert made["metadata"]["modified"] == 1


def test_a_reload_includes_a_directory(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = daemon_factory()
    project = daemon.projects / "project"
    put(project, b"file", b"one\n")
    assert daemon.call("daemon.status")["projects"] == []
    daemon.config_file.write_text(f"include: [{project}]\n")
    daemon.call("daemon.reload")
    daemon.until(lambda: any(item["path"] == str(project) for item in daemon.call("daemon.status")["projects"]), 10)
    daemon.until(lambda: status(daemon, project)["state"] == "watching")
