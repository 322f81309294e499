"""The real client, disturbed: the daemon dies, the client dies, a person edits, two sessions work side by side."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mulligan.transcript.tail import TailState
from support.daemon import DaemonFixture, in_parallel
from support.live_transcript import await_checkpoint, checkpoints, session_of, settle, started
from support.real_client import VERSIONS, RealClient, UnavailableError, number_of
from support.stored import reader, rows, tree_of
from support.trees import difference, put

pytestmark = [pytest.mark.real_client, pytest.mark.timeout(300)]


@pytest.fixture(params=VERSIONS)
def make_client(
    request: pytest.FixtureRequest, daemon_factory: Callable[..., DaemonFixture]
) -> Iterator[Callable[[DaemonFixture], RealClient]]:
    """Makes clients in the project of a daemon."""
    made: list[RealClient] = []

    def make(daemon: DaemonFixture) -> RealClient:
        try:
            made.append(RealClient(request.param, daemon, daemon.projects / "project"))
        except UnavailableError as error:
            pytest.skip(f"Claude Code {request.param}: {error}")
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def daemon(daemon_factory: Callable[..., DaemonFixture]) -> DaemonFixture:
    """A daemon with a protected project that takes a checkpoint at each tool use."""
    daemon = started(daemon_factory)
    project = daemon.projects / "project"
    put(project, b"keep.txt", b"keep\n")
    put(project, b"gone.txt", b"gone\n")
    put(project, b"old.txt", b"old\n")
    daemon.call("settings.set", key="strategy", value="per_tool_use", scope="global")
    daemon.add(project)
    return daemon


def all_lines(daemon: DaemonFixture) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (daemon.claude_dir / "projects").rglob("*.jsonl"))


def is_told(daemon: DaemonFixture, call: str) -> bool:
    """Whether a transcript names a call; until then a client that dies takes the knowledge of it along."""
    return any(call.encode() in path.read_bytes() for path in (daemon.claude_dir / "projects").rglob("*.jsonl"))


def await_read(daemon: DaemonFixture) -> None:
    """Wait until all that the lines up to now cause is durable, and the places behind them."""
    ends = {os.fsencode(path): path.stat().st_size for path in (daemon.claude_dir / "projects").rglob("*.jsonl")}

    def are_read() -> bool:
        catalogue = reader(daemon)
        try:
            stored = dict(catalogue.db.execute("select file, state from offset where file != x''"))
        finally:
            catalogue.close()
        places = {file: msgspec.msgpack.decode(state, type=TailState).offset for file, state in stored.items()}
        return all(places.get(file, 0) >= end for file, end in ends.items())

    daemon.until(are_read, what="not all lines were read")


def of_calls(daemon: DaemonFixture, project: Path) -> dict[str, dict[str, Any]]:
    """The checkpoints by call; none has two."""
    made = checkpoints(daemon, project, "tool_use")
    by_call = {one["tool"]["id"]: one for one in made}
    assert len(by_call) == len(made)
    return by_call


@pytest.mark.parametrize("kill", [False, True], ids=["clean", "kill9"])
def test_the_daemon_dies_while_the_client_waits(
    daemon: DaemonFixture, make_client: Callable[[DaemonFixture], RealClient], kill: bool
) -> None:
    client = make_client(daemon)

    def disturb(label: str) -> None:
        """Twice it dies with a version and its lines in the air; a version that is gone by then it has had in time."""
        if label in ("quick/1", "quick/3"):
            daemon.restart(kill=kill)
            daemon.call("watch.sync", project=client.project)
        elif label == "quick/2":
            await_checkpoint(daemon, client.project, "tool_use", 2)

    client.while_waiting = disturb
    session = client.say("often: [[quick]]")
    calls = [call for _, call in client.calls("quick")]
    await_checkpoint(daemon, client.project, "tool_use", len(calls))
    made = of_calls(daemon, client.project)
    for turn, call in enumerate(calls, 1):
        expected = client.tree_at(f"quick/{turn}")
        wrong = difference(expected, tree_of(daemon, client.project, made[call]["id"]))
        assert not wrong, "\n".join(wrong)
        assert made[call]["complete"]
    assert session_of(daemon, client.project, session)["prompts"] == 1


def test_X7_the_client_is_killed_in_the_middle_of_a_command(
    daemon: DaemonFixture, make_client: Callable[[DaemonFixture], RealClient]
) -> None:
    client = make_client(daemon)
    session = client.say("begin: [[write]]")
    with client.begin("take long: [[endless]]", session) as process:
        daemon.until((client.project / "endless.txt").exists, what="the command was not begun")
        daemon.until(lambda: is_told(daemon, client.calls("endless")[0][1]), what="no line tells of the command")
        os.killpg(process.pid, signal.SIGKILL)
    client.say("go on: [[overwrite]]", session)
    settle(daemon, client.project, all_lines(daemon))
    (call,) = [call for _, call in client.calls("endless")]
    found = rows(daemon, b"endless.txt")
    assert {(row[5], row[6]) for row in found} == {(call, "window")}
    overwrite = client.calls("overwrite")[1][1]
    assert (rows(daemon, b"keep.txt")[-1][5:]) == (overwrite, "named")


def test_a_persons_edit_between_two_prompts_is_nobodys_and_kept(
    daemon: DaemonFixture, make_client: Callable[[DaemonFixture], RealClient]
) -> None:
    daemon.call("settings.set", key="strategy", value="per_prompt", scope="global")
    client = make_client(daemon)
    session = client.say("first: [[write]]")
    (client.project / "keep.txt").write_bytes(b"by a person\n")
    client.say("second: [[bash]]", session)
    made = await_checkpoint(daemon, client.project, "prompt", 2)
    settle(daemon, client.project, all_lines(daemon))
    assert tree_of(daemon, client.project, made["id"]) == client.tree_at("bash/0")
    assert rows(daemon, b"keep.txt")[-1][5:] == ("", "")


def test_M_two_sessions_side_by_side_are_told_apart(
    daemon: DaemonFixture, make_client: Callable[[DaemonFixture], RealClient]
) -> None:
    one, two = make_client(daemon), make_client(daemon)
    sessions = in_parallel(2, lambda number: (one, two)[number].say(("[[quick]]", "[[parallel]]")[number]))
    settle(daemon, one.project, all_lines(daemon))
    made = of_calls(daemon, one.project)
    for client, session, script in ((one, sessions[0], "quick"), (two, sessions[1], "parallel")):
        calls = client.calls(script)
        assert {call for call, taken in made.items() if taken["session_id"] == session} == {call for _, call in calls}
        for tool, call in calls:
            if tool in ("Write", "Edit"):
                path = b"q.txt" if script == "quick" else b"p1.txt" if call == calls[0][1] else b"p2.txt"
                assert (call, "named") in {(row[5], row[6]) for row in rows(daemon, path)}
    assert session_of(daemon, one.project, sessions[0])["calls"] == 4
    assert session_of(daemon, one.project, sessions[1])["calls"] == 3


def test_X5_a_retracted_reply_is_taken_back(
    daemon: DaemonFixture, make_client: Callable[[DaemonFixture], RealClient]
) -> None:
    client = make_client(daemon)
    if number_of(client.version) < (2, 1, 332):
        pytest.skip(f"Claude Code {client.version} takes no reply back")
    daemon.call("settings.set", key="strategy", value="per_prompt", scope="global")
    session = client.say("first: [[write]]")

    def taken_back(label: str) -> None:
        if client.api.labels.count("retract/0") == 2:  # asked once more: the client writes that while it waits
            daemon.until(lambda: is_told(daemon, "retractedMessageUuids"), what="no line tells of it")
            await_read(daemon)

    client.while_waiting = taken_back
    client.say("take it back: [[retract]]", session)
    client.while_waiting = lambda _label: None
    assert not is_told(daemon, client.api.scripts["retract"][0]["retracted"])
    client.say("third: [[bash]]", session)
    # the line stands for less than a millisecond: whether the daemon has met it cannot be known
    await_read(daemon)
    assert len(checkpoints(daemon, client.project, "prompt")) == 3
    assert session_of(daemon, client.project, session)["prompts"] == 3
