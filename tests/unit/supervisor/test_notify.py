"""What systemd hears from the daemon."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.supervisor.notify import Notifier


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The manager's end of NOTIFY_SOCKET."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(5)
        yield listener


def heard(manager: socket.socket) -> dict[str, str]:
    return dict(line.split("=", 1) for line in manager.recv(4096).decode().split("\n"))


def notifier(manager: socket.socket, **more: str) -> Notifier:
    return Notifier({"NOTIFY_SOCKET": manager.getsockname(), **more})


def test_ready_carries_the_status(manager: socket.socket) -> None:
    notifier(manager).ready("watching 2 projects")
    assert heard(manager) == {"READY": "1", "STATUS": "watching 2 projects"}


def test_a_status_cannot_smuggle_in_another_message(manager: socket.socket) -> None:
    notifier(manager).status("project a\nSTOPPING=1\x1b[2J " + "x" * 500)
    said = heard(manager)
    assert list(said) == ["STATUS"]
    assert len(said["STATUS"]) <= 200


def test_a_reload_is_stamped_with_the_monotonic_clock(manager: socket.socket) -> None:
    line = Notifier({"NOTIFY_SOCKET": manager.getsockname()}, monotonic=lambda: 5_000_123)
    line.reloading()
    line.ready()
    assert heard(manager) == {"RELOADING": "1", "MONOTONIC_USEC": "5000"}
    assert heard(manager) == {"READY": "1"}


def test_stopping_alive_and_extend(manager: socket.socket) -> None:
    line = notifier(manager)
    line.alive()
    line.extend(2.5)
    line.stopping("bye")
    assert heard(manager) == {"WATCHDOG": "1"}
    assert heard(manager) == {"EXTEND_TIMEOUT_USEC": "2500000"}
    assert heard(manager) == {"STOPPING": "1", "STATUS": "bye"}


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")
def test_an_abstract_socket_is_reached() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0mulligan-notify-{os.getpid()}")
        listener.settimeout(5)
        Notifier({"NOTIFY_SOCKET": f"@mulligan-notify-{os.getpid()}"}).alive()
        assert listener.recv(100) == b"WATCHDOG=1"


@pytest.mark.parametrize("address", [None, "", "relative", "vsock:2:1234", "/nowhere/at/all"])
def test_without_a_listener_it_is_silent(address: str | None) -> None:
    line = Notifier({} if address is None else {"NOTIFY_SOCKET": address})
    line.ready("up")
    line.alive()


def test_a_manager_that_does_not_read_never_blocks_the_daemon(manager: socket.socket) -> None:
    line = notifier(manager)
    for _ in range(5000):
        line.status("busy")
    assert heard(manager) == {"STATUS": "busy"}


def test_children_do_not_inherit_the_line(manager: socket.socket) -> None:
    environ = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "HOME": "/h"}
    Notifier(environ)
    assert environ == {"HOME": "/h"}


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "77"}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "78"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_fed_twice_as_often_as_it_asks(environ: dict[str, str], seconds: float | None) -> None:
    assert Notifier(dict(environ), pid=77).watchdog_seconds == seconds
