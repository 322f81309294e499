"""The service under a real systemd, in a container of its own: installed from a wheel, steered as a user would.

Needs root and a Debian archive; MULLIGAN_BOX names a directory that keeps the container (450 MB) between runs.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(900)]

REPOSITORY = Path(__file__).parents[2]
SUPPORT = REPOSITORY / "tests" / "support"
BOX = SUPPORT / "systemd-box"
SOCKET = "/run/user/1000/mulligan/control.sock"
UNITS = "~/.config/systemd/user"


@dataclass(frozen=True)
class Box:
    """The container: shell commands run in it as the user `dev`, whose systemd --user is up."""

    directory: Path

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        argv = [str(BOX), "sh", str(self.directory), command]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)

    def ok(self, command: str) -> str:
        done = self.run(command)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.journal()}"
        return done.stdout

    def journal(self) -> str:
        return self.run("journalctl --quiet --user-unit=mulligand.service --no-pager --lines=20").stdout

    def mulligan(self, arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(f"~/v/bin/mulligan {arguments}")

    def status(self) -> dict[str, Any]:
        """`mulligan --json status` of a daemon that answers."""
        found: dict[str, Any] = json.loads(self.ok("~/v/bin/mulligan --json status"))
        return found

    def show(self, name: str, unit: str = "mulligand.service") -> str:
        return self.ok(f"systemctl --user show --property={name} --value {unit}").strip()

    def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited {seconds} s in vain\n{self.journal()}"
            time.sleep(0.1)

    def put(self, name: str, text: str) -> None:
        self.ok(f"mkdir -p $(dirname {name}) && printf %s {shlex.quote(text)} > {name}")


def wheelhouse(directory: Path) -> None:
    """The wheel of this repository and of all that it needs, for the Python of the box."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(directory), str(REPOSITORY)], check=True, capture_output=True)
    argv = [*pip, "download", "--only-binary=:all:", "--python-version=3.11", "-d", str(directory)]
    subprocess.run([*argv, *project["dependencies"]], check=True, capture_output=True)


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """A booted container with mulligan installed in `~/v` and no service."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("the systemd box needs root on Linux")
    kept = os.environ.get("MULLIGAN_BOX")
    directory = Path(kept or tempfile.mkdtemp(prefix="mulligan-box-"))
    made = Box(directory)
    try:
        for verb in ("build", "boot"):
            done = subprocess.run([str(BOX), verb, str(directory)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"the systemd box does not {verb}: {done.stderr.strip()[-300:]}")
        wheels = directory / "root" / "srv" / "wheels"
        shutil.rmtree(wheels, ignore_errors=True)
        try:
            wheelhouse(wheels)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no wheels for the systemd box: {error.stderr.decode(errors='replace').strip()[-300:]}")
        shutil.copy(SUPPORT / "stand_in_daemon.py", directory / "root" / "srv")
        made.run(f"systemctl --user disable --now mulligand.socket mulligand.service; rm -rf {UNITS}/mulligand.*")
        made.ok("rm -rf ~/v ~/.config/mulligan ~/.local/share/mulligan ~/.local/state/mulligan ~/project")
        made.ok("python3 -m venv ~/v && ~/v/bin/pip install -q --no-index --find-links /srv/wheels mulligan")
        yield made
    finally:
        subprocess.run([str(BOX), "stop", str(directory)], check=False, capture_output=True)
        if not kept:
            shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def service(box: Box) -> Box:
    """The box with the service installed and answering."""
    box.run("rm -f ~/.config/mulligan/config.yaml")
    box.ok("~/v/bin/mulligan service install")
    box.until(lambda: box.mulligan("status").returncode == 0)
    return box


STAND_IN = r"""
import json, os, socket, sys
from mulligan.paths import places
from mulligan.service import platform

directory = os.path.expanduser("~/it's a 100%h $HOME")
executable = os.path.join(directory, "mulligand")
if sys.argv[1] == "install":
    os.makedirs(directory, exist_ok=True)
    with open(executable, "w") as file:
        file.write(f"#!/bin/sh\nexec {sys.executable} /srv/stand_in_daemon.py\n")
    os.chmod(executable, 0o755)
    platform.install(places(), os.environ, executable)
elif sys.argv[1] == "uninstall":
    platform.uninstall(places(), os.environ)
else:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(places().socket)
        client.sendall(sys.argv[1].encode() + b"\n")
        print(client.makefile().readline())
