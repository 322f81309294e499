"""Killed at any point, a restore is finished or rolled back at the next start, from the store alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mulligan.restore.plan import Outcome, Plan
from mulligan.restore.stage import BUCKET, MANY
from support import restore_child
from support.restoring import Listing, MemoryContents, build, directory, file, link, scan

CONTENTS = MemoryContents()


def old() -> Listing:
    return {
        b"a": file(CONTENTS, b"old a"),
        b"b": directory(0o750),
        b"b/c": file(CONTENTS, b"old c"),
        b"gone": directory(),
        b"gone/x": file(CONTENTS, b"old x"),
        b"kind": directory(),
        b"kind/y": file(CONTENTS, b"old y"),
        b"mode": file(CONTENTS, b"mode"),
        b"dir": file(CONTENTS, b"will be a directory"),
        b"same": file(CONTENTS, b"same"),
    }


def new() -> Listing:
    return {
        b"a": file(CONTENTS, b"new a", 0o600),
        b"b": directory(0o700),
        b"b/c": link(b"../a"),
        b"b/n": file(CONTENTS, b"x" * 5_000_000),
        b"kind": file(CONTENTS, b"new kind"),
        b"mode": file(CONTENTS, b"mode", 0o755),
        b"dir": directory(0o711),
        b"dir/z": file(CONTENTS, b"new z"),
        b"fresh": directory(0o755),
        b"fresh/sub": directory(0o500),
        b"same": file(CONTENTS, b"same"),
    }


@pytest.fixture
def base(tmp_path: Path) -> Path:
    build(tmp_path / "project", old(), CONTENTS)
    build(tmp_path / "target", new(), CONTENTS)
    (tmp_path / "staging").mkdir(mode=0o700)
    return tmp_path


def child(base: Path, fault: str) -> None:
    """Run the restoring process and make sure that it died at the fault point."""
    log = base / "faults"
    log.unlink(missing_ok=True)
    environ = os.environ | {
        "MULLIGAN_FAULTS": fault,
        "MULLIGAN_FAULT_LOG": str(log),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    program = Path(restore_child.__file__)
    done = subprocess.run([sys.executable, str(program), str(base)], env=environ, check=False)
    assert done.returncode == -9
    assert log.read_text().split() == [fault.partition("=")[0]]


def outcome(base: Path) -> Outcome:
    return msgspec.msgpack.decode((base / "outcome").read_bytes(), type=Outcome)


BEFORE = ["restore.begin=kill", "restore.staging=kill@1", "restore.staging=kill@4"]
AFTER = [
    "restore.staged=kill",
    *(f"restore.applying=kill@{number}" for number in range(1, 15)),
    "restore.applied=kill",
    "restore.before_done=kill",
]


#: A directory is passed when it is made or moved, and a closed one again when its mode is set.
BEFORE_AND_AFTER_THE_MOVE = ["staged=kill", *(f"applying=kill@{number}" for number in range(1, 4)), "applied=kill"]


@pytest.mark.parametrize("fault", BEFORE)
def test_R8_killed_before_everything_was_staged_nothing_was_touched(base: Path, fault: str) -> None:
    child(base, fault)
    restore_child.run(base)
    assert outcome(base).rolled_back
    assert scan(base / "project") == old()
    assert os.listdir(base / "staging") == []


@pytest.mark.parametrize("fault", AFTER)
def test_R8_killed_afterwards_the_restore_is_finished(base: Path, fault: str) -> None:
    child(base, fault)
    restore_child.run(base)
    found = outcome(base)
    assert found.complete and found.verified and not found.captured
    assert scan(base / "project") == new()
    assert os.listdir(base / "staging") == []
    done = {item.path: (item.before, item.after) for item in found.done}
    plan = msgspec.msgpack.decode((base / "plan").read_bytes(), type=Plan)
    assert done == {step.path: (step.expected, step.target) for step in plan.steps()}


@pytest.mark.parametrize("fault", ["restore.staging=kill@2", "restore.applying=kill@5", "restore.applied=kill"])
def test_R8_killed_again_in_the_recovery_it_is_finished_by_the_next_one(base: Path, fault: str) -> None:
    child(base, "restore.applying=kill@3")
    child(base, fault)
    restore_child.run(base)
    assert outcome(base).complete and not outcome(base).captured
    assert scan(base / "project") == new()
    assert os.listdir(base / "staging") == []


def test_what_was_changed_between_the_crash_and_the_recovery_is_kept(base: Path) -> None:
    child(base, "restore.staged=kill")
    (base / "project/a").write_bytes(b"edit")
    restore_child.run(base)
    assert [path for path, _ in outcome(base).skipped] == [b"a"]
    assert (base / "project/a").read_bytes() == b"edit"


@pytest.mark.parametrize("path", [b"a", b"gone/x"])
def test_R10_an_unseen_version_that_was_taken_out_when_the_crash_came_is_given_back(base: Path, path: bytes) -> None:
    # The moment after the exchange and before the look: the stage holds what nobody has captured.
    child(base, "restore.staged=kill")
    plan = msgspec.msgpack.decode((base / "plan").read_bytes(), type=Plan)
    number = next(index for index, step in enumerate(plan.steps()) if step.path == path)
    staged, place = base / f"staging/op/{number}", Path(os.fsdecode(os.path.join(os.fsencode(base / "project"), path)))
    if staged.exists():
        staged.rename(place)
    else:
        place.unlink()
    staged.write_bytes(b"unseen")
    restore_child.run(base)
    assert place.read_bytes() == b"unseen"
    assert path in [skipped for skipped, _ in outcome(base).skipped]
    assert [captured for captured, _ in outcome(base).captured] == [path]
    assert os.listdir(base / "staging") == []


def test_a_version_in_the_stage_that_has_no_place_any_more_is_captured(base: Path) -> None:
    child(base, "restore.applied=kill")
    plan = msgspec.msgpack.decode((base / "plan").read_bytes(), type=Plan)
    number = next(index for index, step in enumerate(plan.steps()) if step.path == b"a")
    (base / f"staging/op/{number}").write_bytes(b"unseen")
    (base / "project/a").write_bytes(b"newer")
    restore_child.run(base)
    assert (base / "project/a").read_bytes() == b"newer"
    assert [path.read_bytes() for path in (base / "captured").iterdir()] == [b"unseen"]


def test_a_file_that_a_recovery_was_making_is_no_version(base: Path) -> None:
    child(base, "restore.applying=kill@3")
    (base / "staging/op/2.new").write_bytes(b"half of it")
    restore_child.run(base)
    assert outcome(base).complete and not outcome(base).captured
    assert scan(base / "project") == new()
    assert os.listdir(base / "staging") == []


@pytest.mark.parametrize("fault", ["restore.staging=kill@1700", "restore.applying=kill@1700", "restore.applied=kill"])
def test_R8_a_restore_of_more_files_than_a_bucket_of_the_stage_holds(tmp_path: Path, fault: str) -> None:
    many = 2 * BUCKET + 5
    before = {b"%d" % number: file(CONTENTS, b"old %d" % number) for number in range(many)}
    after = {b"%d" % number: file(CONTENTS, b"new %d" % number) for number in range(many)}
    build(tmp_path / "project", before, CONTENTS)
    build(tmp_path / "target", after, CONTENTS)
    (tmp_path / "staging").mkdir(mode=0o700)
    child(tmp_path, fault)
    stage = [name for name in os.listdir(tmp_path / "staging/op") if name.startswith("b")]
    assert sorted(stage) == ["b1", "b2"]
    restore_child.run(tmp_path)
    found = scan(tmp_path / "project")
    assert found == (before if "staging" in fault else after)
    assert os.listdir(tmp_path / "staging") == []


@pytest.mark.parametrize("fault", ["staging=kill@30", *BEFORE_AND_AFTER_THE_MOVE])
def test_R8_killed_around_the_move_of_a_new_directory(tmp_path: Path, fault: str) -> None:
    before = {b"kept": file(CONTENTS, b"kept")}
    after = before | {b"new": directory(), b"new/in": directory(0o555), b"new/in/f": file(CONTENTS, b"in")}
    after |= {b"new/%d" % number: file(CONTENTS, b"new %d" % number) for number in range(MANY)}
    build(tmp_path / "project", before, CONTENTS)
    build(tmp_path / "target", after, CONTENTS)
    (tmp_path / "staging").mkdir(mode=0o700)
    child(tmp_path, f"restore.{fault}")
    restore_child.run(tmp_path)
    assert scan(tmp_path / "project") == (before if "staging" in fault else after)
    assert os.listdir(tmp_path / "staging") == []
