"""Hand-offs, through a real daemon, its socket and the client."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.live_transcript import APART, LiveTranscript, settle, started
from support.stored import take
from support.trees import put

TOKEN = "tangerine-42"


def bash(live: LiveTranscript, tool: str, command: str, code: int | None) -> None:
    """A command of the agent's with its result."""
    call = live.call(tool, "Bash", input={"command": command})
    if code:
        text = f"Exit code {code}\noops {TOKEN}"
        block = {"type": "tool_result", "tool_use_id": tool, "content": text, "is_error": True}
        result = live.user([block], toolUseResult=f"Error: {text}")
    else:
        told = {"stdout": "", "stderr": "", "interrupted": code is None}
        result = live.result(tool, told=told)
    live.write(call, result)


def worked(daemon: DaemonFixture, project: Path) -> LiveTranscript:
    """A session that ran commands, changed files and saved its state."""
    put(project, b".env", f"DB_PASSWORD={TOKEN}\n".encode())
    put(project, b"a.py", b"x = 1\n")
    daemon.add(project)
    live = LiveTranscript(daemon.claude_dir, project)
    live.prompt("fix the login")
    bash(live, "t1", "pytest -q", 1)
    bash(live, "t2", f"psql -c 'select 1' {TOKEN}", 0)
    bash(live, "t3", "pytest -q", 0)
    bash(live, "t4", "npm run build", 2)
    bash(live, "t5", "sleep 100", None)
    time.sleep(APART)
    live.put_call(project / "a.py", b"x = 2\n")
    time.sleep(APART)
    live.write(live.end("e1"))
    settle(daemon, project, live.count)
    state = {"title": "Fix the login", "blockers": [f"the password is {TOKEN}"], "db": {"password": "tea"}}
    daemon.call("state.save", session=live.session, project=project, state=state)
    return live


def written(daemon: DaemonFixture, path: Path, *words: str) -> str:
    """The text of a hand-off as soon as it holds some words."""

    def holds() -> str:
        text = path.read_text() if path.exists() else ""
        return text if text and all(word in text for word in words) else ""

    return str(daemon.until(holds, what=f"{path} does not hold {words}"))


def test_T14_it_tells_what_was_run_changed_and_left_open(daemon: DaemonFixture, project: Path) -> None:
    live = worked(daemon, project)
    made = daemon.call("state.handoff", session=live.session)
    path, text = Path(made["path"]), made["text"]
    assert path == daemon.data_dir / "handoff" / f"handoff-{live.session}.md" and path.read_text() == text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    commands = text.split("## Commands")[1].split("\n## ")[0]
    shown = [block.split("\n```\n")[0] for block in commands.split("exit ")[1:]]
    assert shown == [
        "1\n```sh\npytest -q", "0\n```sh\npsql -c 'select 1' [redacted]", "0\n```sh\npytest -q",
        "2\n```sh\nnpm run build", "unknown\n```sh\nsleep 100",
    ]  # fmt: skip
    failures = text.split("## Open failures")[1].split("\n## ")[0]
    assert "exit 2: `npm run build`" in failures and "pytest" not in failures
    found = [made for made in daemon.call("checkpoint.list", project=project)["checkpoints"] if made["complete"]]
    assert f"- `a.py`: written, held by checkpoint {found[0]['ordinal']} ({found[0]['id']})" in text


def test_V2_nothing_of_an_environment_file_and_no_token_is_in_it(daemon: DaemonFixture, project: Path) -> None:
    live = worked(daemon, project)
    put(project, b".env", b"DB_PASSWORD=another-word\n")  # the old one is a secret all the same
    made = daemon.call("state.handoff", session=live.session)
    assert "tangerine" not in made["text"] and "tea" not in made["text"]
    assert made["text"].count("[redacted]") + made["text"].count(r"\[redacted\]") == 3
    assert "tangerine" not in daemon.log()


def test_V2_an_environment_file_that_is_ignored_is_one_all_the_same(daemon: DaemonFixture, project: Path) -> None:
    (project / ".git").mkdir()
    put(project, b".gitignore", b"*.env\n.env.local\n")
    put(project, b"api/.env.local", b"WORDS=correct horse battery\n")
    put(project, b"api/prod.env", b"PIN_TOKEN=quiet-lake\n")
    live = worked(daemon, project)
    state = {"notes": "say correct horse battery, then quiet-lake"}
    daemon.call("state.save", session=live.session, project=project, state=state)
    text = daemon.call("state.handoff", session=live.session)["text"]
    assert "correct" not in text and "quiet" not in text and r"say \[redacted\], then \[redacted\]" in text


def test_V2_a_purge_of_the_project_takes_its_hand_offs(daemon: DaemonFixture, project: Path) -> None:
    live = worked(daemon, project)
    path = Path(daemon.call("state.handoff", session=live.session)["path"])
    daemon.call("project.remove", project=project, purge=True, confirmed=True)
    daemon.until(lambda: not path.exists())


