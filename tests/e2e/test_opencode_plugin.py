"""The plugin for OpenCode by itself: its types, what OpenCode 2 would call, and a daemon that goes and comes back.

OpenCode 2 is not to be had from npm, so what its API is stands in `support/opencode-plugin/second.mjs`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, stopped
from support.live_transcript import await_checkpoint, checkpoints, session_of
from support.opencode import new_session
from support.real_client import UnavailableError
from support.real_opencode import install
from support.trees import put

pytestmark = pytest.mark.opencode

PLUGIN = Path(__file__).resolve().parents[2] / "daemon/mulligan/agents/plugins/opencode/mulligan.js"
SUPPORT = Path(__file__).resolve().parents[1] / "support/opencode-plugin"


def test_the_plugin_has_the_types_of_both_apis(tmp_path: Path) -> None:
    try:
        packages = install()
    except UnavailableError as error:
        pytest.skip(f"OpenCode: {error}")
    for name in ("check.ts", "tsconfig.json"):
        shutil.copy(SUPPORT / name, tmp_path / name)
    shutil.copy(PLUGIN, tmp_path / "mulligan.mjs")
    (tmp_path / "node_modules").symlink_to(packages / "node_modules")
    compiler = tmp_path / "node_modules/typescript/bin/tsc"
    done = subprocess.run(["node", str(compiler)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


class Second:
    """OpenCode 2 with the plugin, in a process."""

    def __init__(self, daemon: DaemonFixture, project: Path, env: dict[str, str] | None = None) -> None:
        node = shutil.which("node")
        if node is None:
            pytest.skip("node is not installed")
        plugin = daemon.directory / "mulligan.mjs"
        shutil.copy(PLUGIN, plugin)
        self.session = new_session()
        self.process = subprocess.Popen(
            [node, str(SUPPORT / "second.mjs"), str(plugin), str(project)],
            env=env or daemon.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def send(self, **what: Any) -> dict[str, Any]:
        """One hook or event; what has become of it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def hook(self, name: str, **event: Any) -> dict[str, Any]:
        return self.send(hook=name, event={"sessionID": self.session, **event})

    def event(self, name: str, **data: Any) -> dict[str, Any]:
        return self.send(type=name, data={"sessionID": self.session, **data})

    def prompt(self, text: str) -> None:
        self.hook("session.prompt", messageID=f"msg_{new_session()}", prompt={"text": text}, delivery="steer")

    def write(self, path: Path, data: bytes, **more: Any) -> str:
        """A call of `write` that succeeds, or fails if `more` says so; its id."""
        call = f"call_{new_session()}"
        arguments = {"filePath": str(path), "content": data.decode()}
        told = self.hook("tool.execute.before", tool="write", id=call, input=arguments)
        assert told["event"]["input"] == arguments
        path.write_bytes(data)
        self.hook("tool.execute.after", tool="write", id=call, input=arguments, **{"status": "completed", **more})
        return call

    def end(self) -> tuple[int, str, str]:
        """End it as OpenCode does; (status, the rest of what it said)."""
        out, errors = self.process.communicate(timeout=20)
        return self.process.returncode, out, errors


@pytest.fixture
def project(daemon: DaemonFixture) -> Path:
    """A protected project with one file."""
    project = daemon.projects / "project"
    put(project, b"a.txt", b"one\n")
    daemon.add(project)
    return project


@pytest.fixture
def second(daemon: DaemonFixture, project: Path) -> Iterator[Second]:
    made = Second(daemon, project)
    yield made
    made.process.kill()
    made.process.communicate()


def test_the_second_api_leads_to_the_same(daemon: DaemonFixture, project: Path, second: Second) -> None:
    second.event("session.created")
    second.prompt("go")
    second.event("session.step.started", assistantMessageID="msg_answer", model={"id": "mock-2"})
    first = second.write(project / "a.txt", b"two\n")
    failed = second.write(project / "b.txt", b"half\n", status="error", error={"message": "no"})
    tokens = {"input": 3, "output": 4, "reasoning": 5, "cache": {"read": 6, "write": 7}}
    second.event("session.step.ended", assistantMessageID="msg_answer", tokens=tokens)
    second.event("session.execution.succeeded")
    assert second.end() == (0, "", "")
    await_checkpoint(daemon, project, "tool_use", 2)
    made = [(one["tool"]["id"], one["tool"]["is_error"]) for one in checkpoints(daemon, project, "tool_use")]
    assert made == [(first, False), (failed, True)]
    daemon.until(lambda: not session_of(daemon, project, second.session)["at_work"])
    session = session_of(daemon, project, second.session)
    assert (session["prompts"], session["calls"], session["metadata"]["total_tokens"]) == (1, 2, 25)
    assert session["metadata"]["model_used"] == "mock-2"


