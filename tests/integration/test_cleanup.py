"""Checkpoints that leave the timeline, by name and by policy, through a real daemon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.stored import restore, take
from support.trees import put


@pytest.fixture
def history(daemon: DaemonFixture, project: Path) -> list[dict[str, Any]]:
    """Three checkpoints by hand, each of another tree, behind the baseline."""
    daemon.call("project.add", project=project)
    made = []
    for number in range(3):
        put(project, b"f", b"%d" % number)
        made.append(take(daemon, project, f"number {number}"))
    return made


def listed(daemon: DaemonFixture, project: Path) -> dict[str, str]:
    """Id to parent, of every checkpoint."""
    found = daemon.call("checkpoint.list", project=project)["checkpoints"]
    return {one["id"]: one["parent_checkpoint_id"] or "" for one in found}


def clean(daemon: DaemonFixture, project: Path, **params: Any) -> list[str]:
    found: list[str] = daemon.call("checkpoint.cleanup", project=project, confirmed=True, **params)["removed"]
    return found


def test_R16_one_is_kept_and_a_second_run_removes_nothing(
    daemon: DaemonFixture, project: Path, history: list[dict[str, Any]]
) -> None:
    would = daemon.call("checkpoint.cleanup", project=project, keep=1, dry_run=True)["removed"]
    assert len(listed(daemon, project)) == 4
    assert clean(daemon, project, keep=1) == would
    assert listed(daemon, project) == {history[2]["id"]: ""}
    assert clean(daemon, project, keep=1) == []


def test_R16_current_pinned_and_branch_points_are_kept_and_the_tree_is_one(
    daemon: DaemonFixture, project: Path, history: list[dict[str, Any]]
) -> None:
    one, two, three = (made["id"] for made in history)
    daemon.call("checkpoint.pin", project=project, id=three)
    restore(daemon, project, one)
    put(project, b"f", b"another branch")
    four = take(daemon, project)["id"]
    put(project, b"f", b"another branch, further")
    five = take(daemon, project)["id"]
    before = listed(daemon, project)
    way_back = next(made for made, parent in before.items() if made not in {one, two, three, four, five} and parent)
    removed = clean(daemon, project, keep=1)
    assert set(removed) == before.keys() - {one, three, five, way_back}
    assert listed(daemon, project) == {one: "", three: one, five: one, way_back: three}
    timeline = daemon.call("timeline.get", project=project)
    assert timeline["root_node"]["checkpoint"]["id"] == one
    assert timeline["current_checkpoint_id"] == five
    flat = daemon.call("timeline.get", project=project, flat=True)
    assert {made["id"]: made["parent_checkpoint_id"] or "" for made in flat["checkpoints"]} == listed(daemon, project)
    assert json.loads(daemon.client("timeline", "--json", cwd=project).stdout) == {"version": 1, **timeline}
    assert clean(daemon, project, keep=1) == []


def test_a_kept_checkpoint_holds_its_whole_tree(
    daemon: DaemonFixture, project: Path, history: list[dict[str, Any]]
) -> None:
    daemon.call("checkpoint.pin", project=project, id=history[1]["id"])
    clean(daemon, project, keep=1)
    restore(daemon, project, history[1]["id"])
    assert (project / "f").read_bytes() == b"1"


def test_delete_takes_one_out_and_links_the_next_to_the_one_before(
    daemon: DaemonFixture, project: Path, history: list[dict[str, Any]]
) -> None:
    one, two, three = (made["id"] for made in history)
    with pytest.raises(RpcError, match="not confirmed"):
        daemon.call("checkpoint.delete", project=project, id=two)
    assert daemon.call("checkpoint.delete", project=project, id=two, confirmed=True)["removed"] == [two]
    after = listed(daemon, project)
    assert two not in after and after[three] == one
    with pytest.raises(RpcError) as gone:
        daemon.call("checkpoint.show", project=project, id=two)
    assert gone.value.data["exit_status"] == 5
    ordinal = take(daemon, project)["ordinal"]
    assert ordinal == history[2]["ordinal"] + 1, "an ordinal is given once"
    daemon.stop()
    daemon.start()
    assert two not in listed(daemon, project)


def test_delete_refuses_where_the_project_stands_and_what_is_pinned(
    daemon: DaemonFixture, project: Path, history: list[dict[str, Any]]
) -> None:
    daemon.call("checkpoint.pin", project=project, id=history[0]["id"])
    for name, reason in ((history[2]["id"], "where the project stands"), (history[0]["id"], "is pinned")):
        with pytest.raises(RpcError, match=reason) as refused:
            daemon.call("checkpoint.delete", project=project, id=name, confirmed=True)
        assert refused.value.data["exit_status"] == 4
    assert {made["id"] for made in history} <= listed(daemon, project).keys()


def test_ages_and_the_configured_policy(daemon: DaemonFixture, project: Path, history: list[dict[str, Any]]) -> None:
    for params, reason in (({}, "nothing says what to keep"), ({"keep": 0}, "cannot keep 0"),
                           ({"older_than": "soon"}, "not a duration")):  # fmt: skip
        with pytest.raises(RpcError, match=reason) as refused:
            clean(daemon, project, **params)
        assert refused.value.data["exit_status"] == 2
    assert clean(daemon, project, older_than="1h") == []
    assert clean(daemon, project, keep=1, older_than="1h") == []
    daemon.config_file.write_text(daemon.config_file.read_text() + "keep_last: 2\n")
    daemon.call("daemon.reload")
    assert len(clean(daemon, project)) == 2
    assert listed(daemon, project) == {history[1]["id"]: "", history[2]["id"]: history[1]["id"]}


def test_the_client_shows_what_goes_and_asks(
    daemon: DaemonFixture, project: Path, history: list[dict[str, Any]]
) -> None:
    asked = daemon.client("cleanup", "--keep", "1", cwd=project)
    assert asked.returncode == 4 and "number 0" in asked.stdout and "mulligan cleanup --keep 1 --yes" in asked.stderr
    assert len(listed(daemon, project)) == 4
    done = daemon.client("cleanup", "--keep", "1", "--yes", "--json", cwd=project)
    assert done.returncode == 0 and len(json.loads(done.stdout)["removed"]) == 3
    again = daemon.client("delete", "latest", "--yes", cwd=project)
    assert again.returncode == 4 and "where the project stands" in again.stderr
