"""Two sessions and a person edit the same files in any order; one session's work, or one call's, is taken out again.

The model keeps every line that was ever written, in its place, with who wrote and who deleted it: what a revert should
leave is then the lines that were not written by the calls in question, and not deleted by others.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from mulligan.clock import FOREVER
from mulligan.events import Bus
from mulligan.journal.capture import Limits
from mulligan.model import Cut
from mulligan.project.naming import Position
from mulligan.project.reverting import Reverter
from mulligan.project.selection import Selection
from mulligan.project.worker import ProjectWorker
from mulligan.store.records import AttributionFact, CallFact
from mulligan.watch.ignore import IgnoreRules
from mulligan.watch.observer import make_observer
from support.live_transcript import replace
from support.storing import add_project, opened
from support.trees import snapshot

PERSON = ""


@dataclass
class Slot:
    """A line that was written once: by which edit, and which one deleted it."""

    text: bytes
    by: int
    deleted: int | None = None


@dataclass
class Shared:
    """A file as its history of lines. Edit 0 made it, before anybody's call."""

    slots: list[Slot] = field(default_factory=lambda: [Slot(b"%d\n" % n, 0) for n in range(12)])

    def edit(self, number: int, place: float, removed: int, added: int) -> None:
        """Replace some lines by new ones, no two of which are ever equal."""
        visible = [index for index, slot in enumerate(self.slots) if slot.deleted is None]
        start = min(int(place * (len(visible) + 1)), len(visible))
        for index in visible[start : start + removed]:
            self.slots[index].deleted = number
        at = visible[start] if start < len(visible) else len(self.slots)
        self.slots[at:at] = [Slot(b"%d.%d\n" % (number, n), number) for n in range(added)]

    def text(self, without: frozenset[int] = frozenset()) -> bytes:
        """The file, as if some edits had not been made."""
        return b"".join(
            slot.text for slot in self.slots
            if slot.by not in without and (slot.deleted is None or slot.deleted in without)
        )  # fmt: skip


EDIT = st.tuples(
    st.sampled_from([PERSON, "A", "A", "B"]),
    st.integers(0, 1),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 2),
    st.integers(0, 2),
)


class Project:
    """A real directory that is watched, with edits that belong to sessions."""

    def __init__(self, worker: ProjectWorker) -> None:
        self.worker, self.reverter = worker, Reverter(worker)
        self.root = Path(os.fsdecode(worker.root))

    def begin(self) -> Path:
        """A new directory with the two files, captured."""
        place = self.root / uuid.uuid4().hex
        place.mkdir()
        for number in range(2):
            (place / str(number)).write_bytes(Shared().text())
        self.sync()
        return place

    def sync(self) -> int:
        self.worker.call(self.worker.sync).result()
        return self.worker.record().last_seq

    def edit(self, path: Path, data: bytes) -> list[int]:
        """Write a file; the rows that came of it."""
        before = self.worker.record().last_seq
        replace(path, data)
        return list(range(before + 1, self.sync() + 1))

    def belongs(self, owned: dict[str, list[int]], session: str) -> None:
        """Rows are a session's calls'."""
        calls = [CallFact(call, session, self.worker.project_id, "Edit", "path", 1, FOREVER) for call in owned]
        rows = [(seq, call, "named") for call, seqs in owned.items() for seq in seqs]
        self.worker.store.log.append([*calls, AttributionFact(self.worker.project_id, rows)])

    def revert(self, calls: list[str], *, partial: bool) -> tuple[set[Path], bool]:
        """(files in conflict, whether anything was done)."""
        prepared, result = self.reverter.revert(
            Selection("x", tuple(calls)), "revert", Position(Cut(0), None, "x"), "", partial=partial
        )
        assert result is None or (result.outcome is not None and result.outcome.verified)
        return {self.root / os.fsdecode(conflict.path) for conflict in prepared.conflicts}, result is not None

    def undo(self) -> None:
        def run() -> None:
            result = self.reverter.take_back("undo", self.reverter.to_undo(), "", force=False)
            assert result.outcome is not None and result.outcome.complete

        self.worker.call(run).result()


@contextmanager
def watched() -> Iterator[Project]:
    # a thousand runs write much and need no disk that lasts
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="mg", dir=memory) as base, opened(Path(base) / "store") as store:
        root = Path(base) / "project"
        root.mkdir()
        found = add_project(store, path=os.fsencode(root))
        worker = ProjectWorker(store, found, Bus(store.clock.now), Limits(1 << 20), IgnoreRules, make_observer)
        worker.start()
        try:
            yield Project(worker)
        finally:
            worker.stop()


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    with watched() as project:
        yield project


