"""The launch agent, as far as it can be known without macOS."""

from __future__ import annotations

import os
import plistlib
from pathlib import Path
from typing import Any

import pytest

from mulligan.errors import RefusedError
from mulligan.paths import places
from mulligan.service import launchd, platform
from mulligan.service.plan import Directory, Plan


def plan(home: Path, executable: str = "/opt/mulligan/bin/mulligand", **environ: str) -> Plan:
    given = {"HOME": str(home), **environ}
    return platform.plan_install(places(given, "darwin"), given, executable, platform="darwin")


def content(made: Plan) -> dict[str, Any]:
    return dict(plistlib.loads(made.files[0].content))


def test_the_agent_runs_at_login_and_again_after_a_crash_only(tmp_path: Path) -> None:
    agent = content(plan(tmp_path))
    assert agent["Label"] == "dev.mulligan.daemon"
    assert agent["ProgramArguments"] == ["/opt/mulligan/bin/mulligand"]
    assert agent["RunAtLoad"] is True
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["ThrottleInterval"] >= 10
    assert agent["ProcessType"] == "Background"
    assert agent["Umask"] == 0o077


def test_it_lies_where_launchd_looks_and_is_private(tmp_path: Path) -> None:
    (file,) = plan(tmp_path).files
    assert file.path == f"{tmp_path}/Library/LaunchAgents/dev.mulligan.daemon.plist"
    assert file.mode == 0o600


def test_variables_need_no_quoting(tmp_path: Path) -> None:
    agent = content(plan(tmp_path, '/a b/"<&>/mulligand', CLAUDE_CONFIG_DIR="/x & <y>", XDG_SESSION_ID="3"))
    assert agent["ProgramArguments"] == ['/a b/"<&>/mulligand']
    assert agent["EnvironmentVariables"] == {"CLAUDE_CONFIG_DIR": "/x & <y>", "HOME": str(tmp_path)}


def test_what_xml_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="property list"):
        plan(tmp_path, CLAUDE_CONFIG_DIR="/a\x01b")
    with pytest.raises(RefusedError, match="property list"):
        plan(tmp_path, CLAUDE_CONFIG_DIR=os.fsdecode(b"/caf\xe9"))


def test_an_old_agent_is_unloaded_before_the_new_one_is_loaded(tmp_path: Path) -> None:
    commands = plan(tmp_path).commands
    assert [command.argv[1] for command in commands] == ["bootout", "enable", "bootstrap", "kickstart"]
    assert [command.may_fail for command in commands] == [True, False, False, False]


def test_the_place_of_its_crash_output_exists(tmp_path: Path) -> None:
    made = plan(tmp_path)
    assert isinstance(made.steps[0], Directory)
    assert content(made)["StandardErrorPath"].startswith(made.steps[0].path + "/")


def test_taking_it_out_unloads_and_removes(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    path = Path(launchd.agent_path(environ))
    path.parent.mkdir(parents=True)
    assert not platform.is_installed(environ, platform="darwin")
    path.touch()
    assert platform.is_installed(environ, platform="darwin")
    made = platform.plan_uninstall(environ, platform="darwin")
    assert made.removals == (str(path),)
    assert made.commands[0].argv[1] == "bootout"


@pytest.mark.parametrize("verb", ["start", "stop", "restart", "reload", "status"])
def test_each_verb_has_a_command_for_this_user(verb: platform.Verb) -> None:
    argv = platform.command(verb, platform="darwin")
    assert argv[0] == "launchctl"
    assert argv[-1] == f"gui/{os.getuid()}/dev.mulligan.daemon"


def test_the_log_is_the_daemons_own_file(tmp_path: Path) -> None:
    argv = platform.logs_command(places({"HOME": str(tmp_path)}, "darwin"), follow=True, platform="darwin")
    assert argv[-1].endswith("/mulligand.log")
    assert "-F" in argv