def test_T14_it_is_made_anew_when_the_state_changes_and_goes_with_it(daemon: DaemonFixture, project: Path) -> None:
    live = worked(daemon, project)
    path = daemon.data_dir / "handoff" / f"handoff-{live.session}.md"
    written(daemon, path, "Fix the login")
    daemon.call("state.save", session=live.session, state={"title": "Something else"})
    written(daemon, path, "# Hand-off: Something else")
    path.unlink()
    assert daemon.call("state.handoff", session=live.session)["path"] == str(path) and path.exists()
    other = daemon.call("state.save", project=project, session="manual", state={"title": "mine"})
    written(daemon, next(iter([path])), "Something else")
    daemon.call("state.clear", session=live.session, confirmed=True)
    assert not path.exists() and other["session_id"] == "manual"
    daemon.until(lambda: len(list(path.parent.iterdir())) == 1)


def test_T14_a_compaction_and_the_end_of_a_session_make_it_anew(daemon: DaemonFixture, project: Path) -> None:
    live = worked(daemon, project)
    path = daemon.data_dir / "handoff" / f"handoff-{live.session}.md"
    written(daemon, path, "Fix the login")
    live.prompt("go on")
    bash(live, "t9", "make last", 0)
    live.write(live.line("system", subtype="compact_boundary", compactMetadata={"trigger": "manual"}))
    written(daemon, path, "make last")
    bash(live, "t10", "make more", 0)
    settle(daemon, project, live.count)
    daemon.call("session.forget", project=project, session=live.session)
    written(daemon, path, "make more")


def test_T14_in_the_project_it_is_confined_and_not_captured(
    daemon_factory: Callable[..., DaemonFixture], tmp_path: Path
) -> None:
    daemon = started(lambda **more: daemon_factory(config='handoff_dir: "notes [1]/hand"\n', **more))
    project = daemon.projects / "p"
    put(project, b"a.py", b"1")
    live = worked(daemon, project)
    made = daemon.call("state.handoff", session=live.session)
    path = project / "notes [1]/hand" / f"handoff-{live.session}.md"
    assert made["path"] == str(path) and path.read_text() == made["text"]
    (path.parent / "mine.md").write_text("mine")
    taken = take(daemon, project)
    names = {file["file_path"] for file in daemon.call("checkpoint.show", project=project, id=taken["id"])["files"]}
    assert "notes [1]/hand/mine.md" in names and not any("handoff-" in name for name in names)
    daemon.call("checkpoint.restore", project=project, id="1", confirmed=True)
    assert path.exists()  # what is not captured is never deleted
    outside = daemon.directory / "outside"
    outside.mkdir()
    path.unlink()
    os.rename(path.parent, project / "moved")
    path.parent.symlink_to(outside)
    with pytest.raises(RpcError) as refused:
        daemon.call("state.handoff", session=live.session)
    assert refused.value.code == "refused" and not any(outside.iterdir())


def test_T14_another_place_is_taken_on_at_a_reload(daemon: DaemonFixture, project: Path) -> None:
    live = worked(daemon, project)
    daemon.config_file.write_text("handoff_dir: hand\n")
    daemon.call("daemon.reload")
    made = daemon.call("state.handoff", session=live.session)
    assert made["path"] == str(project / "hand" / f"handoff-{live.session}.md")
    shown = daemon.call("checkpoint.show", project=project, id=take(daemon, project)["id"])
    assert not any("handoff-" in file["file_path"] for file in shown["files"])


@pytest.mark.parametrize("place", ["/tmp/x", "../x", "a/../../b", "~/x"])
def test_T19_a_place_outside_of_the_project_is_no_configuration(
    daemon_factory: Callable[..., DaemonFixture], place: str
) -> None:
    daemon = daemon_factory(start=False, config=f"handoff_dir: {json.dumps(place)}\n")
    daemon.start(wait=False)
    assert daemon.process is not None and daemon.process.wait(20) == 78


def test_T19_turned_off_it_is_made_on_request_alone(daemon_factory: Callable[..., DaemonFixture]) -> None:
    daemon = started(lambda **more: daemon_factory(config="handoff: false\n", **more))
    project = daemon.projects / "p"
    live = worked(daemon, project)
    directory = daemon.data_dir / "handoff"
    daemon.call("state.save", session=live.session, state={"title": "x"})
    daemon.until(lambda: daemon.call("daemon.stats") and not directory.exists())
    assert Path(daemon.call("state.handoff", session=live.session)["path"]).exists()


def test_the_client_prints_the_path_or_the_text(daemon: DaemonFixture, project: Path) -> None:
    live = worked(daemon, project)
    told = daemon.client("state", "handoff", "--session", live.session[:8])
    path = Path(told.stdout.strip())
    assert (told.returncode, told.stderr) == (0, "") and path.name == f"handoff-{live.session}.md"
    printed = daemon.client("state", "handoff", "--print", "--session", live.session)
    lines: Any = printed.stdout.splitlines()
    assert (
        lines[:2] == ["<!-- mulligan/handoff@1 -->", "# Hand-off: Fix the login"] and "tangerine" not in printed.stdout
    )
    made = json.loads(daemon.client("state", "handoff", "--json", "--session", live.session).stdout)
    assert (made["version"], made["session_id"], made["path"]) == (1, live.session, str(path))
    assert daemon.client("state", "handoff", "--session", "nobody").returncode == 5
