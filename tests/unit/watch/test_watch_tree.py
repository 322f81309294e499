"""Descriptors and directories, whatever is moved where."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mulligan.model import RelPath
from mulligan.watch.tree import WatchTree


def tree(*directories: bytes) -> WatchTree:
    made = WatchTree()
    for descriptor, directory in enumerate(directories, 1):
        assert made.bind(descriptor, RelPath(directory)) == []
    return made


def test_a_dropped_directory_takes_everything_below_it_along() -> None:
    made = tree(b"", b"a", b"a/b", b"a/b/c", b"ab")
    assert sorted(made.drop(RelPath(b"a"))) == [2, 3, 4]
    assert len(made) == 2
    assert made.directory(3) is None
    assert made.directory(5) == b"ab"


def test_a_moved_directory_is_known_by_its_new_name_alone() -> None:
    made = tree(b"", b"x", b"x/sub")
    assert made.bind(2, RelPath(b"y")) == [3]
    assert made.directory(2) == b"y"
    assert RelPath(b"x") not in made
    assert RelPath(b"x/sub") not in made


def test_another_directory_under_the_same_name_displaces_the_first() -> None:
    made = tree(b"", b"x", b"x/sub")
    assert sorted(made.bind(9, RelPath(b"x"))) == [2, 3]
    assert made.directory(2) is None
    assert made.directory(9) == b"x"


def test_a_directory_below_one_that_is_not_bound_is_dropped_with_it() -> None:
    made = tree(b"", b"a/b/c/d")
    assert made.drop(RelPath(b"a")) == [2]
    assert len(made) == 1


NAMES = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=4).map(b"/".join)
STEPS = st.lists(st.tuples(st.sampled_from(["bind", "drop", "unbind"]), NAMES, st.integers(1, 8)), max_size=40)


@given(STEPS)
def test_it_agrees_with_two_plain_tables(steps: list[tuple[str, bytes, int]]) -> None:
    made, plain = WatchTree(), dict[bytes, int]()
    for step, name, descriptor in steps:
        below = {path for path in plain if not name or path == name or path.startswith(name + b"/")}
        if step == "drop":
            assert sorted(made.drop(RelPath(name))) == sorted(plain.pop(path) for path in below)
        elif step == "unbind":
            owner = next((path for path, each in plain.items() if each == descriptor), None)
            assert made.unbind(descriptor) == owner
            plain = {path: each for path, each in plain.items() if each != descriptor}
        elif plain.get(name) != descriptor:
            old = next((path for path, each in plain.items() if each == descriptor), None)
            gone = {path for path in plain if old is not None and (not old or (path + b"/").startswith(old + b"/"))}
            gone |= below if name in plain else set()
            lost = [plain.pop(path) for path in gone]
            assert sorted(made.bind(descriptor, RelPath(name))) == sorted(each for each in lost if each != descriptor)
            plain[name] = descriptor
        assert len(made) == len(plain)
        assert all(made.directory(each) == path and RelPath(path) in made for path, each in plain.items())
    assert sorted(made.drop(RelPath(b""))) == sorted(plain.values())