def test_a_child_that_was_born_before_the_plugin_is_its_roots(
    daemon: DaemonFixture, project: Path, second: Second
) -> None:
    second.prompt("go")
    root, second.session = second.session, new_session()
    second.send(child=second.session, parent=root)
    second.write(project / "a.txt", b"by the child\n")
    assert second.end() == (0, "", "")
    assert await_checkpoint(daemon, project, "tool_use")["session_id"] == root


def test_a_compaction_is_told_the_state_and_nothing_else_changes(
    daemon: DaemonFixture, project: Path, second: Second
) -> None:
    second.prompt("go")
    daemon.until(lambda: session_of(daemon, project, second.session)["prompts"] == 1)
    daemon.call("state.save", project=project, session=second.session, state={"title": "The bridge"})
    told = second.hook("session.compaction", system=[{"type": "text", "text": "theirs"}], messages=[])["event"]
    assert told["system"][0] == {"type": "text", "text": "theirs"}
    assert [part["type"] for part in told["system"]] == ["text", "text"]
    assert "The bridge" in told["system"][1]["text"]
    assert (told["messages"], "result" in told) == ([], False)


def test_what_was_not_acknowledged_is_told_again(daemon: DaemonFixture, project: Path, second: Second) -> None:
    second.prompt("before")
    second.write(project / "a.txt", b"before\n")
    daemon.restart(kill=True)
    second.prompt("behind")
    second.write(project / "a.txt", b"behind\n")
    daemon.kill9()
    second.prompt("away")
    call = f"call_{new_session()}"
    took = second.hook("tool.execute.before", tool="bash", id=call, input={"command": "true"})["milliseconds"]
    assert took < 100
    second.hook("tool.execute.after", tool="bash", id=call, input={}, status="completed", result={})
    daemon.start()
    daemon.until(lambda: session_of(daemon, project, second.session)["prompts"] == 3, 40)
    daemon.until(lambda: session_of(daemon, project, second.session)["calls"] == 3)
    assert second.end() == (0, "", "")
    assert session_of(daemon, project, second.session)["calls"] == 3


def test_a_daemon_that_hangs_costs_a_call_200_ms(daemon: DaemonFixture, project: Path, second: Second) -> None:
    second.prompt("go")
    with stopped(daemon):
        call = f"call_{new_session()}"
        took = second.hook("tool.execute.before", tool="bash", id=call, input={"command": "true"})["milliseconds"]
        assert 150 < took < 400
        behind = second.hook("tool.execute.after", tool="bash", id=call, input={}, status="completed")["milliseconds"]
        assert behind < 100
    assert second.end() == (0, "", "")


@pytest.mark.parametrize("place", ["socket", "state directory", "default place", "runtime directory"])
def test_the_socket_is_found_where_the_client_looks(daemon_factory: Callable[..., DaemonFixture], place: str) -> None:
    daemon = daemon_factory(start=False)
    if place == "runtime directory":
        daemon.env["MULLIGAN_SOCKET"] = str(daemon.directory / "run/mulligan/control.sock")
        daemon.socket = daemon.directory / "run/mulligan/control.sock"
    daemon.start()
    project = daemon.projects / "project"
    put(project, b"a.txt", b"one\n")
    daemon.add(project)
    kept = {"socket": ["MULLIGAN_SOCKET"], "state directory": ["MULLIGAN_STATE_DIR"]}.get(place, [])
    env = {name: value for name, value in daemon.env.items() if not name.startswith("MULLIGAN_") or name in kept}
    if place == "default place":
        (daemon.home / ".local/state").mkdir(parents=True)
        os.symlink(daemon.state_dir, daemon.home / ".local/state/mulligan")
        env["XDG_STATE_HOME"] = str(daemon.directory / "elsewhere")
    agent = Second(daemon, project, env)
    agent.prompt("go")
    assert agent.end() == (0, "", "")
    assert session_of(daemon, project, agent.session)["prompts"] == 1
