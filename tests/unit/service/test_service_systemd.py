"""User units: what is written into them, where they go, what takes them out."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from mulligan import resources
from mulligan.errors import RefusedError
from mulligan.paths import SOCKET_PATH_LIMIT, places
from mulligan.service import platform, systemd
from mulligan.service.systemd import UserManager, quoted


def options(unit: str) -> configparser.ConfigParser:
    """The unit as sections; an option that stands there twice holds its last value."""
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit)
    return parser


def environ_of(home: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), **more}


def plan(environ: Mapping[str, str], executable: str = "/opt/mulligan/bin/mulligand", **more: bool) -> systemd.Plan:
    return platform.plan_install(places(environ, "linux"), environ, executable, platform="linux", **more)


@pytest.mark.parametrize("name", [resources.SERVICE_UNIT, resources.SOCKET_UNIT])
def test_the_shipped_unit_is_usable_as_it_is(name: str) -> None:
    unit = options(resources.read(name))
    assert unit["Unit"]["Description"]
    assert unit["Install"]["WantedBy"]


def test_the_service_is_ready_when_it_says_so_and_is_not_restarted_in_vain() -> None:
    service = options(systemd.service_unit("/bin/mulligand", {}))["Service"]
    assert service["Type"] == "notify"
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"].split() == ["75", "78"]
    assert int(service["WatchdogSec"]) > 0
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_hardening_needs_no_namespace_and_leaves_restoring_alone() -> None:
    service = set(options(systemd.service_unit("/bin/mulligand", {}))["Service"])
    namespaces = {"ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "PrivateUsers", "ReadWritePaths"}
    assert not service & (namespaces | {"StateDirectory", "RuntimeDirectory", "RestrictSUIDSGID"})
    assert {"NoNewPrivileges", "RestrictAddressFamilies", "SystemCallFilter", "LockPersonality"} <= service


def test_the_socket_is_private_and_goes_with_its_unit() -> None:
    unit = options(systemd.socket_unit("/run/user/1000/mulligan/control.sock"))["Socket"]
    assert unit["ListenStream"] == "/run/user/1000/mulligan/control.sock"
    assert (unit["SocketMode"], unit["DirectoryMode"], unit["RemoveOnStop"]) == ("0600", "0700", "yes")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("/plain", '"/plain"'),
        ("/a b", '"/a b"'),
        ("100%h", '"100%%h"'),
        ('say "x"', r'"say \"x\""'),
        ("back\\slash", r'"back\\slash"'),
        ("$HOME", '"$HOME"'),
        ("ünï", '"ünï"'),
    ],
)
def test_words_are_quoted_by_systemds_rules(text: str, written: str) -> None:
    assert quoted(text) == written


@pytest.mark.parametrize("text", ["two\nlines", "\x1b[2J", os.fsdecode(b"/caf\xe9")])
def test_what_a_unit_cannot_hold_is_refused_and_cannot_add_a_line(text: str) -> None:
    with pytest.raises(RefusedError, match="cannot hold"):
        quoted(text)
    with pytest.raises(RefusedError):
        systemd.socket_unit(text)


def test_the_executable_stands_in_the_unit() -> None:
    service = options(systemd.service_unit("/home/ana/my tools/mulligand", {}))["Service"]
    assert service["ExecStart"] == '"/home/ana/my tools/mulligand"'


def test_an_executable_that_systemd_would_not_take_as_a_program_is_an_argument() -> None:
    service = options(systemd.service_unit("/home/o'brien/$5/mulligand", {}))["Service"]
    assert service["ExecStart"] == '/usr/bin/env "/home/o\'brien/$$5/mulligand"'


def test_a_socket_path_that_the_kernel_would_cut_is_refused() -> None:
    assert systemd.socket_unit("/" + "x" * (SOCKET_PATH_LIMIT - 1))
    with pytest.raises(RefusedError, match="longer than"):
        systemd.socket_unit("/" + "x" * SOCKET_PATH_LIMIT)


def test_the_variables_that_are_set_are_written_and_session_variables_are_not(tmp_path: Path) -> None:
    environ = environ_of(
        tmp_path,
        CLAUDE_CONFIG_DIR="/home/ana/50% mine",
        XDG_DATA_HOME="/data",
        XDG_STATE_HOME="relative",
        XDG_SESSION_ID="3",
        MULLIGAN_CONFIG="rel.yaml",
        MULLIGAN_FAULTS="log=kill",
        PATH="/bin",
    )
    unit = plan(environ).files[0].content.decode()
    lines = [line for line in unit.splitlines() if line.startswith("Environment=")]
    assert lines == [
        'Environment="CLAUDE_CONFIG_DIR=/home/ana/50%% mine"',
        f'Environment="HOME={tmp_path}"',
        f'Environment="MULLIGAN_CONFIG={Path.cwd()}/rel.yaml"',
        'Environment="XDG_DATA_HOME=/data"',
    ]


def test_the_plan_writes_private_units_and_starts_them(tmp_path: Path) -> None:
    made = plan(environ_of(tmp_path))
    assert [file.path for file in made.files] == [
        str(tmp_path / ".config/systemd/user" / unit) for unit in (systemd.SERVICE, systemd.SOCKET)
    ]
    assert {file.mode for file in made.files} == {0o600}
    words = [command.argv[2] for command in made.commands]
    assert words == ["daemon-reload", "enable", "restart"]
    assert f"ListenStream={tmp_path}/run/mulligan/control.sock\n" in made.files[1].content.decode()


def test_lingering_only_on_request(tmp_path: Path) -> None:
    assert "loginctl" not in plan(environ_of(tmp_path)).render()
    made = plan(environ_of(tmp_path), linger=True)
    assert made.commands[0].argv == ("loginctl", "enable-linger")
    assert not made.notes


def test_a_dry_run_shows_files_and_commands(tmp_path: Path) -> None:
    shown = plan(environ_of(tmp_path)).render()
    assert "[Socket]\nListenStream=" in shown
    assert 'ExecStart="/opt/mulligan/bin/mulligand"' in shown
    assert "$ systemctl --user daemon-reload\n" in shown
    assert not (tmp_path / ".config").exists()


def test_units_go_where_the_manager_reads_them(tmp_path: Path) -> None:
    environ = environ_of(tmp_path, XDG_CONFIG_HOME=str(tmp_path / "elsewhere"))
    default = str(tmp_path / ".config/systemd/user")
    assert systemd.unit_directory(environ, None) == str(tmp_path / "elsewhere/systemd/user")
    assert systemd.unit_directory(environ, UserManager(("/run/x", default))) == default
    with pytest.raises(RefusedError, match="reads units in none of"):
        systemd.unit_directory(environ, UserManager(("/run/x",)))


def test_taking_it_out_names_every_unit_that_is_there(tmp_path: Path) -> None:
    environ = environ_of(tmp_path)
    assert systemd.plan_uninstall(environ).removals == ()
    directory = tmp_path / ".config/systemd/user"
    directory.mkdir(parents=True)
    (directory / systemd.SOCKET).touch()
    assert not systemd.is_installed(environ)
    (directory / systemd.SERVICE).touch()
    assert systemd.is_installed(environ)
    made = systemd.plan_uninstall(environ)
    assert set(made.removals) == {str(directory / systemd.SERVICE), str(directory / systemd.SOCKET)}
    assert made.commands[0].argv[2:4] == ("disable", "--now")
    assert all(command.may_fail for command in made.commands)


def fake_systemctl(directory: Path, script: str) -> dict[str, str]:
    file = directory / "systemctl"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return {"PATH": str(directory), "HOME": str(directory), "XDG_RUNTIME_DIR": str(directory)}


def test_a_machine_without_systemd_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="no systemd on this machine") as caught:
        systemd.user_manager({"PATH": str(tmp_path)})
    assert "mulligan start" in caught.value.hint


def test_a_manager_that_does_not_answer_is_told_with_its_reason(tmp_path: Path) -> None:
    environ = fake_systemctl(tmp_path, "echo 'Failed to connect to bus: No medium found' >&2; exit 1")
    with pytest.raises(RefusedError, match="No medium found") as caught:
        systemd.user_manager(environ)
    assert "enable-linger" in caught.value.hint
    assert caught.value.exit_status == 4


def test_a_manager_says_where_it_looks(tmp_path: Path) -> None:
    environ = fake_systemctl(tmp_path, "echo /home/a/.config/systemd/user /etc/systemd/user")
    assert systemd.user_manager(environ).unit_path == ("/home/a/.config/systemd/user", "/etc/systemd/user")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_itself_finds_no_fault(tmp_path: Path) -> None:
    (tmp_path / systemd.SERVICE).write_text(systemd.service_unit("/bin/true", {"CLAUDE_CONFIG_DIR": '/a %h "b"'}))
    (tmp_path / systemd.SOCKET).write_text(systemd.socket_unit(str(tmp_path / "control.sock")))
    units = [str(tmp_path / systemd.SERVICE), str(tmp_path / systemd.SOCKET)]
    environ = {**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:", "XDG_RUNTIME_DIR": str(tmp_path)}
    argv = ["systemd-analyze", "--user", "--recursive-errors=no", "verify", *units]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
