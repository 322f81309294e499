"""Disk space, growth and forecast, through a real daemon."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mulligan.clock import Clock, from_rfc3339
from mulligan.journal.forecast import DAY
from mulligan.model import Flag
from mulligan.store import store as store_module
from support.daemon import DaemonFixture, RpcError
from support.stored import raw, take
from support.storing import opened, project_fact, write
from support.trees import put

MIB = 1 << 20


def disk(daemon: DaemonFixture) -> int:
    return sum(path.lstat().st_blocks * 512 for path in daemon.data_dir.rglob("*") if path.is_file())


def lived(daemon: DaemonFixture, monkeypatch: pytest.MonkeyPatch, days: list[int]) -> None:
    """A store that has grown by so many bytes on each of the last days, of a project that is gone by now."""
    moment = 0

    def clock(**state: int) -> Clock:
        nonlocal moment
        made = Clock(**state)
        now = made.now()
        moment = now - len(days) * DAY
        return Clock(**state, wall=lambda: moment)

    monkeypatch.setattr(store_module, "Clock", clock)
    with opened(daemon.data_dir) as store:
        store.log.append([project_fact(1, os.fsencode(daemon.projects / "gone"))])
        write(store, {b"first": os.urandom(5 * MIB - 1)[: 4 * MIB]}, flags=Flag.FROM_UNKNOWN)
        for number, size in enumerate(days):
            moment += DAY - 1000 * 10**9
            write(store, {b"src/%d" % number: os.urandom(size)})


def test_B9_what_takes_the_space(daemon: DaemonFixture, project: Path) -> None:
    other = daemon.projects / "other"
    other.mkdir()
    put(project, b"build/\xff.bin", os.urandom(200_000))
    put(project, b"src/app.py", b"print(1)\n")
    put(other, b"b.bin", os.urandom(60_000))
    daemon.add(project)
    daemon.add(other)
    put(daemon.directory, b"made elsewhere", os.urandom(200_000))
    os.replace(daemon.directory / "made elsewhere", os.path.join(os.fsencode(project), b"build/\xff.bin"))
    take(daemon, project)
    found = daemon.call("store.usage")
    assert found["bytes"] == sum(found["by_kind"].values()) == pytest.approx(disk(daemon), rel=0.05)
    assert found["by_kind"]["contents"] > 460_000 and found["by_kind"]["reserve"] == 8 * MIB
    assert found["budget_bytes"] == daemon.call("daemon.status")["store"]["budget_bytes"]
    first, second = found["projects"]
    assert (first["path"], first["versions"], first["contents"], first["checkpoints"]) == (str(project), 3, 3, 2)
    assert 400_000 < first["bytes"] < 402_000 and 60_000 < second["bytes"] < 61_000
    assert first["growth_bytes_per_day"] is None and from_rfc3339(first["oldest"]) > 0
    largest = found["paths"][0]
    assert (raw(largest), largest["project"], largest["versions"]) == (b"build/\xff.bin", str(project), 2)
    assert [(one["path"], one["versions"]) for one in found["directories"]] == [("build", 2), ("src", 1)]
    assert 200_000 < found["growth"]["day_bytes"] < 400_000  # with the rows' part of the catalogue
    assert found["growth_bytes_per_day"] is None
    assert found["forecast"] == {"reached_at": None, "days": None, "reason": "there is less than a day of history"}


def test_of_one_project_and_so_many(daemon: DaemonFixture, project: Path) -> None:
    other = daemon.projects / "other"
    put(other, b"b.bin", b"b")
    for name in (b"a", b"b", b"c"):
        put(project, name, name * 1000)
    daemon.add(project)
    daemon.add(other)
    found = daemon.call("store.usage", project=str(other))
    assert [one["path"] for one in found["projects"]] == [str(other)]
    assert [one["path"] for one in found["paths"]] == ["b.bin"]
    assert len(daemon.call("store.usage", limit=2)["paths"]) == 2
    assert daemon.client("usage", "--limit", "0").returncode == 2
    with pytest.raises(RpcError) as caught:
        daemon.call("store.usage", project="/nowhere")
    assert caught.value.code == "not_found"


def test_B9_at_this_rate_the_budget_is_reached(
    daemon_factory: Callable[..., DaemonFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = daemon_factory(start=False, config="budget_bytes: 30 MiB\n")
    lived(daemon, monkeypatch, [MIB] * 8)
    daemon.start()
    assert daemon.call("daemon.status")["store"]["days_left"] is None
    found = daemon.call("store.usage")
    assert found["growth_bytes_per_day"] == pytest.approx(MIB, rel=0.05)
    assert found["growth"]["day_bytes"] == pytest.approx(MIB, rel=0.05)
    days = found["forecast"]["days"]
    assert days == pytest.approx((30 * MIB - found["bytes"]) / found["growth_bytes_per_day"], abs=0.06)
    left = from_rfc3339(found["forecast"]["reached_at"]) - from_rfc3339(found["projects"][0]["oldest"])
    assert left / DAY == pytest.approx(days + 8, abs=0.2)
    status = daemon.call("daemon.status")
    assert status["store"]["days_left"] == pytest.approx(days, abs=0.2)
    assert status["warnings"] == []
    shown = daemon.client("usage", COLUMNS="80").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert f"forecast   at this rate the budget is reached in {round(days)} days, on 20" in shown


def test_B9_status_warns_when_few_days_are_left(
    daemon_factory: Callable[..., DaemonFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = daemon_factory(start=False, config="budget_bytes: 30 MiB\n")
    lived(daemon, monkeypatch, [3 * MIB, 3 * MIB])
    daemon.start()
    days = daemon.call("store.usage")["forecast"]["days"]
    assert 2 < days < 7
    (warning,) = daemon.call("daemon.status")["warnings"]
    assert warning == f"the store's budget is reached in {days:.0f} days at this rate; mulligan usage says by what"
    assert warning in daemon.client("status", COLUMNS="200").stdout


def test_B9_status_warns_when_the_budget_is_nearly_used(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"data.bin", os.urandom(6 * MIB))
    daemon.add(project)
    assert daemon.call("daemon.status")["warnings"] == []
    for _ in range(3):  # what is laid by may shrink with the budget
        used = daemon.call("daemon.status")["store"]["bytes"]
        daemon.config_file.write_text(f"budget_bytes: {used * 100 // 95}\n")
        daemon.call("daemon.reload")
    (warning,) = daemon.call("daemon.status")["warnings"]
    assert warning == "the store has used 95% of its budget; mulligan usage says by what"
    assert " MiB (95%)\n" in daemon.client("usage").stdout
