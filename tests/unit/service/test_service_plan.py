"""Doing a plan: files as a whole and private, commands in their order, failures with their reason."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from mulligan.errors import NotFoundError, RefusedError
from mulligan.paths import places
from mulligan.service import platform
from mulligan.service.plan import Command, CommandError, Directory, File, Plan, Removal, apply


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_made_with_their_mode_and_directories_are_private(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "unit"
    old = os.umask(0)
    try:
        apply(Plan((Directory(str(tmp_path / "d")), File(str(file), b"x", 0o600))), {})
    finally:
        os.umask(old)
    assert file.read_bytes() == b"x"
    assert (mode(file), mode(file.parent), mode(tmp_path / "a"), mode(tmp_path / "d")) == (0o600, 0o700, 0o700, 0o700)
    assert [entry.name for entry in file.parent.iterdir()] == ["unit"]


def test_a_file_that_is_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (tmp_path / "unit").symlink_to(outside)
    apply(Plan((File(str(tmp_path / "unit"), b"ours"),)), {})
    assert outside.read_text() == "mine"
    assert not (tmp_path / "unit").is_symlink()


def test_a_plan_done_twice_is_a_plan_done_once(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    plan = Plan((Directory(str(tmp_path / "d")), File(str(tmp_path / "f"), b"x"), Removal(str(tmp_path / "old"))))
    for _ in range(2):
        apply(plan, {})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["d", "f"]


def test_a_failing_command_ends_it_with_what_the_command_said(tmp_path: Path) -> None:
    failing = Command((sys.executable, "-c", "import sys; print('no such unit', file=sys.stderr); sys.exit(5)"))
    with pytest.raises(CommandError, match="no such unit"):
        apply(Plan((failing, File(str(tmp_path / "later"), b""))), os.environ)
    assert not (tmp_path / "later").exists()


def test_a_command_that_may_fail_does_not_end_it(tmp_path: Path) -> None:
    steps = (
        Command((sys.executable, "-c", "raise SystemExit(5)"), may_fail=True),
        Command(("/nowhere/at/all",), may_fail=True),
        File(str(tmp_path / "later"), b""),
    )
    apply(Plan(steps), os.environ)
    assert (tmp_path / "later").exists()


def test_a_program_that_is_missing_is_said() -> None:
    with pytest.raises(CommandError, match="No such file"):
        apply(Plan((Command(("/nowhere/at/all",)),)), {})


def test_a_plan_is_shown_in_its_order() -> None:
    plan = Plan((File("/u", b"[Unit]\n"), Command(("run", "a b")), Removal("/old")), ("note",))
    assert plan.render() == "# file /u (0600)\n[Unit]\n\n$ run 'a b'\n# remove /old\n# note\n"


def test_an_unknown_platform_is_refused_with_a_way_out() -> None:
    with pytest.raises(RefusedError) as caught:
        platform.kind("sunos5")
    assert "mulligan start" in caught.value.hint
    assert not platform.is_installed({"HOME": "/"}, platform="sunos5")


def test_the_daemon_beside_the_client_is_taken_before_the_one_in_path(tmp_path: Path) -> None:
    for directory in ("here", "path"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "mulligand").write_text("#!/bin/sh\n")
    environ = {"PATH": str(tmp_path / "path")}
    (tmp_path / "path" / "mulligand").chmod(0o755)
    client = str(tmp_path / "here" / "mulligan")
    assert platform.find_executable(environ, client, "/nowhere/python") == str(tmp_path / "path" / "mulligand")
    (tmp_path / "here" / "mulligand").chmod(0o755)
    assert platform.find_executable(environ, client, "/nowhere/python") == str(tmp_path / "here" / "mulligand")
    with pytest.raises(NotFoundError):
        platform.find_executable({"PATH": "/nowhere"}, "/nowhere/mulligan", "/nowhere/python")


def test_a_relative_executable_never_reaches_a_unit() -> None:
    environ = {"HOME": "/home/ana"}
    with pytest.raises(ValueError, match="absolute"):
        platform.plan_install(places(environ), environ, "mulligand", platform="linux")
