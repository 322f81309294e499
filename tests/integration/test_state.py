"""`mulligan state`: every command's text, JSON and exit status, by the real client and a real daemon."""

from __future__ import annotations

import json
import os
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError

SESSION = str(uuid.uuid4())
SHORT = SESSION[:8]
STATE = {
    "title": "Fix the login",
    "goal": "nobody is locked out\nafter a failed attempt",
    "steps": [{"id": 1, "text": "read the code", "status": "done"}, {"id": 2, "text": "write\x1b[2J the test"}],
    "next": "write the test",
    "blockers": ["the CI is red"],
    "ticket": {"number": 17},
}


class Client:
    """The client in a protected project, in an agent's environment."""

    def __init__(self, daemon: DaemonFixture, project: Path) -> None:
        self.daemon, self.project = daemon, project
        daemon.add(project)

    def __call__(self, *words: str, status: int = 0, data: str | None = None) -> tuple[str, str]:
        done = self.daemon.client("state", *words, cwd=self.project, data=data, CLAUDE_CODE_SESSION_ID=SESSION)
        assert done.returncode == status, done
        return done.stdout, done.stderr

    def json(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(*words, "--json")[0])
        assert found.pop("version") == 1
        return found


@pytest.fixture
def client(daemon: DaemonFixture, project: Path) -> Client:
    return Client(daemon, project)


def test_save_and_load(client: Client) -> None:
    assert client("load") == (f"session {SHORT}: no task state was saved\n", "")
    assert client("save", json.dumps(STATE)) == (f"saved: session {SHORT}, Fix the login\n", "")
    assert client("save", "-", data='{"next": "write the test"}') == (
        f"unchanged: session {SHORT}, Fix the login\n",
        "",
    )
    out, _ = client("load")
    assert out.splitlines() == [
        f"session {SHORT}, saved just now",
        "title      Fix the login",
        "goal       nobody is locked out",
        "           after a failed attempt",
        "steps      done     1  read the code",
        r"           pending  2  write\x1b[2J the test",
        "next       write the test",
        "blockers   the CI is red",
        'ticket     {"number": 17}',
    ]


def test_save_and_load_as_json(client: Client) -> None:
    nothing = {"session_id": SESSION, "exists": False, "synthesized": False, "updated_at": None, "state": None}
    assert client.json("load") == nothing
    saved = client.json("save", json.dumps(STATE), "--snapshot", "first")
    stamp = saved["updated_at"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp)
    snapshot = saved.pop("snapshot")
    assert {key: snapshot[key] for key in ("name", "kind", "timestamp")} == {
        "name": "first", "kind": "named", "timestamp": snapshot["timestamp"],
    }  # fmt: skip
    whole = {"session_id": SESSION, "exists": True, "synthesized": False, "updated_at": stamp, "state": STATE}
    assert saved == {**whole, "changed": True}
    assert client.json("load") == whole
    assert client.json("save", "{}") == {**whole, "changed": False, "snapshot": None}
    assert list(client.json("load")["state"]) == list(STATE), "keys stay in their order"


def test_status(client: Client) -> None:
    assert client("status")[0] == f"session {SHORT}: no task state was saved\n"
    empty = client.json("status")
    assert (empty["exists"], empty["title"], empty["status"]) == (False, None, None)
    assert (empty["steps"], empty["blockers"], empty["snapshots"]) == ({"total": 0, "done": 0}, 0, 0)
    client("save", json.dumps(STATE), "--snapshot", "first")
    assert client("status")[0].splitlines() == [
        f"session {SHORT}, saved just now",
        "Fix the login (active), 1 of 2 steps done, 1 blocker, 1 snapshot",
    ]
    found = client.json("status")
    assert found["steps"] == {"total": 2, "done": 1, "pending": 1}
    assert (found["title"], found["status"], found["blockers"], found["snapshots"]) == (
        "Fix the login", "active", 1, 1,
    )  # fmt: skip
    assert "state" not in found


def test_clear_asks(client: Client) -> None:
    assert client("clear", "--yes")[0] == "nothing to clear\n"
    client("save", json.dumps(STATE), "--snapshot", "first")
    plan = f"session {SHORT}: Fix the login, 1 snapshot to be deleted for good\n"
    assert client("clear", "--dry-run") == (plan, "")
    out, err = client("clear", status=4)
    assert out == plan and "mulligan state clear --yes" in err
    assert client.json("load")["exists"]
    assert client.json("clear", "--yes") == {"session_id": SESSION, "cleared": True, "snapshots": 1}
    assert not client.json("load")["exists"] and client.json("list")["snapshots"] == []
    client("save", '{"goal": "without a title"}')
    assert client("clear", "--dry-run")[0] == f"session {SHORT}: untitled, 0 snapshots to be deleted for good\n"


