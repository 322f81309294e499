"""What a listing gives: everything that is there and not left out, never through a link, and what it cannot say."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.errors import NotFoundError
from mulligan.model import Kind, RelPath
from mulligan.watch import scan as scanning
from mulligan.watch.ignore import IgnoreRules
from mulligan.watch.scan import Found, list_directory, root_identity, scan


def walk(root: Path, directory: bytes = b"", rules: IgnoreRules | None = None) -> dict[bytes, Found]:
    found = list(scan(os.fsencode(root), RelPath(directory), rules))
    named = {each.path: each for each in found}
    assert len(named) == len(found), "a path was given twice"
    return named


def open_files() -> int:
    return len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"))


def test_a_walk_gives_every_kind_of_entry_with_its_state(tmp_path: Path) -> None:
    (tmp_path / "a/empty").mkdir(parents=True)
    (tmp_path / "a/file").write_text("12345")
    (tmp_path / "a/file").chmod(0o640)
    os.link(tmp_path / "a/file", tmp_path / "second")
    (tmp_path / "link").symlink_to("/etc")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / b"caf\xe9\n".decode("utf-8", "surrogateescape")).touch()
    found = walk(tmp_path)
    assert {path: each.kind for path, each in found.items()} == {
        b"a": Kind.DIR, b"a/empty": Kind.DIR, b"a/file": Kind.FILE, b"second": Kind.FILE, b"link": Kind.LINK,
        b"fifo": Kind.SPECIAL, b"caf\xe9\n": Kind.FILE,
    }  # fmt: skip
    seen = os.lstat(tmp_path / "a/file")
    stat = found[b"a/file"].stat
    assert (stat.dev, stat.ino, stat.size, stat.mode, stat.mtime, stat.ctime) == (
        seen.st_dev, seen.st_ino, 5, seen.st_mode, seen.st_mtime_ns, seen.st_ctime_ns,
    )  # fmt: skip
    assert found[b"a/file"].links == 2
    assert found[b"fifo"].reason == "fifo"


def test_a_socket_is_named_as_one(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made, tempfile.TemporaryDirectory(dir="/tmp") as short:
        made.bind(os.path.join(short, "s"))
        assert walk(Path(short))[b"s"].reason == "socket"


def test_a_walk_of_a_part_begins_with_the_part(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    assert set(walk(tmp_path, b"a/b")) == {b"a/b", b"a/b/c"}
    assert walk(tmp_path, b"nothing") == {}


def test_what_stands_where_a_directory_was_is_given_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    assert [each.kind for each in walk(tmp_path, b"file").values()] == [Kind.FILE]
    assert [each.kind for each in walk(tmp_path, b"link").values()] == [Kind.LINK]


def test_nothing_outside_is_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside/sub").mkdir(parents=True)
    (tmp_path / "outside/sub/secret").touch()
    (tmp_path / "root").mkdir()
    (tmp_path / "root/in").symlink_to(tmp_path / "outside")
    assert set(walk(tmp_path / "root")) == {b"in"}
    assert walk(tmp_path / "root", b"in/sub") == {}
    with pytest.raises(OSError):
        list(list_directory(os.fsencode(tmp_path / "root"), RelPath(b"in/sub"), None))


def test_a_directory_swapped_for_a_link_before_it_is_listed_is_given_as_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").touch()
    (tmp_path / "root/d").mkdir(parents=True)
    root = tmp_path / "root"

    def swap(directory: RelPath) -> None:
        if directory == b"d":
            (root / "d").rmdir()
            (root / "d").symlink_to(tmp_path / "outside")

    found = list(scan(os.fsencode(root), RelPath(b""), None, swap))
    assert [(each.path, each.kind) for each in found] == [(b"d", Kind.LINK)]


def test_a_directory_is_told_of_before_it_is_listed(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    told: list[bytes] = []

    def fill(directory: RelPath) -> None:
        told.append(directory)
        (tmp_path / os.fsdecode(directory) / "just made").touch()

    found = {each.path for each in scan(os.fsencode(tmp_path), RelPath(b""), None, fill)}
    assert sorted(told) == [b"", b"a", b"a/b"]
    assert {b"just made", b"a/just made", b"a/b/just made"} <= found


def test_what_is_left_out_is_neither_given_nor_entered(tmp_path: Path) -> None:
    for name in (".git/objects", "node_modules/x", "src/build", "src/kept"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "src/.gitignore").write_text("build/\n*.log\n")
    (tmp_path / "src/a.log").touch()
    told: list[bytes] = []
    rules = IgnoreRules(os.fsencode(tmp_path))
    found = {each.path for each in scan(os.fsencode(tmp_path), RelPath(b""), rules, told.append)}
    assert found == {b"src", b"src/.gitignore", b"src/kept"}
    assert sorted(told) == [b"", b"src", b"src/kept"]


def test_on_the_way_to_a_forced_path_nothing_else_is_given(tmp_path: Path) -> None:
    (tmp_path / "node_modules/one/deep").mkdir(parents=True)
    (tmp_path / "node_modules/two").mkdir()
    for name in ("node_modules/one/named.js", "node_modules/one/other.js", "node_modules/readme"):
        (tmp_path / name).touch()
    rules = IgnoreRules(os.fsencode(tmp_path))
    rules.force(RelPath(b"node_modules/one/named.js"))
    assert set(walk(tmp_path, rules=rules)) == {b"node_modules", b"node_modules/one", b"node_modules/one/named.js"}


def test_one_level_is_listed_as_a_walk_gives_it(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/file").touch()
    listed = list(list_directory(os.fsencode(tmp_path), RelPath(b"a"), None))
    assert {each.path for each in listed} == {b"a/b", b"a/file"}
    assert {each.path: each for each in listed}.items() <= walk(tmp_path).items()


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A directory of somebody for whom permissions count."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))
    directory.chmod(0o755)
    root = os.geteuid() == 0
    if root:
        os.chown(directory, 65534, 65534)
        os.seteuid(65534)
    try:
        yield directory
    finally:
        if root:
            os.seteuid(0)
        shutil.rmtree(directory)


def test_R6_an_unreadable_directory_is_unknown_and_not_empty(nobody: Path) -> None:
    (nobody / "closed").mkdir()
    (nobody / "closed/file").touch()
    (nobody / "open").mkdir()
    (nobody / "closed").chmod(0)
    try:
        found = walk(nobody)
        assert (found[b"closed"].kind, found[b"closed"].reason) == (Kind.UNKNOWN, "unreadable")
        assert found[b"open"].kind == Kind.DIR
        assert walk(nobody, b"closed")[b"closed"].kind == Kind.UNKNOWN
    finally:
        (nobody / "closed").chmod(0o700)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no /proc")
def test_another_file_system_is_said_and_not_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.stat("/").st_dev
    if os.stat("/proc").st_dev == here:
        pytest.skip("/proc is no file system of its own here")

    class OnlyProc:
        """Rules that leave out everything but one mount."""

        def leaves_out(self, path: bytes, is_dir: bool) -> bool:
            return path.split(b"/")[0] != b"proc"

        def listed(self, directory: bytes, names: set[bytes]) -> None:
            """Nothing to learn."""

    monkeypatch.setattr(scanning, "root_identity", lambda root: (here, 2))
    found = list(scan(b"/", RelPath(b""), OnlyProc()))  # type: ignore[arg-type]
    assert [(each.path, each.kind, each.reason) for each in found] == [(b"proc", Kind.UNKNOWN, "another file system")]


def test_R6_a_root_that_is_missing_or_replaced_is_an_error_and_not_an_empty_tree(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with pytest.raises(NotFoundError):
        walk(root)
    (root / "d").mkdir(parents=True)

    def replace(directory: RelPath) -> None:
        if directory == b"d":
            root.rename(tmp_path / "away")
            root.mkdir()

    with pytest.raises(NotFoundError):
        list(scan(os.fsencode(root), RelPath(b""), None, replace))


def test_a_tree_deeper_than_paths_and_recursion_allow_is_walked_with_few_descriptors(tmp_path: Path) -> None:
    depth, most = 1200, 0
    fd = os.open(tmp_path, os.O_RDONLY)
    for number in range(depth):
        for name in (b"d", b"z"):
            os.mkdir(name, dir_fd=fd)
        os.close(os.open(b"f%d" % number, os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        below = os.open(b"d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    before, count = open_files(), 0
    for each in scan(os.fsencode(tmp_path), RelPath(b""), None):
        count += 1
        if count % 500 == 0:
            most = max(most, open_files())
        assert each.kind in (Kind.DIR, Kind.FILE)
    assert count == 3 * depth
    assert most - before <= 70
    assert open_files() == before
    shutil.rmtree(tmp_path / "z")
    _remove_deep(tmp_path)


def _remove_deep(root: Path) -> None:
    """rmtree recurses; so bring each level up to the root and remove it there."""
    while (root / "d").exists():
        (root / "d").rename(root / "gone")
        if (root / "gone/d").exists():
            (root / "gone/d").rename(root / "d")
        shutil.rmtree(root / "gone")


def test_a_walk_that_is_given_up_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "a/b/c/d").mkdir(parents=True)
    (tmp_path / "a/b/c/file").touch()
    before = open_files()
    walked = scan(os.fsencode(tmp_path), RelPath(b""), None)
    next(walked)
    walked.close()
    assert open_files() == before


def test_the_identity_of_a_root(tmp_path: Path) -> None:
    seen = os.stat(tmp_path)
    assert root_identity(os.fsencode(tmp_path)) == (seen.st_dev, seen.st_ino)
    (tmp_path / "file").touch()
    assert root_identity(os.fsencode(tmp_path / "file")) is None
    assert root_identity(os.fsencode(tmp_path / "nothing")) is None
