"""Finding the daemon and talking to it, over a real socket."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mulligan import errors
from mulligan.client.connection import candidates, connect, error_of


def test_the_named_socket_is_the_only_one() -> None:
    assert candidates({"MULLIGAN_SOCKET": "/a", "HOME": "/nowhere"}, "/b") == ["/b"]


def test_V1_the_socket_is_found_in_the_order_of_the_contract(tmp_path: Path) -> None:
    mine, default = tmp_path / "state/mulligan", tmp_path / "home/.local/state/mulligan"
    for directory, path in ((mine, "/one"), (default, "/two")):
        directory.mkdir(parents=True)
        (directory / "control.json").write_text(json.dumps({"path": path}))
    home = str(tmp_path / "home")
    environ = {"HOME": home, "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_RUNTIME_DIR": "/r"}
    assert candidates({**environ, "MULLIGAN_SOCKET": "/zero"}) == ["/zero", "/one", "/two", "/r/mulligan/control.sock"]
    assert candidates({"HOME": home, "XDG_RUNTIME_DIR": "/r"}) == ["/two", "/r/mulligan/control.sock"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"path": 1}', "\xff"])
def test_a_broken_address_file_is_passed_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "control.json").write_text(content)
    assert candidates({"MULLIGAN_STATE_DIR": str(tmp_path), "HOME": "/nowhere", "XDG_RUNTIME_DIR": "/r"}) == [
        "/r/mulligan/control.sock"
    ]


def test_V1_a_client_with_another_environment_finds_the_daemon_by_its_address(daemon: Any, tmp_path: Path) -> None:
    state = tmp_path / ".local/state/mulligan"
    state.mkdir(parents=True)
    (state / "control.json").write_text(json.dumps({"path": daemon.path}))
    daemon.answers["hello"] = {"version": "1"}
    connection = connect({"HOME": str(tmp_path), "MULLIGAN_SOCKET": str(tmp_path / "gone")})
    assert connection.hello() == {"version": "1"}
    connection.close()


def test_no_daemon_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(errors.DaemonNotRunningError) as found:
        connect({"HOME": str(tmp_path)}, str(tmp_path / "none"))
    assert (found.value.exit_status, found.value.hint) == (7, "run: mulligan start")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_socket_of_somebody_else_is_refused(daemon: Any) -> None:
    os.chmod(daemon.path, 0)
    with pytest.raises(errors.RefusedError):
        connect({"HOME": "/"}, daemon.path)


def test_parameters_without_a_value_are_left_out_and_progress_comes_before_the_result(daemon: Any) -> None:
    daemon.answers["x"] = {"done": True}
    daemon.before = [{"method": "progress", "params": {"done": 1}}, {"method": "else", "params": {}}]
    connection, seen = connect(os.environ), []
    assert connection.call("x", {"a": 1, "b": None}, seen.append) == {"done": True}
    assert (seen, daemon.asked) == ([{"done": 1}], [("x", {"a": 1})])
    connection.close()


def test_a_reply_of_many_megabytes_is_read(daemon: Any) -> None:
    daemon.answers["x"] = {"text": "a" * (5 << 20)}
    connection = connect(os.environ)
    assert len(connection.call("x")["text"]) == 5 << 20
    connection.close()


def test_a_daemon_that_goes_away_is_not_running(daemon: Any) -> None:
    daemon.answers["x"] = lambda _: "hang up"
    connection = connect(os.environ)
    with pytest.raises(errors.DaemonNotRunningError):
        connection.call("x")
    connection.close()


EXPECTED = [
    ("usage", 2, errors.UsageError),
    ("ambiguous", 2, errors.AmbiguousError),
    ("partial", 3, errors.PartialError),
    ("refused", 4, errors.RefusedError),
    ("read_only", 4, errors.ReadOnlyError),
    ("not_found", 5, errors.NotFoundError),
    ("conflict", 6, errors.ConflictError),
    ("busy", 8, errors.BusyError),
    ("integrity", 9, errors.IntegrityError),
    ("unheard_of", 8, errors.BusyError),
    ("unheard_of", 77, errors.MulliganError),
]


@pytest.mark.parametrize(("code", "status", "kind"), EXPECTED)
def test_an_error_of_the_daemon_becomes_its_class(code: str, status: int, kind: type[errors.MulliganError]) -> None:
    data = {"code": code, "hint": "h", "exit_status": status, "nearest": ["a"]}
    found = error_of({"code": -32000, "message": "m", "data": data}, "x")
    assert (type(found), found.message, found.hint, found.data["nearest"]) == (kind, "m", "h", ["a"])


def test_protocol_faults_are_errors_too() -> None:
    assert "does not know x.y" in error_of({"code": -32601, "message": ""}, "x.y").message
    assert isinstance(error_of({"code": -32602, "message": "bad"}, "x"), errors.UsageError)
    assert error_of({"code": -32603, "message": "bug"}, "x").exit_status == 1
    assert error_of({}, "x").exit_status == 1


def test_what_is_no_text_is_refused_before_it_is_sent(daemon: Any) -> None:
    connection = connect(os.environ)
    with pytest.raises(errors.UsageError, match="not UTF-8") as refused:
        connection.call("x", {"project": os.fsdecode(b"/src/caf\xe9")})
    assert "link" in refused.value.hint
    assert daemon.asked == []
    connection.close()
