"""Which checkpoints need a content is what their trees say."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.model import ABSENT, Cut, Kind
from mulligan.store.needs import needs
from mulligan.store.records import AnyFact, CheckpointFact
from support.storing import add_project, checkpoint, file_entry, opened, row, rows_fact

PATHS = (b"a", b"d/b")
CONTENTS = (b"", b"one", b"two", b"three")
#: A path becomes a content (None: it vanishes), so much later; or a checkpoint is taken, with a moment so far back.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(PATHS), st.sampled_from([None, *CONTENTS]), st.integers(1, 5)),
        st.tuples(st.integers(-12, 3) | st.none()),
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sets(st.sampled_from(CONTENTS)))
def test_a_checkpoint_needs_what_is_in_its_tree(steps: list[tuple[object, ...]], lost: set[bytes]) -> None:
    with tempfile.TemporaryDirectory() as directory, opened(Path(directory)) as store:
        add_project(store)
        now, ordinal, facts = 100, 0, list[AnyFact]()
        for step in steps:
            if len(step) == 3:
                path, data, later = step
                now += later  # type: ignore[operator]
                entry = ABSENT if data is None else file_entry(data)  # type: ignore[arg-type]
                facts.append(rows_fact(row(path, entry, now)))  # type: ignore[arg-type]
                continue
            store.log.append(facts)
            ordinal, facts = ordinal + 1, []
            seq = store.catalogue().meta("seq")
            cut = Cut(seq) if step[0] is None else Cut(seq, now + step[0])  # type: ignore[operator]
            made = checkpoint(id=f"c{ordinal}", ordinal=ordinal, seq=cut.seq, moment=cut.moment)
            store.log.append([CheckpointFact(made)])
        store.log.append(facts)
        catalogue = store.catalogue()
        hashes = {file_entry(data).hash for data in lost}
        expected = {}
        for made in catalogue.checkpoints("1", ()):
            tree = catalogue.tree(1, made.cut)
            paths = [
                path for path, found in tree.items() if found.entry.kind is Kind.FILE and found.entry.hash in hashes
            ]
            if paths:
                expected[made.id] = sorted(paths)
        found = needs(catalogue, hashes)
        assert {need.id: sorted(need.paths) for need in found} == expected
        assert all(need.count == len(need.paths) for need in found)
        assert [need.ordinal for need in found] == sorted(need.ordinal for need in found)
