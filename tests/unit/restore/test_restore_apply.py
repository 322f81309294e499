"""Applying a plan to a real directory: exact, nothing else touched, nothing outside reached."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import pytest

from mulligan import faults
from mulligan.errors import IntegrityError
from mulligan.model import ABSENT, Entry, Kind
from mulligan.restore import exchange, swap
from mulligan.restore.plan import Change, inverse, make_plan
from mulligan.restore.tree import recorded
from support.restoring import Bench, Listing, directory, file, link

ODD_NAMES = [
    b"a_b.txt", b"a\\b.txt", b"a", b"a/b.txt", b"a/b.txt.json", b"x" * 255, b"-rf", b"blank ", b"new\nline",
    b"\xff\xfe", "caf\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), b"cafe\xcc\x81", b"CASE", b"case",
]  # fmt: skip


@pytest.mark.parametrize("staging", [True, False], ids=["stage-in-store", "stage-in-root"])
def test_R2_bytes_and_modes_are_equal(bench: Bench, staging: bool) -> None:
    blobs = [b"", b"\0\0", b"\xff\xfe\x80", b"a\r\nb\r\n", b"no newline", os.urandom(3 << 20), os.urandom(5 << 20)]
    modes = [0o600, 0o755, 0o444, 0o4755, 0o2750, 0o000, 0o1644]
    target = {
        b"%d" % n: file(bench.contents, blob, mode) for n, (blob, mode) in enumerate(zip(blobs, modes, strict=True))
    }
    bench.build({path: file(bench.contents, b"other") for path in target})
    outcome = bench.apply(bench.plan(target), staging=staging)
    assert outcome.verified and outcome.complete
    assert bench.scan() == target
    assert not bench.leftovers()


def test_R2_a_private_file_is_private_at_every_moment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watch(name: str) -> None:
        for place in (bench.staging, bench.root):
            for path in place.rglob("*"):
                if path.is_file():
                    seen.append(stat.S_IMODE(path.lstat().st_mode))

    target = {b"%d" % n: file(bench.contents, b"secret %d" % n, 0o600) for n in range(3)}
    bench.build({b"0": file(bench.contents, b"old", 0o600)})
    monkeypatch.setattr(faults, "point", watch)
    real = os.fchmod
    monkeypatch.setattr(os, "fchmod", lambda fd, mode: (watch(""), real(fd, mode))[1])
    assert bench.restore(target).complete
    assert len(seen) > 10 and set(seen) == {0o600}


def test_R4_a_directory_that_became_a_link_is_a_link_again_and_back(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"not ours")
    as_directory = {b"d": directory(), b"d/f": file(bench.contents, b"ours")}
    as_link = {b"d": link(os.fsencode(outside))}
    bench.build(as_directory)
    for target in (as_link, as_directory, as_link):
        assert bench.restore(target).complete
        assert bench.scan() == target
        assert (outside / "f").read_bytes() == b"not ours"
        assert os.listdir(outside) == ["f"]


def test_R4_nothing_outside_is_reached_by_a_link_swapped_in_after_the_plan(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("f", "gone"):
        (outside / name).write_bytes(b"not ours")
    bench.build(
        {
            b"d": directory(),
            b"d/f": file(bench.contents, b"live"),
            b"d/gone": file(bench.contents, b"live"),
            b"d/m": file(bench.contents, b"mode"),
        }
    )
    target = {
        b"d": directory(),
        b"d/f": file(bench.contents, b"then"),
        b"d/new": file(bench.contents, b"then"),
        b"d/m": file(bench.contents, b"mode", 0o600),
        b"d/s": directory(0o700),
    }
    plan = bench.plan(target)

    def swap(name: str) -> None:
        if name == "restore.staged":
            os.rename(bench.root / "d", tmp_path / "moved")
            os.symlink(outside, bench.root / "d")

    monkeypatch.setattr(faults, "point", swap)
    outcome = bench.apply(plan)
    assert {path for path, _ in outcome.skipped} == {b"d/f", b"d/new", b"d/m", b"d/s"}
    assert {name: (outside / name).read_bytes() for name in os.listdir(outside)} == {
        "f": b"not ours",
        "gone": b"not ours",
    }
    assert sorted(os.listdir(tmp_path / "moved")) == ["f", "gone", "m"]


def test_R5_a_file_outside_that_shares_the_inode_keeps_bytes_and_mode(bench: Bench, tmp_path: Path) -> None:
    bench.build({b"content": file(bench.contents, b"shared"), b"mode": file(bench.contents, b"shared too")})
    os.link(bench.root / "content", tmp_path / "content")
    os.link(bench.root / "mode", tmp_path / "mode")
    target = {b"content": file(bench.contents, b"restored"), b"mode": file(bench.contents, b"shared too", 0o600)}
    assert bench.restore(target).complete
    assert bench.scan() == target
    assert (tmp_path / "content").read_bytes() == b"shared"
    assert stat.S_IMODE((tmp_path / "mode").stat().st_mode) == 0o644


def test_R11_files_directories_and_links_of_the_same_name(bench: Bench) -> None:
    as_file: Listing = {b"x": file(bench.contents, b"x")}
    as_tree: Listing = {b"x": directory(0o750), b"x/y": directory(), b"x/y/z": file(bench.contents, b"z")}
    as_link: Listing = {b"x": link(b"nowhere")}
    as_empty: Listing = {b"x": directory(0o555)}
    bench.build(as_file)
    for target in (as_tree, as_link, as_empty, as_file, as_link, as_tree, as_file, as_empty, as_tree, {}):
        outcome = bench.restore(target)
        assert outcome.complete and outcome.verified
        assert bench.scan() == target
    assert not bench.leftovers()


def test_R12_odd_names_are_all_distinct(bench: Bench) -> None:
    target = {path: file(bench.contents, b"content of " + path) for path in ODD_NAMES}
    target[b"a"] = directory()
    assert bench.restore(target).complete
    assert bench.scan() == target
    assert bench.restore({}).complete
    assert bench.scan() == {}


def test_R13_untouched_files_keep_inode_mtime_and_mode(bench: Bench) -> None:
    listing = {b"f%d" % n: file(bench.contents, b"%d" % n, 0o600 + n % 64) for n in range(100)}
    listing[b"empty"] = directory(0o711)
    bench.build(listing)
    for n in range(100):
        os.utime(bench.root / f"f{n}", ns=(n, 10**9 * n))

    def stats() -> dict[str, tuple[int, ...]]:
        return {
            name: (found.st_ino, found.st_mtime_ns, found.st_mode, found.st_ctime_ns)
            for name in os.listdir(bench.root)
            for found in [os.lstat(bench.root / name)]
        }

    before = stats()
    (bench.root / "f7").write_bytes(b"changed")
    os.rmdir(bench.root / "empty")
    assert bench.restore(listing).complete
    assert bench.scan() == listing
    after = stats()
    assert {name for name in before if before[name] != after[name]} == {"f7", "empty"}
    assert after["f7"][1] > 10**9 * 1000


def test_a_change_that_the_plan_does_not_know_is_kept_and_named(bench: Bench) -> None:
    live = {
        name: file(bench.contents, b"live") for name in (b"same-size", b"longer", b"deleted", b"to-delete", b"mode")
    }
    bench.build(live)
    target = {name: file(bench.contents, b"then") for name in (b"same-size", b"longer", b"deleted", b"appears")}
    target[b"mode"] = file(bench.contents, b"live", 0o600)
    plan = bench.plan(target)
    (bench.root / "same-size").write_bytes(b"edit")
    (bench.root / "longer").write_bytes(b"edited")
    (bench.root / "to-delete").write_bytes(b"edit")
    (bench.root / "appears").write_bytes(b"edit")
    (bench.root / "mode").write_bytes(b"edit")
    (bench.root / "deleted").unlink()
    before = bench.scan()
    outcome = bench.apply(plan)
    assert {path for path, _ in outcome.skipped} == {*target, b"to-delete"}
    assert not outcome.done and not outcome.captured
    assert bench.scan() == before
    assert not bench.leftovers()


def test_force_takes_such_a_change_and_stores_it_first(bench: Bench) -> None:
    bench.build({b"f": file(bench.contents, b"live"), b"gone": file(bench.contents, b"live")})
    plan = bench.plan({b"f": file(bench.contents, b"then"), b"n": file(bench.contents, b"then")})
    for name in ("f", "gone", "n"):
        (bench.root / name).write_bytes(b"edit")
    outcome = bench.apply(plan, force=True)
    edit = file(bench.contents, b"edit")
    assert outcome.complete
    assert bench.scan() == {b"f": file(bench.contents, b"then"), b"n": file(bench.contents, b"then")}
    assert sorted(outcome.captured) == [(b"f", edit), (b"gone", edit), (b"n", edit)]
    assert {done.path: done.before for done in outcome.done} == {b"f": edit, b"gone": edit, b"n": edit}


def test_an_unknown_live_entry_is_captured_before_its_target_takes_its_place(bench: Bench) -> None:
    bench.build({b"f": file(bench.contents, b"ignored until now")})
    plan = make_plan(
        [Change(b"f", file(bench.contents, b"then"), None), Change(b"g", file(bench.contents, b"new"), None)]
    )
    outcome = bench.apply(plan)
    assert outcome.complete
    assert outcome.captured == [(b"f", file(bench.contents, b"ignored until now"))]
    assert bench.apply(inverse(outcome)).complete
    assert bench.scan() == {b"f": file(bench.contents, b"ignored until now")}


def test_a_file_written_through_an_open_descriptor_after_it_went_is_captured(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.build({b"f": file(bench.contents, b"live"), b"gone": file(bench.contents, b"live")})
    plan = bench.plan({b"f": file(bench.contents, b"then")})
    writers = [os.open(bench.root / name, os.O_WRONLY) for name in ("f", "gone")]

    def write(name: str) -> None:
        if name == "restore.applied":
            for writer in writers:
                os.write(writer, b"late")

    monkeypatch.setattr(faults, "point", write)
    outcome = bench.apply(plan)
    for writer in writers:
        os.close(writer)
    late = file(bench.contents, b"late")
    assert sorted(outcome.captured) == [(b"f", late), (b"gone", late)]
    assert bench.scan() == {b"f": file(bench.contents, b"then")}


def test_what_is_written_after_the_restore_is_found_by_reading_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.build({})
    plan = bench.plan({b"a": file(bench.contents, b"then"), b"b": file(bench.contents, b"then")})
    monkeypatch.setattr(
        faults, "point", lambda name: (bench.root / "b").write_bytes(b"edit") if name == "restore.applied" else None
    )
    outcome = bench.apply(plan)
    assert not outcome.verified and outcome.differs == [b"b"]


def test_without_exchange_the_same_is_done_by_moves(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(22, "invalid argument")

    monkeypatch.setattr(exchange, "_call", refuse)
    live = {
        b"f": file(bench.contents, b"live"),
        b"d": directory(),
        b"d/x": link(b"y"),
        b"same": file(bench.contents, b"1234"),
    }
    target = {
        b"f": link(b"d"),
        b"d": file(bench.contents, b"then"),
        b"n": directory(),
        b"same": file(bench.contents, b"5678"),
    }
    bench.build(live)
    plan = bench.plan(target)
    outcome = bench.apply(plan)
    assert outcome.complete and not outcome.exchange
    assert bench.scan() == target
    (bench.root / "same").write_bytes(b"edit")
    assert [path for path, _ in bench.apply(inverse(outcome)).skipped] == [b"same"]
    assert (bench.root / "same").read_bytes() == b"edit"


def test_undo_keeps_what_changed_since(bench: Bench) -> None:
    bench.build(
        {b"a": file(bench.contents, b"1 a"), b"b": file(bench.contents, b"1 b"), b"c": file(bench.contents, b"1 c")}
    )
    outcome = bench.restore({b"a": file(bench.contents, b"2 a"), b"b": file(bench.contents, b"2 b")})
    (bench.root / "b").write_bytes(b"3 b")
    undone = bench.apply(inverse(outcome))
    assert [path for path, _ in undone.skipped] == [b"b"]
    assert bench.scan() == {
        b"a": file(bench.contents, b"1 a"),
        b"b": file(bench.contents, b"3 b"),
        b"c": file(bench.contents, b"1 c"),
    }


def test_no_descriptor_stays_open(bench: Bench) -> None:
    bench.build({b"d": directory(), b"d/f": file(bench.contents, b"live")})
    before = len(os.listdir("/proc/self/fd"))
    assert bench.restore({b"e": directory(), b"e/f": file(bench.contents, b"then")}).complete
    plan = bench.plan({})
    (bench.root / "e/g").write_bytes(b"unseen")
    bench.apply(plan)
    with contextlib.suppress(IntegrityError):
        bench.apply(make_plan([Change(b"z", Entry(Kind.FILE, 0o644, 1, b"?" * 32), ABSENT)]))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_stat_that_proves_the_entry_spares_the_reading(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    live, then = file(bench.contents, b"live"), file(bench.contents, b"then")
    bench.build({b"f": live})

    def read(*_: object) -> Entry:
        raise AssertionError("read")

    monkeypatch.setattr(swap, "look", read)
    with pytest.raises(AssertionError):
        bench.apply(make_plan([Change(b"f", then, live)]))
    bench.root.joinpath("f").unlink()
    bench.build({b"f": live})
    os.utime(bench.root / "f", ns=(10**18, 10**18))
    proof = recorded(os.lstat(bench.root / "f"), os.lstat(bench.root / "f").st_ctime_ns + 20_000_000)
    assert bench.apply(make_plan([Change(b"f", then, live, proof)])).complete


def test_a_change_under_the_same_size_and_mtime_is_seen(bench: Bench) -> None:
    live = file(bench.contents, b"live")
    bench.build({b"f": live})
    os.utime(bench.root / "f", ns=(10**18, 10**18))
    found = os.lstat(bench.root / "f")
    plan = make_plan([Change(b"f", file(bench.contents, b"then"), live, recorded(found, found.st_ctime_ns + 10**9))])
    (bench.root / "f").write_bytes(b"edit")
    os.utime(bench.root / "f", ns=(10**18, 10**18))
    assert [path for path, _ in bench.apply(plan).skipped] == [b"f"]
    assert (bench.root / "f").read_bytes() == b"edit"


def test_the_outcome_has_a_stat_for_the_journal(bench: Bench) -> None:
    bench.build({b"f": file(bench.contents, b"live"), b"g": file(bench.contents, b"live")})
    outcome = bench.restore({b"f": file(bench.contents, b"then")})
    stats = {done.path: done.stat for done in outcome.done}
    assert stats == {b"f": recorded(os.lstat(bench.root / "f"), 0), b"g": None}


def test_large_plans_are_made_durable_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = exchange.sync_filesystem
    monkeypatch.setattr(exchange, "sync_filesystem", lambda fd: (calls.append(fd), real(fd))[1])
    target = {b"%d" % n: file(bench.contents, b"%d" % n) for n in range(100)}
    assert bench.restore(target).complete
    assert len(calls) == 2
    assert bench.restore({b"1": target[b"1"]} | {b"%d" % n: target[b"%d" % n] for n in range(50, 100)}).complete
    assert len(calls) == 2
