"""Any tree becomes any other tree exactly, and the inverse gives the first one back."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.restore.plan import inverse
from support.restoring import Bench, Listing, MemoryContents, directory, file, link

NAMES = st.sampled_from([b"a", b"b", b"a_b", b"a\\b", b"-rf", b"x ", b"n\nl", b"\xff\xfe", "é".encode(), b"e\xcc\x81"])
MODES = st.sampled_from([0o644, 0o600, 0o755, 0o444, 0o4755, 0o2711, 0o000])
#: Stands for five million bytes, which the product handles in pieces.
LARGE = b"large"
BYTES = st.one_of(st.binary(max_size=8), st.just(LARGE))


def nodes() -> st.SearchStrategy:
    leaf = st.one_of(
        st.tuples(st.just("file"), BYTES, MODES), st.tuples(st.just("link"), st.sampled_from([b"a", b"../..", b"/etc"]))
    )
    return st.recursive(
        st.dictionaries(NAMES, leaf, max_size=4),
        lambda below: st.dictionaries(
            NAMES,
            st.one_of(leaf, st.tuples(st.just("dir"), below, st.sampled_from([0o755, 0o700, 0o1777, 0o500]))),
            max_size=4,
        ),
        max_leaves=8,
    )


def listing(tree: dict, contents: MemoryContents, above: bytes = b"") -> Listing:
    found: Listing = {}
    for name, (kind, *rest) in tree.items():
        path = above + name
        if kind == "file":
            found[path] = file(contents, b"x" * 5_000_000 if rest[0] == LARGE else rest[0], rest[1])
        elif kind == "link":
            found[path] = link(rest[0])
        else:
            found[path] = directory(rest[1])
            found |= listing(rest[0], contents, path + b"/")
    return found


@given(nodes(), nodes(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_tree_becomes_every_other_and_back(one: dict, other: dict, outside: bool) -> None:
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place))
        first, second = listing(one, bench.contents), listing(other, bench.contents)
        bench.build(first)
        plan = bench.plan(second, first)
        outcome = bench.apply(plan, staging=outside)
        assert outcome.complete and outcome.verified
        assert bench.scan() == second
        assert {done.path for done in outcome.done} == {
            path for path in first | second if first.get(path) != second.get(path)
        }
        undone = bench.apply(inverse(outcome), staging=outside)
        assert undone.complete
        assert bench.scan() == first
        assert not bench.leftovers() and not bench.contents.captured
        for above, names, _ in os.walk(bench.root):
            for name in names:
                if not os.path.islink(os.path.join(above, name)):
                    os.chmod(os.path.join(above, name), 0o700)