@given(edits=st.lists(EDIT, min_size=2, max_size=8), which=st.integers(-1, 7))
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.timeout(600)
def test_nobody_elses_lines_are_lost(project: Project, edits: list[tuple], which: int) -> None:
    place, files = project.begin(), [Shared(), Shared()]
    owned: dict[str, dict[str, list[int]]] = {"A": {}, "B": {}}
    numbers: dict[str, int] = {}
    for number, (who, index, *what) in enumerate(edits, 1):
        files[index].edit(number, *what)
        rows = project.edit(place / str(index), files[index].text())
        if who != PERSON:
            call = f"{place.name}-{number}"
            owned[who][call], numbers[call] = rows, number
    for who, calls in owned.items():
        project.belongs(calls, f"{place.name}-{who}")
    calls = list(owned["A"])
    calls = calls[which % len(calls) :][:1] if which >= 0 and calls else calls
    without = frozenset(numbers[call] for call in calls)
    before = {place / str(index): shared.text() for index, shared in enumerate(files)}
    wanted = {place / str(index): shared.text(without) for index, shared in enumerate(files)}

    conflicts, done = project.revert(calls, partial=False)
    event("conflict" if conflicts else "reverted" if done else "nothing to do")
    assert conflicts <= set(before)
    if conflicts:
        assert not done
        assert {path: path.read_bytes() for path in before} == before, "a conflict is never written"
        _, done = project.revert(calls, partial=True)
    after = {path: path.read_bytes() for path in before}
    assert after == {path: before[path] if path in conflicts else wanted[path] for path in before}
    assert done == (after != before)
    if done:
        project.undo()
        assert {path: path.read_bytes() for path in before} == before


NAMES = ("one", "two", "dir/three")
STEP = st.tuples(
    st.sampled_from([PERSON, "A", "A", "B"]),
    st.sampled_from(["append", "insert", "cut", "delete", "move", "chmod"]),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
)


def act(place: Path, number: int, what: str, name: str, other: str) -> None:
    """One step of somebody; it writes lines that bear its number, and may make, move or delete a file."""
    path, new = place / name, place / other
    mine = b"%d.1\n%d.2\n%d.3\n" % (number, number, number)
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(mine)
    elif what == "delete":
        path.unlink()
    elif what == "move":
        new.parent.mkdir(exist_ok=True)
        path.rename(new)
    elif what == "chmod":
        path.chmod(path.stat().st_mode & 0o777 ^ 0o100)
    else:
        data = path.read_bytes()
        middle = data.find(b"\n", len(data) // 2) + 1
        replace(
            path, {"append": data + mine, "insert": data[:middle] + mine + data[middle:], "cut": data[middle:]}[what]
        )


@given(steps=st.lists(STEP, min_size=2, max_size=8))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.timeout(600)
def test_nobody_elses_lines_are_lost_whatever_happens_to_the_files(project: Project, steps: list[tuple]) -> None:
    place = project.begin()
    (place / "one").write_bytes(Shared().text())
    project.sync()
    owned: dict[str, list[int]] = {}
    mine: set[bytes] = set()
    for number, (who, *step) in enumerate(steps, 1):
        before = project.worker.record().last_seq
        act(place, number, *step)
        rows = list(range(before + 1, project.sync() + 1))
        if who == "A":
            owned[f"{place.name}-{number}"] = rows
            mine.add(b"%d." % number)
    project.belongs(owned, place.name)

    def theirs() -> Counter[bytes]:
        found = Counter(line for path in place.rglob("*") if path.is_file() for line in path.read_bytes().split())
        return Counter({line: count for line, count in found.items() if line.partition(b".")[0] + b"." not in mine})

    before, lines = snapshot(place), theirs()
    conflicts, done = project.revert(list(owned), partial=False)
    event("conflict" if conflicts else "reverted" if done else "nothing to do")
    if conflicts:
        assert not done and snapshot(place) == before
        _, done = project.revert(list(owned), partial=True)
        assert {path: before.get(path) for path in relative(place, conflicts)} == {
            path: snapshot(place).get(path) for path in relative(place, conflicts)
        }
    assert theirs() >= lines
    if done:
        project.undo()
    assert snapshot(place) == before


def relative(place: Path, paths: set[Path]) -> list[bytes]:
    return [os.fsencode(path.relative_to(place)) for path in paths]
