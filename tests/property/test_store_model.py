"""Random journals in a real store against a model in memory: cuts, differences, digests, live trees, restarts."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mulligan.clock import FOREVER
from mulligan.model import ABSENT, Cut, Entry, Flag, Kind, Row
from mulligan.store.catalogue import UNSEEN
from mulligan.store.encoding import encode
from mulligan.store.rebuild import build, keep
from mulligan.store.snapshot import prune
from mulligan.store.store import Store
from mulligan.store.swap import swap_in
from mulligan.store.verify import verify
from support.storing import add_project, forget_catalogue, rows_fact, tables

PROJECTS = (1, 2)
#: Names of which one is the beginning of another, and that sort around "/" and "0".
PATHS = [
    b"a", b"a/b", b"a/b/c", b"a-b", b"a0", b"a/0", b"a.b/c", b"ab", b"b", b"\xff", b"\xff/x", b"new\nline/x", b"a/b-c",
]  # fmt: skip
contents = st.sampled_from([b"", b"one", b"two", b"three\xff"])
entries = st.one_of(
    st.builds(
        lambda data, mode: Entry(Kind.FILE, mode, len(data), hashlib.sha256(data).digest()),
        contents, st.sampled_from([0o644, 0o600, 0o4755]),
    ),
    st.builds(lambda mode: Entry(Kind.DIR, mode), st.sampled_from([0o755, 0o700])),
    st.builds(lambda text: Entry(Kind.LINK, target=text), st.sampled_from([b"a", b"..", b"\xff"])),
    st.sampled_from([ABSENT, Entry(Kind.SPECIAL, reason="fifo"), Entry(Kind.UNKNOWN, reason="ignored")]),
)  # fmt: skip
changes = st.tuples(st.sampled_from(PATHS), entries, st.integers(1, 30), st.integers(0, 40), st.booleans())
numbers = st.integers(0, 200)
moments = st.one_of(st.integers(0, 400), st.just(FOREVER))
some_paths = st.lists(st.sampled_from([*PATHS, b"never/was", b"a/b/c/d"]), min_size=1, max_size=3)


def summand(path: bytes, entry: Entry) -> int:
    """What the format says of a digest, once more."""
    if entry.kind not in (Kind.FILE, Kind.DIR, Kind.LINK):
        return 0
    last = entry.hash if entry.kind == Kind.FILE else entry.target
    parts = [b"mulligan-entry-1", path, bytes([entry.kind]), entry.mode.to_bytes(2, "big"), last]
    data = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return int.from_bytes(hashlib.sha256(data).digest(), "big")


class Journal:
    """One project's rows, in the order of their numbers."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def last_at(self, path: bytes) -> int:
        return max((row.at for row in self.rows if row.path == path), default=0)

    def paths(self) -> list[bytes]:
        return sorted({row.path for row in self.rows})

    def tree(self, cut: Cut) -> dict[bytes, Row]:
        return {row.path: row for row in self.rows if row.seq <= cut.seq and row.at <= cut.moment}

    def entry_at(self, path: bytes, cut: Cut) -> Entry:
        if (found := self.tree(cut).get(path)) is not None:
            return found.entry
        first = next((row for row in self.rows if row.path == path), None)
        return UNSEEN if first is None or first.flags & Flag.FROM_UNKNOWN else ABSENT

    def differences(self, before: Cut, after: Cut) -> dict[bytes, tuple[Entry, Entry]]:
        found = {path: (self.entry_at(path, before), self.entry_at(path, after)) for path in self.paths()}
        return {path: (old, new) for path, (old, new) in found.items() if old != new}

    def digest(self, cut: Cut) -> str:
        total = sum(summand(path, row.entry) for path, row in self.tree(cut).items())
        return (total % 2**256).to_bytes(32, "big").hex()


def concerns(only: Sequence[bytes], path: bytes) -> bool:
    """One of `only`, below one, or a directory above one."""
    return any(path == one or path.startswith(one + b"/") or one.startswith(path + b"/") for one in only)