def test_snapshots(client: Client) -> None:
    assert "no snapshots" in client("list")[1]
    client("save", '{"title": "one"}', "--snapshot", "first")
    client("save", '{"title": "two", "status": "blocked"}', "--snapshot", "second one")
    out, _ = client("list")
    lines = [line.split("  ") for line in out.splitlines()]
    assert [line[0] for line in lines] == ["name", "second one", "first"] and "blocked" in out
    found = client.json("list", "--limit", "1")
    assert [each["name"] for each in found["snapshots"]] == ["second one"]
    assert (found["snapshots"][0]["title"], found["snapshots"][0]["status"]) == ("two", "blocked")
    assert client("load-snapshot", "first")[0] == "first (named)\ntitle      one\n"
    assert client.json("load-snapshot", "second one")["state"] == {"title": "two", "status": "blocked"}
    out, _ = client("restore-snapshot", "first")
    name = re.findall(r"restore-snapshot (pre-restore-\S+)$", out, re.MULTILINE)[0]
    assert out.startswith("the state is first again\n")
    back = client.json("restore-snapshot", name)
    assert (back["session_id"], back["name"], back["state"]) == (SESSION, name, {"title": "two", "status": "blocked"})
    assert back["undo"].startswith("pre-restore-") and back["updated_at"] == client.json("load")["updated_at"]
    assert [each["kind"] for each in client.json("list")["snapshots"]].count("pre_restore") == 2
    for words in (("load-snapshot", "third"), ("restore-snapshot", "third")):
        assert "second one" in client(*words, status=5)[1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ("5", "not an object"),
        ('{"a": NaN}', "no number of JSON"),
        ('{"a": [1e999]}', "64 bits"),
        ('{"a": [-1e999]}', "64 bits"),
        ('{"a": [18446744073709551616]}', "64 bits"),
        ('{"a": ' + "9" * 5000 + "}", "64 bits"),
        ('{"notes": "' + "x" * 3_000_000 + '"}', "larger than a state may be"),
        ('{"a": "\\ud800"}', "UTF-8"),
        ("[" * 100_000, "not JSON"),
        ('{"a": ' * 40 + "1" + "}" * 40, "deep"),
        ('{"status": "busy"}', "the state's status"),
        ('{"steps": [{"id": "1", "status": ["x"]}]}', "the state's steps[0].status"),
        ('{"title": {"a": 1}}', "the state's title"),
    ],
)
def test_what_is_no_state_is_named_and_nothing_is_saved(client: Client, given: str, said: str) -> None:
    _, err = client("save", "-", data=given, status=2)
    assert said in err and "Traceback" not in err
    assert not client.json("load")["exists"]


def test_a_state_of_bytes_that_are_no_text(client: Client) -> None:
    done = client.daemon.client("state", "save", os.fsdecode(b'{"a": "\xff"}'), cwd=client.project)
    assert done.returncode == 2 and "UTF-8" in done.stderr


def test_a_message_that_is_nested_without_end_is_answered_and_the_connection_stays(client: Client) -> None:
    with client.daemon.connect() as connection:
        state = '{"a":' * 90_000 + "1" + "}" * 90_000
        message = f'{{"jsonrpc":"2.0","id":1,"method":"state.save","params":{{"state":{state}}}}}\n'
        connection._socket.sendall(message.encode())
        error = connection.read()["error"]
        assert error["code"] == -32700 and "nested too deeply" in error["message"]
        assert connection.call("hello", client="test", protocol=[1])["protocol"] == 1


@pytest.mark.parametrize("method", ["daemon.status", "state.load", "checkpoint.list", "session.of", "project.add"])
def test_a_project_with_a_zero_byte_is_a_usage_error(client: Client, method: str) -> None:
    with pytest.raises(RpcError) as refused:
        client.daemon.call(method, project="/a\0b")
    assert refused.value.number == -32602 and "zero byte" in str(refused.value)


def test_a_session_that_was_never_seen_is_not_found_wherever_one_stands(client: Client) -> None:
    unseen = str(uuid.uuid4())
    done = client.daemon.client("state", "load", "--session", unseen, cwd=Path("/"))
    assert done.returncode == 5
    assert unseen in done.stderr and "--project" in done.stderr and "mulligan project add" not in done.stderr


def test_a_session_without_a_name_is_no_session(client: Client) -> None:
    _, err = client("save", '{"title": "whose?"}', "--session", "", status=2)
    assert "--session" in err
    assert not client.json("load")["exists"]


@pytest.mark.parametrize("name", ["", "pre-restore-x", "auto-x", "a\nb"])
def test_names_that_no_snapshot_may_have(client: Client, name: str) -> None:
    client("save", '{"title": "t"}', "--snapshot", name, status=2)
    assert not client.json("load")["exists"]


def test_help_names_every_command(client: Client) -> None:
    out, _ = client("--help")
    for command in ("save", "load", "status", "clear", "list", "load-snapshot", "restore-snapshot", "backup"):
        assert f"\n  {command} " in out
        assert client(command, "--help")[0].count("mulligan state " + command) >= 2
