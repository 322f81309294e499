"""The trees that opcode's checkpoints meant, of timelines that are small enough to be read."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.model import Entry, Flag, Kind
from mulligan.project.opcode import EMPTY, GHOST, Held, Node, Rebuilt, Ref, judged, rebuild, relative


def ref(path: str, text: str = "", *, deleted: bool = False) -> Ref:
    digest = "" if deleted else hashlib.sha256(text.encode()).hexdigest()
    return Ref(path, digest, deleted, 0o100644, len(text))


def held(one: Ref) -> Held:
    return Held(Entry(Kind.FILE, 0o644, one.size, bytes.fromhex(one.hash)), ref=one)


def node(name: str, parent: str = "", *refs: Ref, **more: object) -> Node:
    made = Node(name, parent, int(name[1:]), refs=list(refs), **more)  # type: ignore[arg-type]
    made.expected = made.expected or len(refs)
    return made


def trees(*nodes: Node, root: str = "/p") -> dict[str, Rebuilt]:
    return {one.node.id: one for one in rebuild({each.id: each for each in nodes}, root, held)}


def files(one: Rebuilt) -> dict[str, object]:
    names = {hashlib.sha256(text.encode()).digest(): text for text in ("", "1", "2", "3", "4")}
    return {
        path.decode(): names[what.entry.hash] if what.entry.kind == Kind.FILE else what.entry.reason
        for path, what in one.tree.items()
    }


def test_a_partial_checkpoint_is_completed_from_its_own_parent() -> None:
    made = trees(
        node("c1", "", ref("a", "1"), ref("b", "1"), ref("d/c", "1")),
        node("c2", "c1", ref("a", "2")),
        node("c3", "c1", ref("b", "3")),
        node("c4", "c2", ref("d/c", deleted=True)),
    )
    assert files(made["c2"]) == {"a": "2", "b": "1", "d/c": "1"}
    assert files(made["c3"]) == {"a": "1", "b": "3", "d/c": "1"}
    assert files(made["c4"]) == {"a": "2", "b": "1"}
    assert [made[name].parent for name in ("c1", "c2", "c3", "c4")] == ["", "c1", "c1", "c2"]
    assert not any(one.incomplete for one in made.values())


def test_one_that_names_unchanged_files_names_all_so_the_others_are_gone() -> None:
    whole = [ref(name, "1") for name in "abcd"]
    made = trees(node("c1", "", *whole), node("c2", "c1", *whole[:3]), node("c3", "c1", whole[0]))
    assert files(made["c2"]) == dict.fromkeys("abc", "1") and "1 deleted" in made["c2"].notes[0]
    assert files(made["c3"]) == dict.fromkeys("abcd", "1")  # one alone may have been changed and changed back


def test_behind_a_checkpoint_that_was_removed_nothing_is_taken_for_unchanged() -> None:
    made = trees(
        node("c1", "", ref("a", "1"), ref("b", "1"), ref("c", "1")),
        node("c2", "c1", ghost=True, expected=1),
        node("c3", "c2", ref("a", "3")),
        node("c4", "c2", ref("a", "4"), ref("b", "1"), ref("c", "1")),
    )
    assert files(made["c3"]) == {"a": "3", "b": GHOST, "c": GHOST} and made["c3"].parent == "c1"
    assert files(made["c4"]) == {"a": "4", "b": "1", "c": "1"}
    first = trees(node("c1", "", ghost=True, expected=9), node("c2", "c1", ref("a", "1")))
    assert list(first) == ["c2"] and first["c2"].parent == "" and GHOST in first["c2"].incomplete[0]
    below = trees(
        node("c1", "", ghost=True, expected=9), node("c2", "c1", ref("a", "1")), node("c3", "c2", ref("a", "2"))
    )
    assert GHOST in below["c3"].incomplete[0] and files(below["c3"]) == {"a": "2"}
    old = frozenset(one.hash for one in (ref("a", "1"), ref("b", "2")))
    whole = trees(node("c1", "", ghost=True, expected=3, hashes=old), node("c2", "c1", ref("a", "1"), ref("b", "2")))
    assert whole["c2"].incomplete == [] and files(whole["c2"]) == {"a": "1", "b": "2"}
    orphan = trees(node("c2", "nobody", ref("a", "1")))["c2"]
    assert GHOST in orphan.incomplete[0]


def test_references_that_were_written_over_are_told_and_not_taken_from_before() -> None:
    made = trees(
        node("c1", "", ref("a_b", "1"), ref("c", "1"), expected=3),
        node("c2", "c1", ref("a/b", "2"), expected=2),
    )
    assert "1 of its files are lost" in made["c1"].incomplete[0]
    assert files(made["c2"]) == {"a/b": "2", "a_b": "opcode wrote another file's reference over its own", "c": "1"}


def test_a_file_that_became_a_directory_and_the_other_way_round() -> None:
    made = trees(node("c1", "", ref("a", "1"), ref("d/x", "1")), node("c2", "c1", ref("a/y", "2"), ref("d", "2")))
    assert files(made["c2"]) == {"a/y": "2", "d": "2"}


def test_absolute_paths_of_tools_are_the_projects_or_left_out() -> None:
    made = trees(node("c1", "", ref("/p/a", "1"), ref("/etc/passwd", "1"), ref("../x", "1"), ref("b", "1")))
    assert files(made["c1"]) == {"a": "1", "b": "1"} and len(made["c1"].notes) == 2 and not made["c1"].incomplete
    for bad in ("", "/", "a//b", "./a", "a/..", "a\0", "x" * 256, "\ud800"):
        assert relative(bad, "/p") is None
    assert relative("ä/\udcff", "/p") == b"\xc3\xa4/\xff"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=12))
def test_no_parents_make_it_go_round_for_ever(links: list[tuple[int, int, bool]]) -> None:
    nodes = [node(f"c{name}", f"c{parent}", ref("a", "1"), ghost=ghost) for name, parent, ghost in links]
    made = list(trees(*nodes).values())
    before: set[str] = {""}
    for one in made:
        assert one.parent in before
        before.add(one.node.id)


@pytest.mark.parametrize(
    ("data", "digest", "size", "expected"),
    [
        (b"one", b"one", 3, "whole"),
        (b"one", b"one", 4, "torn"),
        (b"", b"", 9, EMPTY),
        (b"one", b"two", 3, "repaired"),
        (b"one", b"two", 5, "what is stored for it is another version"),
        (None, b"one", 3, "why"),
    ],
)
def test_what_stored_bytes_are_worth(data: bytes | None, digest: bytes, size: int, expected: str) -> None:
    one = Ref("a", hashlib.sha256(digest).hexdigest(), False, 0o100755, size)
    found = judged(one, data, hashlib.sha256(data or b"").digest(), "why")
    if found.entry.kind == Kind.UNKNOWN:
        assert found.entry.reason == expected
    else:
        assert found.entry == Entry(Kind.FILE, 0o755, len(data or b""), hashlib.sha256(data or b"").digest())
        assert expected == ("torn" if found.flags & Flag.TORN else "repaired" if found.repaired else "whole")
