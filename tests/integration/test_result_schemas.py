"""What a real daemon answers fits the schemas of `rpc.discover`, and holds no key that is not described."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from support.daemon import DaemonFixture
from support.live_transcript import Agent, await_checkpoint, session_of, slug
from support.opcode import Opcode
from support.trees import put

pytestmark = pytest.mark.disk


@dataclass
class Judge:
    """Calls methods and holds each answer against the document; `called` are those that answered."""

    daemon: DaemonFixture
    project: Path
    session: str
    document: dict[str, Any] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)

    def __call__(self, method: str, **params: Any) -> dict[str, Any]:
        found = self.daemon.call(method, **params)
        (described,) = [one for one in self.document["methods"] if one["name"] == method]
        schema = self.closed(described["result"]["schema"]) | {
            "components": {
                "schemas": {name: self.closed(value) for name, value in self.document["components"]["schemas"].items()}
            }
        }
        errors = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(found)]
        assert errors == [], method
        self.called.add(method)
        return found

    @staticmethod
    def closed(schema: dict[str, Any]) -> dict[str, Any]:
        """The schema of an object of which every key is known."""
        described = schema.get("type") == "object" and schema.get("properties")
        return {**schema, "additionalProperties": False} if described else schema


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    daemon = DaemonFixture().start()
    project = daemon.projects / "shop"
    put(project, b"src/a.py", b"one\ntwo\n")
    put(project, b"odd \xff.txt", b"odd\n")
    put(project, b"notes.txt", b"remember\n")
    put(project, b".git/HEAD", b"ref: refs/heads/main\n")
    (project / "link").symlink_to("notes.txt")
    try:
        daemon.add(project)
        talk = Agent(daemon.claude_dir, project)
        talk.prompt("make it louder")
        talk.edit(project / "src/a.py", b"one\nTWO\n")
        await_checkpoint(daemon, project, "tool_use")
        talk.end_turn()
        session_of(daemon, project, talk.session)
        yield Judge(daemon, project, talk.session, daemon.call("rpc.discover"))
    finally:
        daemon.close()


def test_what_is_asked(judge: Judge) -> None:
    where = {"project": judge.project}
    judge("hello")
    judge("rpc.discover")
    judge("daemon.status", **where)
    judge("daemon.stats")
    judge("daemon.reload")
    judge("watch.sync")
    judge("project.list", found=True)
    judge("session.list")
    judge("session.show", **where)
    judge("session.of", **where)
    judge("settings.get")
    judge("checkpoint.list", **where)
    judge("checkpoint.show", **where, id="2", patch=True)
    judge("checkpoint.show", **where, id="1")
    judge("checkpoint.diff", **where, **{"from": "1", "to": "2"})
    judge("timeline.get", **where)
    judge("timeline.get", **where, flat=True)
    judge("file.recent", **where)
    judge("file.history", **where, path="src/a.py")
    judge("file.blame", **where, path="src/a.py")
    judge("file.cat", **where, id="1", path="src/a.py")
    judge("file.search", **where, text="TWO")
    judge("store.usage")


def test_what_changes_files(judge: Judge) -> None:
    where = {"project": judge.project}
    made = judge("checkpoint.create", **where)["checkpoint"]["id"]
    (judge.project / "notes.txt").unlink()
    judge("operation.rescue", **where, dry_run=True)
    judge("operation.rescue", **where, confirmed=True)
    judge("checkpoint.restore", **where, id="1", dry_run=True, conversation=True)
    judge("checkpoint.restore", **where, id="1", confirmed=True, state=True)
    judge("operation.undo", **where, dry_run=True)
    judge("operation.undo", **where, confirmed=True)
    judge("operation.redo", **where, confirmed=True)
    judge("operation.undo", **where, confirmed=True)
    judge("operation.revert", **where, target="prompt:1", dry_run=True)
    put(judge.project, b"src/a.py", b"one\nelse\n")
    judge("operation.revert", **where, target="prompt:1", write_conflicts=True, confirmed=True)
    judge("checkpoint.fork", **where, id="2", dry_run=True)
    judge("checkpoint.fork", **where, id="2", name="branch")
    for method in ("describe", "pin", "unpin"):
        judge(f"checkpoint.{method}", **where, id=made, **({"description": "d"} if method == "describe" else {}))
    judge("checkpoint.delete", **where, id=made, confirmed=True)
    judge("checkpoint.cleanup", **where, keep=1, dry_run=True)


def test_what_keeps_a_task(judge: Judge, tmp_path: Path) -> None:
    where = {"project": judge.project, "session": judge.session}
    judge("state.load", **where)
    judge("state.status", **where)
    judge("state.save", **where, state={"title": "t"}, snapshot="s")
    judge("state.status", **where)
    judge("state.load", **where)
    judge("state.list", **where)
    judge("state.load_snapshot", **where, name="s")
    judge("state.restore_snapshot", **where, name="s")
    judge("state.migrate", **where)
    judge("state.handoff", **where)
    judge("state.clear", **where, dry_run=True)
    judge("state.clear", **where, confirmed=True)
    judge("state.backup", path=tmp_path / "copy.db")
    judge("state.check")


def test_what_keeps_the_store_and_the_projects(judge: Judge) -> None:
    where = {"project": judge.project}
    judge("settings.set", **where, key="strategy", value="smart")
    judge("settings.unset", **where, key="strategy")
    judge("message.track", **where, session=judge.session, line='{"type": "summary"}')
    judge("session.forget", **where, session=judge.session)
    judge("store.drill", count=1)
    judge("store.gc")
    judge("store.verify")
    judge("store.rebuild")
    judge("store.purge", **where, paths=["notes.txt"], confirmed=True)
    judge("hook.deliver", event="SessionEnd", input="{}")
    old = judge.daemon.projects / "old"
    put(old, b"f", b"1")
    Opcode(judge.daemon.claude_dir, old, slug(old)).checkpoint("first")
    judge("project.import_opcode", project=old)
    judge("project.pause", **where)
    judge("project.resume", **where)
    judge("project.exclude", target="/nowhere")
    judge("project.add", **where)
    judge("project.remove", **where)


def test_all_methods_have_been_called(judge: Judge) -> None:
    left = {one["name"] for one in judge.document["methods"]} - judge.called
    # an event stream is another kind of answer, and a daemon that stops may be gone before its answer is read
    assert left == {"daemon.stop", "events.subscribe"}