class StoreLife(RuleBasedStateMachine):
    """Two projects in one store."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="mgstore"))
        self.journals = {number: Journal() for number in PROJECTS}
        self.seq = 0

    @initialize()
    def begin(self) -> None:
        self.store = Store(str(self.directory))
        for number in PROJECTS:
            add_project(self.store, number, b"/p%d" % number)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.directory)

    @property
    def some(self) -> bool:
        return self.seq > 0

    def _rows(self, journal: Journal, found: list[tuple[bytes, Entry, int, int, bool]]) -> list[Row]:
        rows, latest = [], {}
        for path, entry, later, since, unknown in found:
            at = max(latest.get(path, 0), journal.last_at(path)) + later
            latest[path] = at
            doubts = since & (Flag.TORN | Flag.UNPROVEN)
            rows.append(Row(path, entry, max(1, at - since), at, doubts | (Flag.FROM_UNKNOWN if unknown else 0)))
        return rows

    def _numbered(self, journal: Journal, rows: list[Row], first: int) -> None:
        assert first == self.seq + 1
        for offset, row in enumerate(rows):
            journal.rows.append(Row(row.path, row.entry, row.since, row.at, row.flags, first + offset))
        self.seq += len(rows)

    @rule(project=st.sampled_from(PROJECTS), found=st.lists(changes, min_size=1, max_size=6))
    def change(self, project: int, found: list[tuple[bytes, Entry, int, int, bool]]) -> None:
        journal = self.journals[project]
        rows = self._rows(journal, found)
        receipt = self.store.log.append([rows_fact(*rows, project=project)])
        self._numbered(journal, rows, receipt.first_seq)

    @rule(first=st.lists(changes, min_size=1, max_size=4), second=st.lists(changes, min_size=1, max_size=4))
    def change_both_in_one_batch(
        self, first: list[tuple[bytes, Entry, int, int, bool]], second: list[tuple[bytes, Entry, int, int, bool]]
    ) -> None:
        rows = {1: self._rows(self.journals[1], first), 2: self._rows(self.journals[2], second)}
        receipt = self.store.log.append([rows_fact(*rows[number], project=number) for number in PROJECTS])
        self._numbered(self.journals[1], rows[1], receipt.first_seq)
        self._numbered(self.journals[2], rows[2], self.seq + 1)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = Store(str(self.directory))
        assert (self.store.damage, self.store.replayed.batches) == ("", 0)

    @rule()
    def rebuild(self) -> None:
        self.store.close()
        expected = tables(self.directory / "catalogue.db")
        forget_catalogue(self.directory)
        self.store = Store(str(self.directory))
        assert self.store.damage == ""
        assert tables(self.directory / "catalogue.db") == expected

    @rule(data=st.lists(contents, min_size=1, max_size=3))
    def store_contents(self, data: list[bytes]) -> None:
        self.store.log.append([], [encode(one) for one in data if not self.store.contents.holds(encode(one).hash)])

    @rule()
    def keep_a_snapshot(self) -> None:
        """Catalogues that are lost later are made from it."""
        assert keep(self.store.pool, self.store.catalogue_path)
        prune(self.store.pool)

    @rule()
    def rebuild_while_it_is_open(self) -> None:
        expected = tables(self.directory / "catalogue.db")
        built = build(self.store.pool, self.store.catalogue_path, self.store.log.batch)
        assert swap_in(self.store, built).lost == []
        assert tables(self.directory / "catalogue.db") == expected

    @precondition(lambda self: self.some)
    @rule(project=st.sampled_from(PROJECTS), seq=numbers, moment=moments)
    def look_at_a_cut(self, project: int, seq: int, moment: int) -> None:
        cut, journal, catalogue = Cut(seq, moment), self.journals[project], self.store.catalogue()
        assert catalogue.tree(project, cut) == journal.tree(cut)
        for path in [*journal.paths(), b"never"]:
            assert catalogue.entry_at(project, path, cut) == journal.entry_at(path, cut)
        assert catalogue.digest(catalogue.project(project), cut) == journal.digest(cut)
        late = {row.path for row in journal.rows if row.since <= moment < row.at and row.seq <= seq}
        assert set(catalogue.changed_late(project, moment, seq)) == late
        doubtful = [(path, row.flags) for path, row in journal.tree(cut).items() if row.flags & 3]
        assert sorted(catalogue.flagged(project, cut)) == sorted(doubtful)

    @precondition(lambda self: self.some)
    @rule(project=st.sampled_from(PROJECTS), seqs=st.tuples(numbers, numbers), times=st.tuples(moments, moments))
    def compare_two_cuts(self, project: int, seqs: tuple[int, int], times: tuple[int, int]) -> None:
        before, after = Cut(seqs[0], times[0]), Cut(seqs[1], times[1])
        found = {path: (old, new) for path, old, new in self.store.catalogue().differences(project, before, after)}
        assert found == self.journals[project].differences(before, after)

    @precondition(lambda self: self.some)
    @rule(project=st.sampled_from(PROJECTS), seq=numbers, moment=moments, only=some_paths)
    def compare_some_paths(self, project: int, seq: int, moment: int, only: list[bytes]) -> None:
        before, after = Cut(seq, moment), Cut(self.seq)
        catalogue, journal = self.store.catalogue(), self.journals[project]
        found = {path: (old, new) for path, old, new in catalogue.differences(project, before, after, only)}
        expected = journal.differences(before, after)
        assert found == {path: pair for path, pair in expected.items() if concerns(only, path)}

    @precondition(lambda self: self.some)
    @rule(project=st.sampled_from(PROJECTS), directory=st.sampled_from([b"", b"a", b"a/b", b"\xff", b"never"]))
    def look_at_the_live_tree(self, project: int, directory: bytes) -> None:
        catalogue, journal = self.store.catalogue(), self.journals[project]
        live = journal.tree(Cut(self.seq))
        inside = directory + b"/" if directory else b""
        below = {path: row for path, row in live.items() if path.startswith(inside)}
        assert {each.path: (each.entry, each.seq, each.at) for each in catalogue.below(project, directory)} == {
            path: (row.entry, row.seq, row.at) for path, row in below.items()
        }
        names = {path[len(inside) :] for path in below if b"/" not in path[len(inside) :]}
        assert catalogue.children(project, directory).keys() == names
        for path in journal.paths():
            assert catalogue.versions(project, path) == [row for row in journal.rows if row.path == path]

    @invariant()
    def the_counts_are_those_of_the_live_tree(self) -> None:
        for number, journal in self.journals.items():
            project = self.store.catalogue().project(number)
            live = [row.entry for row in journal.tree(Cut(self.seq)).values()]
            kinds = [entry.kind for entry in live]
            assert (project.files, project.dirs, project.links) == tuple(
                kinds.count(kind) for kind in (Kind.FILE, Kind.DIR, Kind.LINK)
            )
            assert project.size == sum(entry.size for entry in live)
            assert project.digest.hex() == journal.digest(Cut(self.seq))
            assert project.last_seq == (journal.rows[-1].seq if journal.rows else 0)


def test_a_store_is_what_the_model_says() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        StoreLife,
        settings=settings(
            max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_verify_names_every_row_whose_content_is_not_there(tmp_path: Path) -> None:
    """The model's rows name contents that nobody has stored: the other half of what a store has to know."""
    store = Store(str(tmp_path))
    try:
        add_project(store)
        rows = [Row(path, Entry(Kind.FILE, 0o644, 1, hashlib.sha256(path).digest()), 5, 5) for path in PATHS]
        store.log.append([rows_fact(*rows)])
        report = verify(store.catalogue(), store.contents)
        assert sorted(path for _, path, _ in report.paths) == sorted(PATHS)
    finally:
        store.close()
