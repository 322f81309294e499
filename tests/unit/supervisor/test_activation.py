"""Sockets that were bound before the daemon started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.errors import ConfigError
from mulligan.supervisor.activation import inherited_sockets


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(str(tmp_path / "control.sock"))
        made.listen()
        yield made


def environ(**more: str) -> dict[str, str]:
    return {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "mulligand.socket", **more}


def test_a_listening_socket_is_taken_over_by_its_name(listener: socket.socket, tmp_path: Path) -> None:
    given = environ()
    (found,) = inherited_sockets(given, first=os.dup(listener.fileno()))
    with found.socket:
        assert found.name == "mulligand.socket"
        assert found.path == str(tmp_path / "control.sock")
        assert not found.socket.get_inheritable()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(found.path)
            found.socket.settimeout(5)
            found.socket.accept()[0].close()
    assert given == {}


def test_a_real_child_finds_it_at_descriptor_three(listener: socket.socket) -> None:
    code = """
import os, sys
from mulligan.supervisor.activation import inherited_sockets
os.dup2(int(sys.argv[1]), 3, inheritable=True)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": ""}
(found,) = inherited_sockets(os.environ)
print(found.socket.fileno(), found.name, os.get_inheritable(3), "LISTEN_FDS" in os.environ)
found.socket.close()
"""
    argv = [sys.executable, "-c", code, str(listener.fileno())]
    done = subprocess.run(argv, pass_fds=[listener.fileno()], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "unknown", "False", "False"]


@pytest.mark.parametrize(
    "more",
    [
        {"LISTEN_PID": "1"},
        {"LISTEN_PID": ""},
        {"LISTEN_FDS": "0"},
        {"LISTEN_FDS": "-1"},
        {"LISTEN_FDS": "two"},
    ],
)
def test_what_was_meant_for_another_process_is_left_alone(listener: socket.socket, more: dict[str, str]) -> None:
    given = environ(HOME="/h", **more)
    assert inherited_sockets(given, first=listener.fileno()) == []
    assert given == {"HOME": "/h"}
    assert listener.fileno() > 0


def wrong_socket(kind: str, tmp_path: Path) -> socket.socket:
    if kind == "internet":
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        made.bind(("127.0.0.1", 0))
        made.listen()
        return made
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM)
    made.bind(str(tmp_path / "wrong"))
    return made


@pytest.mark.parametrize("kind", ["internet", "datagram", "not listening"])
def test_any_other_socket_is_refused(kind: str, tmp_path: Path) -> None:
    with wrong_socket(kind, tmp_path) as made, pytest.raises(ConfigError, match="listening Unix stream") as caught:
        inherited_sockets(environ(), first=os.dup(made.fileno()))
    assert caught.value.exit_status == 78


def test_what_is_no_socket_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "file", "w") as file, pytest.raises(ConfigError, match=r"mulligand\.socket"):
        inherited_sockets(environ(), first=file.fileno())
    with pytest.raises(ConfigError):
        inherited_sockets(environ(), first=9999)
