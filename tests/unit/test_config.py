"""The configuration file: what it means, and how it is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan import resources
from mulligan.config import Config, dump, load, parse
from mulligan.errors import ConfigError


def refusal(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse(text, "c.yaml")
    return caught.value


def test_defaults_are_the_contracts() -> None:
    config = Config()
    assert (config.strategy, config.auto_checkpoint, config.turn_end, config.auto_add) == ("smart", True, True, True)
    assert (config.exclude, config.include, config.claude_config_dirs) == ((), (), ())
    assert (config.budget_bytes, config.interval, config.log_level) == (None, None, "info")
    assert (config.max_file_bytes, config.max_project_files) == (256 * 2**20, 200_000)
    assert config.max_project_bytes == 5 * 2**30


def test_T19_the_defaults_of_task_state_are_the_seeds() -> None:
    config = Config()
    assert (config.history_limit, config.autosave_every, config.max_injection_chars) == (10, 5, 20_000)
    assert (config.handoff, config.handoff_dir, config.database_path) == (True, None, None)
    assert config.legacy_import == "namespace"


def test_the_annotated_default_file_names_every_key_and_gives_the_defaults() -> None:
    text = resources.read(resources.DEFAULT_CONFIG)
    assert parse(text) == Config()
    keys = [line.split(":")[0] for line in text.splitlines() if line[:1].isalpha()]
    assert sorted(keys) == sorted(Config.__struct_fields__)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing but a remark\n", "---\n", "\ufeff# with a mark\n"])
def test_an_empty_file_is_the_default(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    assert load(str(file)) == Config()


def test_an_absent_file_is_the_default(tmp_path: Path) -> None:
    assert load(str(tmp_path / "none" / "config.yaml")) == Config()


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("strategy: per_prompt", "strategy", "per_prompt"),
        ("auto_add: false", "auto_add", False),
        ("budget_bytes: 20 MB", "budget_bytes", 20_000_000),
        ("budget_bytes: 20971520", "budget_bytes", 20_971_520),
        ("max_file_bytes: 1.5GiB", "max_file_bytes", 3 * 2**29),
        ("max_file_bytes: 0x1000", "max_file_bytes", 4096),
        ("max_project_files: 010", "max_project_files", 10),
        ("exclude: [~/a, /b, '*/c']", "exclude", ("~/a", "/b", "*/c")),
        ("interval: off", "interval", None),
        ("interval: 1h30m", "interval", 5400),
        ("interval: '45s'", "interval", 45),
        ("history_limit: 20", "history_limit", 20),
        ("autosave_every: false", "autosave_every", 0),
        ("autosave_every: 0", "autosave_every", 0),
        ("autosave_every: 3", "autosave_every", 3),
        ("handoff: false", "handoff", False),
        ("handoff_dir: .mulligan/handoff", "handoff_dir", ".mulligan/handoff"),
        ("handoff_dir: ..notes/a..b", "handoff_dir", "..notes/a..b"),
        ("handoff_dir: .github/notes", "handoff_dir", ".github/notes"),
        ("handoff_dir: null", "handoff_dir", None),
        ("max_injection_chars: 0", "max_injection_chars", 0),
        ("legacy_import: off", "legacy_import", "off"),
        ("database_path: ~/state.db", "database_path", "~/state.db"),
        ("database_path: /srv/state.db", "database_path", "/srv/state.db"),
    ],
)
def test_a_key_has_the_value_that_was_written(text: str, key: str, value: Any) -> None:
    assert getattr(parse(text), key) == value


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("auto_add: no", 1, 11, "auto_add: expected true or false"),
        ("auto_add: yes", 1, 11, "auto_add: expected true or false"),
        ("auto_add: 1", 1, 11, "auto_add: expected true or false"),
        ("auto_add: !!bool yes", 1, 11, "tags"),
        ("turn_end:", 1, 10, "found nothing"),
        ("\nstrategy: fast", 2, 11, "one of manual, per_prompt, per_tool_use, smart"),
        ("interval: 1:30", 1, 11, "a duration such as"),
        ("interval: 30", 1, 11, "a duration such as"),
        ("interval: true", 1, 11, "a duration such as"),
        ("interval: 0s", 1, 11, "a duration such as"),
        ("interval: 367d", 1, 11, "a duration such as"),
        ("max_file_bytes: 0", 1, 17, "a number of bytes"),
        ("max_file_bytes: 5 apples", 1, 17, "a number of bytes"),
        ("max_file_bytes: 1.5", 1, 17, "a number of bytes"),
        ("max_file_bytes: " + "9" * 40, 1, 17, "a number of bytes"),
        ("max_project_files: true", 1, 20, "a whole number"),
        ("budget_bytes: 1 kB", 1, 15, "1 MiB and more"),
        ("exclude: /a", 1, 10, "a list of directories"),
        ("exclude:\n  - /a\n  - node_modules\n", 3, 5, 'found "node_modules"'),
        ("claude_config_dirs: ['*x']", 1, 22, "absolute path"),
        ("history_limit: 0", 1, 16, "a whole number of 1 to 10000"),
        ("history_limit: -3", 1, 16, "a whole number of 1 to 10000"),
        ("history_limit: ten", 1, 16, "a whole number of 1 to 10000"),
        ("autosave_every: true", 1, 17, "false or 0 is never"),
        ("autosave_every: -1", 1, 17, "false or 0 is never"),
        ("autosave_every: 2.5", 1, 17, "false or 0 is never"),
        ("handoff: 1", 1, 10, "true or false"),
        ("handoff_dir: /srv", 1, 14, "below the project"),
        ("handoff_dir: ~/x", 1, 14, "below the project"),
        ("handoff_dir: ..", 1, 14, "below the project"),
        ("handoff_dir: a/../../b", 1, 14, "below the project"),
        ("handoff_dir: a/..", 1, 14, "below the project"),
        ("handoff_dir: .git", 1, 14, "no .git"),
        ("handoff_dir: sub/.git/x", 1, 14, "no .git"),
        ("handoff_dir: ''", 1, 14, "below the project"),
        ("max_injection_chars: -1", 1, 22, "a number of characters"),
        ("max_injection_chars: many", 1, 22, "a number of characters"),
        ("legacy_import: on", 1, 16, "one of namespace, off"),
        ("legacy_import: false", 1, 16, "one of namespace, off"),
        ("database_path: state.db", 1, 16, "an absolute path"),
        ("database_path: /srv/", 1, 16, "an absolute path"),
        ("exclude: [*/a]", 1, 12, "must stand in quotes"),
        ("exclude: &a [/a]\ninclude: *a", 2, 10, "must stand in quotes"),
        ("auto_add: true\n\nauto_add: false", 3, 1, '"auto_add" stands here twice (first in line 1)'),
        ("exclude: {a: 1, a: 2}", 1, 17, '"a" stands here twice'),
        ("? [a]\n: 1", 1, 3, "a key must be a word"),
        ("- strategy", 1, 1, "key: value"),
        ("just a text", 1, 1, "key: value"),
        ("strategy: [smart", 1, 17, "expected"),
        ("strategy: smart\n--- \nstrategy: manual", 2, 1, "found another document"),
        ("a: b\nstrategy: \x07smart", 2, 11, "control character"),
        ("a: " + "[" * 5000, 1, 1, "nested too deeply"),
    ],
)
def test_V4_what_cannot_be_used_is_refused_with_its_place(text: str, line: int, column: int, reason: str) -> None:
    error = refusal(text)
    assert reason in error.message
    assert (error.data["line"], error.data["column"]) == (line, column)
    assert error.message.startswith(f"c.yaml:{line}:{column}: ")
    assert error.exit_status == 78
    assert error.hint


def test_a_wrong_value_names_its_key_and_what_was_expected() -> None:
    error = refusal("turn_end: maybe")
    assert (error.data["file"], error.data["key"]) == ("c.yaml", "turn_end")
    assert error.data["expected"] == "true or false"


@pytest.mark.parametrize(("word", "nearest"), [("stratgy", "strategy"), ("max_file_byte", "max_file_bytes")])
def test_an_unknown_key_gets_the_nearest_one(word: str, nearest: str) -> None:
    error = refusal(f"{word}: 1")
    assert error.data["nearest"] == [nearest]
    assert nearest in error.hint


def test_an_unknown_key_that_is_near_to_none_gets_all() -> None:
    assert "log_level" in refusal("'': 1").hint


def test_foreign_text_in_a_message_cannot_act_on_a_terminal() -> None:
    assert "\x1b" not in refusal('"\\e[2J": 1').message + refusal('strategy: "\\e[2J"').message


def test_V4_a_file_that_is_not_utf8_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(b"strategy: smart\n# caf\xe9\n")
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        load(str(file))
    assert (caught.value.data["line"], caught.value.data["column"]) == (2, 6)


def test_V4_a_file_that_cannot_be_read_is_refused_and_not_taken_for_an_absent_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(str(tmp_path))


def test_directories_replace_the_tilde_alone() -> None:
    config = parse("exclude: [~/a, /b/~c, '*/d']\n")
    assert config.directories("exclude", "/home/ana") == ["/home/ana/a", "/b/~c", "*/d"]


_PATHS = st.lists(
    st.text(max_size=12).map(lambda text: "/" + text) | st.sampled_from(["~/x", "/no", "/1:30"]), max_size=3
)


@given(
    st.builds(
        Config,
        strategy=st.sampled_from(["manual", "per_prompt", "per_tool_use", "smart"]),
        auto_add=st.booleans(),
        exclude=_PATHS.map(tuple),
        claude_config_dirs=_PATHS.map(tuple),
        budget_bytes=st.none() | st.integers(2**20, 2**62),
        max_file_bytes=st.integers(1, 2**62),
        interval=st.none() | st.integers(1, 366 * 86_400),
    )
)
def test_the_dump_reads_as_the_same_configuration(config: Config) -> None:
    assert parse(dump(config)) == config


def test_importing_it_loads_no_yaml() -> None:
    code = "import sys, mulligan.config; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ}, check=False).returncode == 0