"""


@pytest.fixture
def stand_in(box: Box) -> Iterator[Callable[[str], Any]]:
    """The units around a daemon that only tries things; called with `who` or `probe` it answers."""
    box.put("~/stand_in.py", STAND_IN)
    claude = shlex.quote('/home/dev/50% "mine" $HOME \\n')
    box.ok(f"CLAUDE_CONFIG_DIR={claude} ~/v/bin/python ~/stand_in.py install")
    yield lambda word: json.loads(box.ok(f"~/v/bin/python ~/stand_in.py {word}"))
    box.ok("~/v/bin/python ~/stand_in.py uninstall")


def test_the_hardening_lets_the_daemon_work_and_keeps_the_net_closed(stand_in: Callable[[str], Any]) -> None:
    found = stand_in("probe")
    assert found.pop("internet").startswith("refused")
    assert set(found.values()) == {"ok"}, found


def test_paths_and_variables_with_odd_characters_arrive_as_they_were(stand_in: Callable[[str], Any]) -> None:
    found = stand_in("who")
    assert (
        dict(zip(found["names"], found["values"], strict=True))["CLAUDE_CONFIG_DIR"] == '/home/dev/50% "mine" $HOME \\n'
    )
    assert found["activated"]


def test_an_environment_without_anything_finds_the_user_manager(box: Box, stand_in: Callable[[str], Any]) -> None:
    before = stand_in("who")["pid"]
    code = "import os; from mulligan.service import platform; platform.run('restart', os.environ)"
    box.ok(f"env -i ~/v/bin/python -c {shlex.quote(code)}")
    assert stand_in("who")["pid"] != before


def test_the_daemon_is_up_when_it_is_installed_and_systemctl_shows_its_status(service: Box) -> None:
    assert service.show("ActiveState") == "active"
    assert service.show("UnitFileState") == "enabled"
    assert service.show("StatusText") != ""
    assert f'Status: "{service.show("StatusText")}"' in service.ok(
        "systemctl --user --no-pager status mulligand.service"
    )
    assert service.status()["daemon"]["pid"] == int(service.show("MainPID"))
    assert service.ok(f"stat -c '%a %F' {SOCKET} {Path(SOCKET).parent}").split("\n")[:2] == [
        "600 socket",
        "700 directory",
    ]


def test_the_dry_run_writes_nothing_and_shows_both_units(service: Box) -> None:
    service.ok("~/v/bin/mulligan service uninstall")
    shown = service.ok("~/v/bin/mulligan service install --dry-run")
    assert "Type=notify" in shown
    assert f"ListenStream={SOCKET}" in shown
    assert service.run(f"ls {UNITS}/mulligand.service").returncode != 0


def test_it_protects_a_project(service: Box) -> None:
    service.ok("mkdir -p ~/project && cd ~/project && echo one > a && ~/v/bin/mulligan project add .")
    service.ok("cd ~/project && ~/v/bin/mulligan checkpoint -m first && echo two > a")
    service.ok("cd ~/project && ~/v/bin/mulligan restore latest --yes")
    assert service.ok("cat ~/project/a") == "one\n"


def test_reload_takes_a_valid_configuration_and_keeps_it_from_a_broken_one(service: Box) -> None:
    before = service.show("MainPID")

    def strategy() -> str:
        done = service.ok("~/v/bin/mulligan --json settings get strategy --scope global")
        return str(json.loads(done)["settings"]["strategy"]["value"])

    service.put("~/.config/mulligan/config.yaml", "strategy: per_prompt\n")
    service.ok("systemctl --user reload mulligand.service")
    service.until(lambda: strategy() == "per_prompt")
    service.put("~/.config/mulligan/config.yaml", "strategy: [\n")
    service.run("systemctl --user reload mulligand.service")
    service.until(lambda: service.show("ActiveState") == "active")
    assert strategy() == "per_prompt"
    assert service.show("MainPID") == before


def test_after_a_kill_it_is_restarted_and_answers(service: Box) -> None:
    before = service.show("MainPID")
    service.ok(f"kill -9 {before}")
    service.until(lambda: service.show("ActiveState") == "active" and service.show("MainPID") not in ("0", before))
    assert service.status()["daemon"]["pid"] != int(before)


def test_stop_stops_it_for_good_and_start_starts_it(service: Box) -> None:
    service.ok("~/v/bin/mulligan stop")
    assert service.mulligan("status").returncode == 7
    assert service.show("ActiveState") == "inactive"
    assert service.run("pgrep -u dev -f bin/mulligand").stdout == ""
    service.ok("~/v/bin/mulligan stop")
    service.ok("~/v/bin/mulligan start")
    assert service.show("ActiveState") == "active"
    assert service.status()["daemon"]["pid"] == int(service.show("MainPID"))


def test_a_client_starts_it_through_the_socket(service: Box) -> None:
    service.ok("systemctl --user stop mulligand.service")
    assert service.show("ActiveState", "mulligand.socket") == "active"
    assert service.status()["daemon"]["pid"] == int(service.show("MainPID"))


def test_V4_a_broken_configuration_is_not_tried_again_and_again(service: Box) -> None:
    service.ok("~/v/bin/mulligan stop")
    service.put("~/.config/mulligan/config.yaml", "stratgy: smart\n")
    assert service.run("systemctl --user start mulligand.service").returncode != 0
    assert service.show("ExecMainStatus") == "78"
    assert service.show("NRestarts") == "0"
    assert "strategy" in service.journal()
    service.ok("rm ~/.config/mulligan/config.yaml && ~/v/bin/mulligan start")
    assert service.status()["daemon"]["pid"] > 0


def test_logs_are_in_the_journal(service: Box) -> None:
    assert "mulligan" in service.ok("~/v/bin/mulligan service logs")


def test_uninstall_leaves_no_unit_no_socket_no_process_and_keeps_the_data(service: Box) -> None:
    said = service.ok("~/v/bin/mulligan service uninstall")
    assert ".local/share/mulligan" in said  # the home directory may be shown as ~
    assert service.run("systemctl --user list-unit-files --no-legend 'mulligan*'").stdout == ""
    assert service.run("systemctl --user list-units --all --no-legend 'mulligan*'").stdout == ""
    assert service.ok(f"find {UNITS} -name 'mulligan*'") == ""
    assert service.run(f"ls {SOCKET}").returncode != 0
    assert service.run("pgrep -u dev -f bin/mulligand").stdout == ""
    assert service.ok("stat -c %a ~/.local/share/mulligan").strip() == "700"
    service.ok("~/v/bin/mulligan service uninstall")
