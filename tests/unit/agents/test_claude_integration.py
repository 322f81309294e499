"""Installing for Claude Code and taking it out again: whose bytes are whose."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.agents import claude_settings
from mulligan.agents.claude_input import EVENTS
from mulligan.agents.claude_plugin import WAITING, WITHOUT_WAITING
from mulligan.agents.jsonc import load, put
from mulligan.client.main import main

LINE = claude_settings.status_line("/opt/mulligan's/bin/mulligan", "/state dir")
THEIRS = {"type": "command", "command": "~/mine.sh"}
NAMES = ["model", "env", "hooks", "permissions", "enabledPlugins", "extraKnownMarketplaces", "statusLine"]
VALUES = st.one_of(st.just({}), st.just({"a@b": True}), st.just({"x": {"source": {"source": "github", "repo": "o/r"}}}))


@st.composite
def settings(draw: st.DrawFn) -> str:
    """Settings as somebody may have them."""
    value: dict[str, Any] = {name: draw(VALUES) for name in draw(st.lists(st.sampled_from(NAMES[:-1]), unique=True))}
    if draw(st.booleans()):
        value["statusLine"] = THEIRS
    text = json.dumps(value, indent=draw(st.sampled_from([None, 1, 2, 4, "\t"])))
    text = draw(st.sampled_from([text, f"// mine\n{text}", f"{text} // mine\n", "\ufeff" + text]))
    text = text.replace("{}", draw(st.sampled_from(["{}", "{ }", "{\n}", "{ /* none */ }"])))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))) + draw(st.sampled_from(["", "\n", "\n\n"]))


@given(settings())
def test_taking_it_out_gives_the_same_bytes(text: str) -> None:
    edited, keeps = claude_settings.integrated(text, "/m", LINE)
    assert keeps == ("statusLine" in load(text))
    assert load(edited)["enabledPlugins"]["mulligan@mulligan"] is True
    assert load(edited)["extraKnownMarketplaces"]["mulligan"]["source"] == {"source": "directory", "path": "/m"}
    assert load(edited)["statusLine"] == (THEIRS if keeps else LINE)
    assert claude_settings.integrated(edited, "/m", LINE) == (edited, keeps)
    moved, _ = claude_settings.integrated(edited, "/elsewhere", LINE)
    assert claude_settings.removed(edited) == claude_settings.removed(moved) == text


@given(settings(), st.sampled_from(["theirs", "model", "enabledPlugins", "statusLine"]))
def test_what_somebody_changed_meanwhile_stays(text: str, name: str) -> None:
    edited, _ = claude_settings.integrated(text, "/m", LINE)
    path = [name, "their@own"] if name == "enabledPlugins" else [name]
    value: Any = THEIRS if name == "statusLine" else "x"
    left = claude_settings.removed(put(edited, path, value))
    assert left is not None
    wanted = load(put(text, path, value))
    assert load(left) == wanted


def test_a_file_that_was_made_goes_unless_somebody_wrote_into_it() -> None:
    made, _ = claude_settings.integrated(None, "/m", LINE)
    assert json.loads(made)["enabledPlugins"] == {"mulligan@mulligan": True}
    assert claude_settings.removed(made) is None
    assert claude_settings.integrated(made, "/m", LINE) == (made, False)
    schema = '{\n  "$schema": "https://json.schemastore.org/claude-code-settings.json"\n}\n'
    assert claude_settings.removed(claude_settings.integrated(schema, "/m", LINE)[0]) == schema
    left = claude_settings.removed(put(made, ["model"], "opus"))
    assert left is not None and load(left) == {"$schema": load(schema)["$schema"], "model": "opus"}


@pytest.mark.parametrize("text", ["", "\n", "  \r\n\n"])
def test_an_empty_file_is_one_without_settings(text: str) -> None:
    assert claude_settings.removed(text) == text
    edited, keeps = claude_settings.integrated(text, "/m", LINE)
    assert not keeps and load(edited)["enabledPlugins"] == {"mulligan@mulligan": True}
    assert claude_settings.integrated(edited, "/m", LINE) == (edited, False)
    assert claude_settings.removed(edited) == text
    left = claude_settings.removed(put(edited, ["model"], "opus"))
    assert left is not None and load(left)["model"] == "opus" and "mulligan" not in left


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    for name in ("MULLIGAN_DATA_DIR", "MULLIGAN_STATE_DIR", "CLAUDE_CONFIG_DIR", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    return home


def plugin(home: Path) -> Path:
    return home / ".local/share/mulligan/agents/claude"


def integrate(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    status = main(["--json", "integrate", "claude", *words])
    said = capsys.readouterr()
    return status, json.loads(said.out or said.err)


def test_the_whole_way(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = home / ".claude/settings.json"
    settings.write_bytes(b'\xef\xbb\xbf{\r\n\t"model": "opus" // mine\r\n}')
    settings.chmod(0o640)
    before = settings.read_bytes()
    status, said = integrate(capsys, "--dry-run")
    assert (status, said["changed"], said["dry_run"]) == (0, True, True)
    assert settings.read_bytes() == before and not plugin(home).exists()
    umask = os.umask(0o077)
    try:
        status, said = integrate(capsys)
    finally:
        os.umask(umask)
    assert (status, said["settings"], said["changed"]) == (0, str(settings), True)
    assert stat.S_IMODE(settings.stat().st_mode) == 0o640
    assert integrate(capsys)[1]["changed"] is False
    assert json.loads((plugin(home) / ".claude-plugin/marketplace.json").read_bytes())["name"] == "mulligan"
    for name in ("plugin/commands/undo.md", "plugin/skills/keeping-task-state/SKILL.md", "plugin/.mcp.json"):
        assert (plugin(home) / name).read_bytes()
    assert integrate(capsys, "--remove")[1]["removed"] is True
    assert settings.read_bytes() == before and stat.S_IMODE(settings.stat().st_mode) == 0o640
    assert not plugin(home).exists()
    assert integrate(capsys, "--remove")[1]["changed"] is False


def test_settings_that_are_a_link_stay_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "dotfiles").mkdir()
    real, link = home / "dotfiles/claude.json", home / ".claude/settings.json"
    real.write_text("{}")
    link.symlink_to("../dotfiles/claude.json")
    integrate(capsys)
    assert link.is_symlink() and "mulligan" in real.read_text()
    integrate(capsys, "--remove")
    assert link.is_symlink() and real.read_text() == "{}"


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'{\n  "a": 1\n  "b": 2\n}', "line 3"),
        (b"[]", "line 1"),
        (b'{\n"a": "\xff"}', "line 2"),
        (b"// none", "line 1"),
    ],
)
def test_broken_settings_are_refused_and_left(
    home: Path, capsys: pytest.CaptureFixture[str], data: bytes, place: str
) -> None:
    settings = home / ".claude/settings.json"
    settings.write_bytes(data)
    status, said = integrate(capsys)
    assert status == 4
    assert str(settings) in said["error"]["message"] and place in said["error"]["message"]
    assert settings.read_bytes() == data and not plugin(home).exists()


def test_who_turned_the_plugin_off_is_asked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, data = home / ".claude/settings.json", b'{"enabledPlugins": {"mulligan@mulligan": false}}'
    settings.write_bytes(data)
    status, said = integrate(capsys)
    assert (status, "turns the plugin off" in said["error"]["message"]) == (4, True)
    assert settings.read_bytes() == data and not plugin(home).exists()
    assert integrate(capsys, "--remove")[1]["changed"] is False and settings.read_bytes() == data


def test_two_settings_share_one_plugin(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "shop/.git").mkdir(parents=True)
    (home / "shop/src").mkdir()
    os.chdir(home / "shop/src")
    assert integrate(capsys, "--project")[1]["settings"] == str(home / "shop/.claude/settings.json")
    assert integrate(capsys, "--user")[1]["settings"] == str(home / ".claude/settings.json")
    integrate(capsys, "--user", "--remove")
    assert plugin(home).exists() and not (home / ".claude/settings.json").exists()
    integrate(capsys, "--project", "--remove")
    assert not plugin(home).exists() and not (home / "shop/.claude/settings.json").exists()


def test_a_hook_is_silent_and_successful_even_if_everything_is_gone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    integrate(capsys)
    hooks = json.loads((plugin(home) / "plugin/hooks/hooks.json").read_bytes())["hooks"]
    assert set(hooks) == {*WAITING, *WITHOUT_WAITING} == EVENTS
    (plugin(home) / "plugin/hook.py").unlink()
    for event, (entry,) in hooks.items():
        (hook,) = entry["hooks"]
        assert hook.get("async", False) == (event in WITHOUT_WAITING)
        for command in (hook["command"], hook["command"].replace(hook["command"].split()[0], "/nowhere/python")):
            done = subprocess.run(["/bin/sh", "-c", command], input=b"{}", capture_output=True, check=False)
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_daemon_elsewhere_is_written_down(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULLIGAN_STATE_DIR", str(home / "my state"))
    integrate(capsys)
    hooks = (plugin(home) / "plugin/hooks/hooks.json").read_text()
    assert hooks.count(f"Stop '{home}/my state' 2>/dev/null") == 2
    assert json.loads((plugin(home) / "plugin/.mcp.json").read_bytes())["mcpServers"]["mulligan"]["env"]
    assert f"MULLIGAN_STATE_DIR='{home}/my state' " in (home / ".claude/settings.json").read_text()


def test_somebodys_status_line_stays(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = home / ".claude/settings.json"
    settings.write_text(json.dumps({"statusLine": THEIRS}))
    _, said = integrate(capsys)
    assert json.loads(settings.read_text())["statusLine"] == THEIRS
    assert any("status line" in warning for warning in said["warnings"])
