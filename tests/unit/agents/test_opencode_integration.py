"""Installing for OpenCode and taking it out again: whose bytes are whose."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan import resources
from mulligan.agents import opencode_integration
from mulligan.agents.jsonc import load, put, take
from mulligan.client.main import main

SERVERS = st.dictionaries(st.sampled_from(["github", "docs"]), st.just({"type": "remote", "url": "https://x.example"}))
OTHERS = st.fixed_dictionaries({}, optional={"model": st.just("a/b"), "plugin": st.just(["x"]), "mcp": SERVERS})


@st.composite
def configurations(draw: st.DrawFn) -> str:
    """A configuration as somebody may have it."""
    text = json.dumps(draw(OTHERS), indent=draw(st.sampled_from([None, 2, 4, "\t"])))
    text = draw(st.sampled_from([text, f"// mine\n{text}", f"/* mine */ {text}\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@given(configurations(), st.sampled_from(["", "/a state"]))
def test_taking_the_server_out_gives_the_same_bytes(text: str, state_dir: str) -> None:
    server = opencode_integration.server("/opt/mulligan", state_dir)
    edited = put(text, opencode_integration.SERVER, server)
    assert load(edited)["mcp"]["mulligan"] == server
    assert opencode_integration.without(edited) == take(edited, opencode_integration.SERVER) == text


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / "shop/src").mkdir(parents=True)
    (home / "shop/.git").mkdir()
    for name in ("MULLIGAN_STATE_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "shop/src")
    return home


def run(*words: str) -> int:
    return main(["integrate", "opencode", *words])


def files(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("scope", "base", "beside"),
    [("--user", ".config/opencode", ".config/opencode"), ("--project", "shop", "shop/.opencode")],
)
def test_it_is_made_and_leaves_nothing_behind(home: Path, scope: str, base: str, beside: str) -> None:
    before = sorted(str(path) for path in home.rglob("*"))
    assert run(scope) == 0
    settings, plugin = home / base / "opencode.json", home / beside / "plugins/mulligan.js"
    assert plugin.read_text() == resources.plugin("opencode/mulligan.js").read_text(encoding="utf-8")
    server = json.loads(settings.read_text())["mcp"]["mulligan"]
    assert (server["type"], server["command"][1:], server["enabled"]) == ("local", ["mcp"], True)
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    made = files(home)
    assert run(scope) == 0
    assert files(home) == made
    assert run(scope, "--remove") == 0
    assert [path for path in sorted(str(path) for path in home.rglob("*")) if ".config" not in path] == [
        path for path in before if ".config" not in path
    ]
    assert files(home) == {}
    assert run(scope, "--remove") == 0


def test_what_is_there_is_edited_and_restored_byte_for_byte(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = home / "shop/opencode.jsonc"
    text = '{\n    // ours\n    "model": "a/b", /* so */\n    "mcp": {"docs": {"type": "remote", "url": "u"},},\n}\n'
    settings.write_text(text)
    settings.chmod(0o644)
    theirs = home / "shop/.opencode/plugins/theirs.js"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("export default {}\n")
    assert main(["--json", "integrate", "opencode", "--project"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (told["settings"], told["changed"], told["removed"]) == (str(settings), True, False)
    assert sorted(told["files"]) == sorted([str(settings), str(theirs.with_name("mulligan.js"))])
    assert list(load(settings.read_text())["mcp"]) == ["mulligan", "docs"]
    assert stat.S_IMODE(settings.stat().st_mode) == 0o644
    assert not (home / "shop/opencode.json").exists()
    assert run("--project", "--remove") == 0
    assert settings.read_text() == text
    assert files(home / "shop/.opencode") == {"plugins/theirs.js": b"export default {}\n"}


def test_a_dry_run_shows_and_changes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--dry-run") == 0
    shown = capsys.readouterr().out
    assert '+    "mulligan": {' in shown
    assert "opencode/plugins/mulligan.js\n" in shown
    assert files(home) == {}


def test_a_state_directory_of_its_own_is_written_down(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_STATE_DIR", '/var/"state"')
    assert run() == 0
    base = home / ".config/opencode"
    assert 'const STATE_DIR = "/var/\\"state\\""\n' in (base / "plugins/mulligan.js").read_text()
    server = json.loads((base / "opencode.json").read_text())["mcp"]["mulligan"]
    assert server["environment"] == {"MULLIGAN_STATE_DIR": '/var/"state"'}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("opencode.json", '{"model": }', "line 1"),
        ("opencode.json", '{"mcp": []}', '"mcp" is no object'),
        ("plugins/mulligan.js", "export default {}", "is not mulligan's"),
    ],
)
def test_what_is_broken_or_somebodys_is_left_alone(
    home: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, said: str
) -> None:
    path = home / ".config/opencode" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert run() == 4
    assert said in capsys.readouterr().err
    assert files(home) == {f".config/opencode/{name}": text.encode()}
    assert run("--remove") == (0 if "mulligan.js" in name or "[]" in text else 4)
    assert files(home) == {f".config/opencode/{name}": text.encode()}
