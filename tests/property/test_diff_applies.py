"""Our patch, given to git and to patch(1), makes the new tree out of the old one, byte for byte."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from mulligan.journal.diff import Change, Options, diff_trees
from mulligan.journal.lines import split_lines
from mulligan.model import Entry, Kind, RelPath

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CEILING_DIRECTORIES": "/",
    "LC_ALL": "C",
}
#: A file is (mode, bytes), a link (0, target).
Node = tuple[int, bytes]
Tree = dict[bytes, Node]

lines = st.lists(
    st.sampled_from([b"a", b"b", b"c", b"}", b"", b" x", b"\tx", b"x\r", b"-- ", b"\\ No", b"\xff\xfe", b"@@ -1 +1 @@"])
)
texts = st.builds(lambda parts, end: b"\n".join(parts) + end, lines, st.sampled_from([b"", b"\n"]))
names = st.sampled_from(
    [
        b"a",
        b"b",
        b"a_b",
        b"x y",
        b" lead",
        b"tail ",
        b"-dash",
        b"new\nline",
        b'q"q',
        b"b\\s",
        b"\xff",
        "é".encode(),
        b"tab\t",
    ]
)
plain_names = st.sampled_from([b"a", b"b", b"a_b", b"x y", b"-dash", b"e.py", b"z"])


def paths(of: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(of, min_size=1, max_size=3).map(b"/".join)


files: st.SearchStrategy[Node] = st.tuples(st.sampled_from([0o644, 0o755]), texts)
links: st.SearchStrategy[Node] = st.tuples(st.just(0), st.sampled_from([b"a", b"../x", b"no/where", b"\xff y"]))


def consistent(tree: Tree) -> Tree:
    """The tree without the entries that stand below a file or a link."""
    kept: Tree = {}
    for path in sorted(tree):
        parents = path.split(b"/")
        if not any(b"/".join(parents[:depth]) in kept for depth in range(1, len(parents))):
            kept[path] = tree[path]
    return kept


trees = st.dictionaries(paths(names), st.one_of(files, files, links), max_size=6).map(consistent)
plain_trees = st.dictionaries(paths(plain_names), files, max_size=6).map(consistent)


def write(tree: Tree, root: Path) -> None:
    for path, (mode, data) in tree.items():
        place = os.path.join(os.fsencode(root), path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if mode:
            fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            os.write(fd, data)
            os.fchmod(fd, mode)
            os.close(fd)
        else:
            os.symlink(data, place)


def read(root: Path) -> Tree:
    found: Tree = {}
    base = os.fsencode(root)
    for directory, below, names_here in os.walk(base):
        for name in [*names_here, *(name for name in below if os.path.islink(os.path.join(directory, name)))]:
            place = os.path.join(directory, name)
            path = os.path.relpath(place, base)
            if os.path.islink(place):
                found[path] = (0, os.readlink(place))
            else:
                with open(place, "rb") as stream:
                    found[path] = (os.stat(place).st_mode & 0o777, stream.read())
    return found


def patch_of(old: Tree, new: Tree, options: Options) -> bytes:
    contents: dict[bytes, bytes] = {}

    def entry(node: Node | None) -> Entry | None:
        if node is None:
            return None
        mode, data = node
        if not mode:
            return Entry(Kind.LINK, 0o777, target=data)
        digest = hashlib.sha256(data).digest()
        contents[digest] = data
        return Entry(Kind.FILE, mode, len(data), digest)

    changes = [Change(RelPath(path), entry(old.get(path)), entry(new.get(path))) for path in old.keys() | new.keys()]
    return diff_trees(changes, contents.__getitem__, options).patch()


def run(command: list[str], root: Path, data: bytes) -> None:
    done = subprocess.run(command, cwd=root, input=data, capture_output=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(old=trees, new=trees, context=st.integers(1, 4))
def test_git_apply_makes_the_new_tree(old: Tree, new: Tree, context: int) -> None:
    # Git looks through a link of the old tree for what is to come below it.
    old_links = [path for path, (mode, _) in old.items() if not mode]
    assume(not any(path.startswith(link + b"/") for link in old_links for path in new))
    patch = patch_of(old, new, Options(context=context))
    with TemporaryDirectory() as place:
        root = Path(place)
        write(old, root)
        if patch:
            run(["git", "apply", "--whitespace=nowarn", "-"], root, patch)
        assert read(root) == new


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch(1) is not installed")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(old=plain_trees, new=plain_trees)
def test_patch_makes_the_new_tree(old: Tree, new: Tree) -> None:
    # GNU patch puts deletions off to its end, so it cannot swap a file and a directory of one name.
    assume(not any(path.startswith(file + b"/") for file in old for path in new))
    assume(not any(path.startswith(file + b"/") for file in new for path in old))
    patch = patch_of(old, new, Options(renames=False))
    with TemporaryDirectory() as place:
        root = Path(place)
        write(old, root)
        if patch:
            run(["patch", "-p1", "--binary", "--silent", "--no-backup-if-mismatch"], root, patch)
        assert read(root) == new


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(old=texts, new=texts)
def test_the_counts_are_those_of_a_shortest_diff(old: bytes, new: bytes) -> None:
    with TemporaryDirectory() as place:
        root = Path(place)
        write({b"old": (0o644, old), b"new": (0o644, new)}, root)
        command = ["git", "diff", "--no-index", "--minimal", "--text", "--numstat", "old", "new"]
        said = subprocess.run(command, cwd=root, capture_output=True, env=ENVIRONMENT, check=False).stdout
    theirs = [int(number) for number in said.split()[:2]] or [0, 0]
    patch = patch_of({b"f": (0o644, old)}, {b"f": (0o644, new)}, Options())
    body = patch.partition(b"\n@@")[2].split(b"\n")[1:]
    ours = [sum(line.startswith(mark) for line in body) for mark in (b"+", b"-")]
    assert ours == theirs
    assert len(split_lines(old)) - ours[1] == len(split_lines(new)) - ours[0]
