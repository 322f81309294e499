"""What cannot be restored: it is named, and nothing is lost or half done."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mulligan import faults
from mulligan.errors import IntegrityError, MulliganError, NotFoundError, UsageError
from mulligan.model import ABSENT
from mulligan.restore import exchange
from mulligan.restore.apply import apply
from mulligan.restore.plan import Change, Plan, Step, make_plan
from mulligan.restore.recovery import recover
from support.restoring import Bench, RecordingLog, changes, directory, file

ODD_NAMES = [
    b"a_b.txt", b"a\\b.txt", b"a", b"a/b.txt", b"a/b.txt.json", b"x" * 255, b"-rf", b"blank ", b"new\nline",
    b"\xff\xfe", "caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), b"cafe\xcc\x81", b"CASE", b"case",
]  # fmt: skip


def test_R20_a_directory_keeps_what_nobody_has_captured(bench: Bench) -> None:
    bench.build({b"d": directory(), b"d/known": file(bench.contents, b"known")})
    plan = bench.plan({})
    (bench.root / "d/unseen").write_bytes(b"unseen")
    outcome = bench.apply(plan)
    assert [path for path, _ in outcome.kept] == [b"d"]
    assert (bench.root / "d/unseen").read_bytes() == b"unseen"


def test_R17_a_damaged_content_stops_everything_before_anything_is_touched(bench: Bench) -> None:
    bench.build({b"a": file(bench.contents, b"live a"), b"b": file(bench.contents, b"live b")})
    before = bench.scan()
    target = {b"a": file(bench.contents, b"then a"), b"b": file(bench.contents, b"then b")}
    plan = bench.plan(target)
    bench.contents.data[target[b"b"].hash] = b"rotten"
    with pytest.raises(IntegrityError) as caught:
        bench.apply(plan)
    assert caught.value.data["paths"] == [b"b"]
    assert bench.scan() == before and not bench.leftovers()
    outcome = bench.apply(plan, force=True)
    assert [path for path, _ in outcome.skipped] == [b"b"]
    assert bench.scan() == {b"a": target[b"a"], b"b": before[b"b"]}


def test_R17_a_large_content_is_verified_as_a_whole(bench: Bench) -> None:
    target = {b"big": file(bench.contents, b"x" * (5 << 20))}
    bench.contents.data[target[b"big"].hash] = b"x" * (5 << 20) + b"y"
    with pytest.raises(IntegrityError):
        bench.restore(target)
    assert bench.scan() == {} and not bench.leftovers()


def test_R8_a_full_disk_while_staging_leaves_everything_as_it_was(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.build({b"a": file(bench.contents, b"live a")})
    before = bench.scan()
    monkeypatch.setattr(faults, "_armed", {"restore.staging": ("enospc", 3)})
    monkeypatch.setattr(faults, "_passes", {})
    log = RecordingLog()
    plan = bench.plan({b"%d" % n: file(bench.contents, b"%d" % n) for n in range(5)})
    with pytest.raises(MulliganError, match="nothing was changed"):
        bench.apply(plan, log=log)
    assert log.plan is not None and not log.is_staged
    assert bench.scan() == before and not bench.leftovers()


@pytest.mark.parametrize("fault", ["enospc", "eio"])
def test_R8_a_path_that_fails_is_named_and_the_others_are_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    real = exchange.move
    number = {"enospc": 28, "eio": 5}[fault]

    def move(old_fd: int, old: bytes, new_fd: int, new: bytes) -> None:
        if new == b"2":
            raise OSError(number, os.strerror(number))
        real(old_fd, old, new_fd, new)

    monkeypatch.setattr(exchange, "move", move)
    target = {b"%d" % n: file(bench.contents, b"%d" % n) for n in range(5)}
    outcome = bench.restore(target)
    assert outcome.skipped == [(b"2", os.strerror(number).lower())]
    assert bench.scan() == {path: entry for path, entry in target.items() if path != b"2"}
    monkeypatch.undo()
    assert bench.restore(target).complete
    assert bench.scan() == target


def test_R8_unwritable_directories_without_being_root() -> None:
    # Root may do everything, so the restore runs in a child that gives that up.
    place = Path(tempfile.mkdtemp())
    try:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                _restore_as_nobody(place)
                status = 0
            except BaseException:  # noqa: BLE001 - a child must not go on in the test runner
                import traceback  # noqa: PLC0415

                traceback.print_exc()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", str(place)], check=True)
        shutil.rmtree(place)


def _restore_as_nobody(place: Path) -> None:
    if os.geteuid() == 0:
        os.chown(place, 65534, 65534)
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    bench = Bench(place)
    bench.build(
        {
            b"closed": directory(0o555),
            b"closed/f": file(bench.contents, b"live"),
            b"going": directory(0o500),
            b"going/f": file(bench.contents, b"live"),
            b"moded": directory(0o555),
            b"moded/f": file(bench.contents, b"live"),
            b"other": file(bench.contents, b"live"),
            b"unreadable": file(bench.contents, b"live", 0o644),
        }
    )
    live = bench.scan()
    untouched = os.lstat(bench.root / "closed").st_ctime_ns
    then = file(bench.contents, b"then")
    target = {
        b"closed": directory(0o555),
        b"closed/f": then,
        b"moded": directory(0o500),
        b"moded/f": then,
        b"other": then,
        b"unreadable": file(bench.contents, b"live", 0o000),
        b"shut": directory(0o000),
        b"shut/in": directory(0o711),
    }
    plan = bench.plan(target, live)
    outcome = bench.apply(plan)
    assert outcome.skipped == [(b"closed/f", "permission denied")], outcome
    assert outcome.verified
    again = recover(
        os.fsencode(bench.root), plan, bench.contents, operation="op1", staging=None, staged=True,
        capture=bench.contents.capture,
    )  # fmt: skip
    # Nobody can tell what a file holds that its owner may not read.
    assert again.skipped == [(b"closed/f", "permission denied"), (b"unreadable", "changed since the plan was made")]
    assert {done.path for done in again.done} == {done.path for done in outcome.done} - {b"unreadable"}
    assert os.lstat(bench.root / "closed").st_ctime_ns == untouched
    assert sorted(os.listdir(bench.root)) == ["closed", "moded", "other", "shut", "unreadable"]
    assert (bench.root / "closed/f").read_bytes() == b"live"
    assert (bench.root / "moded/f").read_bytes() == b"then"
    modes = {name: stat.S_IMODE(os.lstat(bench.root / name).st_mode) for name in os.listdir(bench.root)}
    assert modes == {"closed": 0o555, "moded": 0o500, "other": 0o644, "shut": 0o000, "unreadable": 0o000}
    os.chmod(bench.root / "shut", 0o700)
    assert stat.S_IMODE(os.lstat(bench.root / "shut/in").st_mode) == 0o711
    os.chmod(bench.root / "closed", 0o755)
    second = make_plan([Change(b"closed/f", then, live[b"closed/f"])])
    assert bench.apply(second).complete


def test_R21_a_database_in_use_is_skipped_whole(bench: Bench) -> None:
    path = bench.root / "app.db"
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode=wal")
    connection.execute("create table t (x)")
    connection.commit()
    connection.close()
    then = bench.scan()
    assert set(then) == {b"app.db"}
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('insert into t values (1)'); c.commit();"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as user:
        assert user.stdout is not None and user.stdout.readline() == b"ready\n"
        live = {path: entry for path, entry in bench.scan().items() if path != b"app.db-shm"}
        assert set(live) == {b"app.db", b"app.db-wal"}
        outcome = bench.apply(make_plan(changes(live, then)))
        assert {reason for _, reason in outcome.skipped} == {"the SQLite database is in use"}
        assert {path for path, _ in outcome.skipped} == {
            change.path for change in changes(live, then) if change.target != change.live
        }
        assert bench.scan()[b"app.db-wal"] == live[b"app.db-wal"]
        user.kill()
    outcome = bench.apply(make_plan(changes(live, then)))
    assert outcome.complete
    assert not (bench.root / "app.db-wal").exists()
    reader = sqlite3.connect(path)
    assert reader.execute("select count(*) from t").fetchone() == (0,)
    reader.close()


def test_R21_one_file_of_a_database_that_changed_takes_the_others_back(bench: Bench) -> None:
    live = {name: file(bench.contents, b"live") for name in (b"x.db", b"x.db-wal", b"x.db-journal")}
    bench.build(live)
    plan = bench.plan({b"x.db": file(bench.contents, b"then"), b"x.db-wal": file(bench.contents, b"then")})
    assert len(plan.sets) == 1
    (bench.root / "x.db-wal").write_bytes(b"edit")
    before = bench.scan()
    outcome = bench.apply(plan)
    assert {path for path, _ in outcome.skipped} == set(live) and not outcome.done
    assert bench.scan() == before
    assert not bench.leftovers()


def test_special_files_are_neither_opened_nor_replaced(bench: Bench) -> None:
    plan = make_plan([Change(b"pipe", file(bench.contents, b"then"), None)])
    os.mkfifo(bench.root / "pipe")
    for force in (False, True):
        outcome = bench.apply(plan, force=force)
        assert outcome.kept == [(b"pipe", "is a special file")]
    assert stat.S_ISFIFO(os.lstat(bench.root / "pipe").st_mode)


def test_a_plan_from_outside_cannot_name_a_path_above_the_root(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"not ours")
    for path in (b"../f", b"/etc/x", b"a/../../f", b"", b"a//b", b"a\0b"):
        with pytest.raises(UsageError):
            bench.apply(Plan(write=[Step(path, ABSENT, file(bench.contents, b"then"))]))
    with pytest.raises(UsageError):
        apply(
            os.fsencode(bench.root), Plan(), bench.contents, operation="../x", staging=None, log=RecordingLog(),
            capture=bench.contents.capture,
        )  # fmt: skip
    assert (tmp_path / "f").read_bytes() == b"not ours"
    assert not bench.leftovers()


def test_another_root_in_the_same_place_is_refused(bench: Bench) -> None:
    with pytest.raises(NotFoundError):
        apply(
            os.fsencode(bench.root), Plan(), bench.contents, operation="x", staging=None, log=RecordingLog(),
            capture=bench.contents.capture, identity=(1, 1),
        )  # fmt: skip
