"""Scrub and drill on a schedule: what is due, how much at once, and what becomes of what they find."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mulligan.clock import NANOSECONDS, to_rfc3339
from mulligan.config import Config, parse
from mulligan.events import Bus, Event
from mulligan.model import Checkpoint, Metadata
from mulligan.project import integrity as integrity_module
from mulligan.project.integrity import Integrity, Scrub
from mulligan.store.checking import Question, check_aside
from mulligan.store.encoding import encode
from mulligan.store.records import CheckpointFact
from mulligan.store.segments import RECORD_HEADER_SIZE
from mulligan.store.state import StateDatabase
from mulligan.store.store import Store
from mulligan.supervisor import integrity_jobs
from mulligan.supervisor.integrity_jobs import IntegrityJobs
from support.storing import add_project, checkpoint, file_entry, flip, opened, row, rows_fact, segment

DAY = 86_400
RNG = random.Random(3)


class Care:
    """A store with a project on disk, and the jobs that look after it."""

    def __init__(self, store: Store, root: Path) -> None:
        self.store, self.root = store, root
        self.state = StateDatabase(str(root.parent / "state.db"))
        self.config = Config()
        self.bus = Bus(store.clock.now)
        self.events: list[Event] = []
        self.bus.subscribe(self.events.append, None)
        self.integrity = Integrity(store, self.state, self.bus)
        self.jobs = IntegrityJobs(store, self.state, self.integrity, self.bus, lambda: self.config, random.Random(1))
        add_project(store, path=os.fsencode(root))

    def keep(self, path: str, data: bytes) -> None:
        """A version of a file, on disk and in the store."""
        (self.root / path).write_bytes(data)
        self.store.log.append(
            [rows_fact(row(os.fsencode(path), file_entry(data), self.store.clock.now()))], [encode(data)]
        )

    def take(self, name: str, **fields: Any) -> Checkpoint:
        """A checkpoint of what is stored."""
        project = self.store.catalogue().project(1)
        made = checkpoint(
            id=name, ordinal=project.next_ordinal, seq=project.last_seq, tree=project.digest.hex(), **fields
        )
        self.store.log.append([CheckpointFact(made)])
        return made

    def damage(self, data: bytes) -> None:
        place = self.store.catalogue().place(encode(data).hash)
        assert place is not None
        flip(segment(Path(self.store.directory), place.segment), place.offset + RECORD_HEADER_SIZE + 1)

    def look(self, *, ago: float = 0) -> None:
        """Look, as if the last look at the contents was so long ago (seconds)."""
        if ago:
            place = self.integrity.scrubbed()
            place.time = self.store.clock.now() - int(ago * NANOSECONDS)
            self.state.set("store", "", "scrub", msgspec.to_builtins(place))
        asyncio.run(self.jobs.look())

    def drilled(self, days: float) -> None:
        """As if the last drill was so many days ago."""
        then = self.store.clock.now() - int(days * DAY * NANOSECONDS)
        self.state.keep_drill({"time": to_rfc3339(then), "restorable": 1, "total": 1})

    @property
    def told(self) -> list[tuple[str, dict[str, Any]]]:
        return [(event.topic, event.data) for event in self.events]


@pytest.fixture
def care(tmp_path: Path) -> Iterator[Care]:
    root = tmp_path / "project"
    root.mkdir()
    with opened(tmp_path / "store") as store:
        made = Care(store, root)
        yield made
        made.state.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """What the processes that read the store are asked."""
    questions: list[Question] = []

    def ask(question: Question) -> Any:
        questions.append(question)
        return check_aside(question)

    monkeypatch.setattr(integrity_module, "check_aside", ask)
    return questions


def test_B10_a_scrub_finds_damage_and_heals_it_by_recapture(care: Care, caplog: pytest.LogCaptureFixture) -> None:
    data, lost = RNG.randbytes(2000), RNG.randbytes(2000)
    care.keep("f", data)
    care.keep("lost", lost)
    made = care.take("one")
    (care.root / "lost").unlink()
    care.damage(data)
    care.damage(lost)
    care.look()
    assert care.store.contents.read(encode(data).hash) == data
    assert care.told == [("damage", {"contents": 1, "healed": 1, "checkpoints": 1})]
    assert [record.levelno for record in caplog.records if "damage was found" in record.message] == [logging.WARNING]
    assert care.integrity.warnings() == [
        "1 content is damaged: 1 checkpoint cannot be restored whole; mulligan verify --repair"
    ]
    assert [need.id for need in care.integrity.damage.needs()] == [made.id]
    care.look(ago=DAY)  # it is told once
    assert len(care.told) == 1
    (care.root / "lost").write_bytes(lost)  # and tried again in each round
    care.look(ago=DAY)
    assert care.integrity.warnings() == [] and care.told[1:] == [
        ("damage", {"contents": 0, "healed": 1, "checkpoints": 0})
    ]


def test_little_is_looked_at_once_a_day_and_starts_no_process_before(care: Care, asked: list[Question]) -> None:
    for number in range(5):
        care.keep(f"f{number}", b"%d\n" % number)
    care.look()
    assert [len(question.contents) for question in asked] == [0, 5]
    assert asked[0].structure is not None and asked[1].structure is None
    place = care.integrity.scrubbed()
    assert place.whole == place.time > 0 and place.done == 0
    for hours in (1, 5, 23):
        care.look(ago=hours * 3600)
    assert len(asked) == 2
    care.look(ago=DAY)
    assert len(asked) == 4


def test_much_is_looked_at_in_parts_so_that_all_is_within_its_time(
    care: Care, asked: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integrity_module, "_LEAST", 1)
    for number in range(60):
        care.keep(f"f{number}", RNG.randbytes(1000))
    care.look()  # the first one, as if an hour had gone by
    done = [number for question in asked for number in question.contents]
    assert done == [1]
    for _ in range(29):
        care.look(ago=DAY)
    done = [number for question in asked for number in question.contents]
    assert done == [*range(1, len(done) + 1)] and 58 <= len(done) <= 60
    assert care.integrity.scrubbed().whole == 0
    care.look(ago=DAY)
    care.look(ago=DAY)
    assert care.integrity.scrubbed().whole > 0
    assert sum(question.structure is not None for question in asked) == 2
    before = len(asked)
    care.config = parse("scrub: off")
    care.look(ago=DAY)
    assert len(asked) == before


def test_a_scrub_ends_when_the_daemon_does(care: Care, asked: list[Question], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integrity_module, "_MOST", 1)
    for number in range(5):
        care.keep(f"f{number}", b"%d\n" % number)
    going = iter([True, True, False])
    care.integrity.scrub(DAY, lambda: next(going))
    assert [question.contents for question in asked] == [[], [1], [2]]
    assert care.integrity.scrubbed().done == 2
    care.jobs.stop()
    care.look(ago=DAY)
    assert len(asked) == 3


def test_B10_a_drill_is_held_by_schedule(care: Care) -> None:
    care.keep("f", b"1\n")
    names = {care.take(f"c{number}").id for number in range(5)}
    care.look()
    assert care.state.last_drill() is None, "the store is younger than a day"
    care.drilled(0.9)
    care.look()
    assert care.told == []
    care.drilled(1)
    care.look()
    last = care.state.last_drill()
    assert last is not None and (last["restorable"], last["total"]) == (3, 3)
    assert care.told == [("drill", {"restorable": 3, "total": 3})]
    assert names and not (Path(care.store.directory) / "drill").exists()
    care.look()
    assert len(care.told) == 1
    care.config = parse("drill: off")
    care.drilled(9)
    care.look()
    assert len(care.told) == 1


def test_a_drill_that_fails_is_told(care: Care, caplog: pytest.LogCaptureFixture) -> None:
    data = RNG.randbytes(100)
    care.keep("f", data)
    care.take("one")
    (care.root / "f").unlink()
    care.damage(data)
    care.config = parse("scrub: off")
    care.drilled(1)
    care.look()
    assert care.told == [("drill", {"restorable": 0, "total": 1})]
    assert any("checkpoint one cannot be restored as it was" in record.message for record in caplog.records)


def test_what_is_too_large_has_its_turn_once_a_week(
    care: Care, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    care.keep("f", b"1\n")
    care.take("large", metadata=Metadata(snapshot_size=(256 << 20) + 1))
    for days in (1, 2, 6.9):
        care.drilled(days)
        care.look()
    assert care.told == []
    assert sum("no drill: no checkpoint has less than 256 MiB" in record.message for record in caplog.records) == 1
    care.drilled(7)
    care.look()
    assert care.told == [("drill", {"restorable": 1, "total": 1})]
    care.take("small", metadata=Metadata(snapshot_size=2))
    for chance, chosen in ((lambda _: 1, ["small"]), (lambda _: 0, ["large"])):
        drilled: list[str] = []

        def held(_store: Any, _state: Any, made: list[Checkpoint], _progress: Any, to: list[str] = drilled) -> Any:
            to += [each.id for each in made]
            return {"restorable": 1, "total": 1}, [""]

        monkeypatch.setattr(integrity_jobs, "drill_all", held)
        monkeypatch.setattr(care.jobs._chance, "randrange", chance)
        monkeypatch.setattr(care.jobs._chance, "shuffle", lambda made: made.sort(key=lambda each: each.id))
        care.drilled(1)
        care.look()
        assert drilled == chosen


def test_it_is_looked_soon_after_the_start_and_then_once_an_hour(care: Care) -> None:
    jobs: list[tuple[float, str, Callable[[], Any]]] = []

    class Recorded:
        def every(self, seconds: float, name: str, job: Callable[[], Any]) -> None:
            jobs.append((seconds, name, job))

    care.jobs.schedule(Recorded())  # type: ignore[arg-type]
    asyncio.run(jobs[0][2]())
    assert [(seconds, name) for seconds, name, _ in jobs] == [(600, "integrity"), (3600, "integrity")]
    assert jobs[1][2] == care.jobs.look


def test_what_goes_wrong_is_said_and_the_rest_is_done(
    care: Care, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_question: Question) -> Any:
        raise OSError("no more processes")

    monkeypatch.setattr(integrity_module, "check_aside", broken)
    care.keep("f", b"1\n")
    care.take("one")
    care.drilled(1)
    care.look()
    assert "the store could not be looked after: no more processes" in caplog.text
    assert [topic for topic, _ in care.told] == ["drill"]
    assert care.integrity.scrubbed() == Scrub()
