"""The log: one line a record, nothing that acts, private from its creation on."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan import logs
from mulligan.logs import set_level, set_up, visible


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Leave the process's logging as it was."""
    root, ours = logging.getLogger(), logging.getLogger("mulligan")
    before = root.handlers[:], root.level, ours.level, logging.raiseExceptions
    yield
    for handler in root.handlers[:]:
        if handler not in before[0]:
            root.removeHandler(handler)
            handler.close()
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])
    logging.raiseExceptions = before[3]
    logging.captureWarnings(False)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[tuple[io.TextIOWrapper, dict[str, str]]]:
    """A stream that JOURNAL_STREAM names, as systemd hands it over."""
    with open(tmp_path / "journal", "w+", encoding="utf-8") as stream:
        status = os.fstat(stream.fileno())
        yield stream, {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}


def text_of(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return Path(stream.name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("plain, ünï and 日本", "plain, ünï and 日本"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\u202egpj.exe", r"\u202egpj.exe"),
        ("a\u2028b", r"a\u2028b"),
        (os.fsdecode(b"caf\xe9"), r"caf\xe9"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_a_terminal_would_act_on_is_made_visible(foreign: str, shown: str) -> None:
    assert visible(foreign) == shown


def test_by_hand_it_goes_to_stderr_and_to_a_private_file(tmp_path: Path) -> None:
    stream, state = io.StringIO(), tmp_path / "state"
    old = os.umask(0)
    try:
        set_up("info", environ={}, state_dir=str(state), stream=stream)
    finally:
        os.umask(old)
    logging.getLogger("mulligan.watch").warning("lost %d events in %s", 3, "a\nb")
    line = stream.getvalue()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]{12}Z WARNING mulligan\.watch: lost 3 events in a\\nb\n", line)
    file = state / logs.LOG_NAME
    assert file.read_text() == line
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_a_rotated_log_stays_private_and_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 500)
    set_up("info", environ={}, state_dir=str(tmp_path), stream=io.StringIO())
    for number in range(60):
        logging.getLogger("mulligan").info("line %d", number)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 1 + logs.FILES_KEPT
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert all(file.stat().st_size <= 500 for file in files)


def test_under_systemd_each_line_has_its_priority_and_there_is_no_file(
    journal: tuple[io.TextIOWrapper, dict[str, str]], tmp_path: Path
) -> None:
    stream, environ = journal
    set_up("debug", environ=environ, state_dir=str(tmp_path / "state"), stream=stream)
    log = logging.getLogger("mulligan.store")
    log.debug("one")
    log.info("two")
    log.warning("three\nfour")
    try:
        raise OSError("no space")
    except OSError:
        log.exception("five")
    lines = text_of(stream).splitlines()
    assert lines[:4] == [
        "<7>mulligan.store: one",
        "<6>mulligan.store: two",
        r"<4>mulligan.store: three\nfour",
        "<3>mulligan.store: five",
    ]
    assert all(line.startswith("<3>") for line in lines[4:])
    assert lines[-1] == "<3>OSError: no space"
    assert not (tmp_path / "state").exists()


def test_a_journal_variable_that_was_inherited_proves_nothing(tmp_path: Path) -> None:
    with open(tmp_path / "terminal", "w+", encoding="utf-8") as stream:
        set_up("info", environ={"JOURNAL_STREAM": "8:1"}, state_dir=str(tmp_path / "state"), stream=stream)
        logging.getLogger("mulligan").info("here")
        assert not text_of(stream).startswith("<")
    assert (tmp_path / "state" / logs.LOG_NAME).exists()


def test_json_lines_carry_the_data_and_the_traceback(tmp_path: Path) -> None:
    stream = io.StringIO()
    set_up("info", "json", environ={}, state_dir=str(tmp_path), stream=stream)
    logging.getLogger("mulligan").info("added %s", "\x1bx", extra={"data": {"files": 3, "path": b"\xff"}})
    try:
        raise ValueError("odd")
    except ValueError:
        logging.getLogger("mulligan").exception("bug")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("info", "mulligan", r"added \x1bx")
    assert first["data"]["files"] == 3
    assert second["error"].endswith("ValueError: odd")


def test_V2_a_long_message_is_cut(tmp_path: Path) -> None:
    stream = io.StringIO()
    set_up("info", environ={}, state_dir=str(tmp_path), stream=stream)
    logging.getLogger("mulligan").info("x" * 100_000)
    assert len(stream.getvalue()) < logs.MESSAGE_LIMIT + 100


def test_others_are_heard_from_warning_on_and_the_level_can_change(tmp_path: Path) -> None:
    stream = io.StringIO()
    set_up("info", environ={}, state_dir=str(tmp_path), stream=stream)
    logging.getLogger("apscheduler.scheduler").info("chatter")
    logging.getLogger("mulligan").debug("too fine")
    set_level("debug")
    logging.getLogger("mulligan").debug("now")
    set_level("error")
    logging.getLogger("mulligan").warning("no more")
    assert [line.split(": ")[1] for line in stream.getvalue().splitlines()] == ["now"]


def test_setting_up_again_does_not_double_the_lines(tmp_path: Path) -> None:
    stream = io.StringIO()
    for _ in range(2):
        set_up("info", environ={}, state_dir=str(tmp_path), stream=stream)
    logging.getLogger("mulligan").info("once")
    assert stream.getvalue().count("once") == 1


def test_a_state_directory_that_cannot_be_used_is_said_and_not_fatal(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    stream = io.StringIO()
    set_up("info", environ={}, state_dir=str(tmp_path / "file" / "state"), stream=stream)
    assert "no log file" in stream.getvalue()


def test_under_launchd_only_the_rotated_file_is_written(tmp_path: Path) -> None:
    stream = io.StringIO()
    set_up("info", environ={"XPC_SERVICE_NAME": logs.LAUNCHD_LABEL}, state_dir=str(tmp_path), stream=stream)
    logging.getLogger("mulligan").info("quiet")
    assert stream.getvalue() == ""
    assert "quiet" in (tmp_path / logs.LOG_NAME).read_text()


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "outside").touch()
    (tmp_path / "state" / logs.LOG_NAME).symlink_to(tmp_path / "outside")
    set_up("info", environ={}, state_dir=str(tmp_path / "state"), stream=io.StringIO())
    logging.getLogger("mulligan").info("not there")
    assert (tmp_path / "outside").read_text() == ""


def test_warnings_of_python_come_into_the_log(tmp_path: Path) -> None:
    stream = io.StringIO()
    set_up("info", environ={}, state_dir=str(tmp_path), stream=stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("old call", DeprecationWarning, stacklevel=1)
        logging.captureWarnings(False)
    assert "old call" in stream.getvalue()
