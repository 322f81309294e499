"""What git holds, read from its files."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mulligan.journal.gitstore import GitStore

OLD = 1_600_000_000


@contextmanager
def opened(root: Path) -> Iterator[GitStore]:
    store = GitStore(os.fsencode(root))
    try:
        yield store
    finally:
        store.close()


def git(cwd: Path, *words: str) -> None:
    config = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *config, *words], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "top"
    (root / "sub").mkdir(parents=True)
    git(root, "init", "-q", ".")
    (root / "a").write_bytes(b"one\n")
    (root / "sub/b").write_bytes(b"two\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    return root


def test_a_loose_object_is_held_since_its_file_was_written(repository: Path) -> None:
    with opened(repository) as store:
        assert abs(store.held_since(b"one\n") / 1e9 - time.time()) < 60
        assert store.held_since(b"another\n") == 0


def test_a_packed_object_is_held_as_long_as_its_pack(repository: Path) -> None:
    git(repository, "gc", "-q")
    for pack in (repository / ".git/objects/pack").iterdir():
        os.utime(pack, (OLD, OLD))
    with opened(repository) as store:
        assert store.held_since(b"one\n") == OLD * 10**9


def test_what_a_repository_borrows_is_held(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-qs", str(repository), "clone")
    with opened(tmp_path / "clone") as store:
        assert store.held_since(b"one\n") > 0
        assert store.tracks(b"a")


def test_paths_are_those_of_the_project_below_the_top(repository: Path) -> None:
    with opened(repository) as store:
        assert (store.tracks(b"sub/b"), store.tracks(b"sub"), store.tracks(b"c")) == (True, False, False)
    with opened(repository / "sub") as store:
        assert (store.there, store.tracks(b"b"), store.tracks(b"a")) == (True, True, False)
        assert store.held_since(b"two\n") > 0


def test_a_worktree_has_an_index_of_its_own_and_the_common_objects(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    git(tmp_path / "tree", "rm", "-q", "a")
    with opened(tmp_path / "tree") as store:
        assert (store.tracks(b"a"), store.tracks(b"sub/b")) == (False, True)
        assert store.held_since(b"one\n") > 0


def test_without_a_repository_nothing_is_held(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        assert (store.there, store.held_since(b"one\n"), store.tracks(b"a")) == (False, 0, False)


@pytest.mark.parametrize("damage", [b"", b"DIRC", b"DIRC\0\0\0\7\0\0\0\1", bytes(range(256))])
def test_what_cannot_be_read_counts_as_not_held(repository: Path, damage: bytes) -> None:
    git(repository, "gc", "-q")
    for file in [repository / ".git/index", *(repository / ".git/objects/pack").iterdir()]:
        file.chmod(0o600)
        file.write_bytes(damage)
    with opened(repository) as store:
        assert (store.tracks(b"a"), store.held_since(b"one\n")) == (False, 0)


def test_nothing_of_git_is_written(repository: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        paths = list((repository / ".git").rglob("*"))
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in paths}

    before = state()
    with opened(repository) as store:
        assert store.tracks(b"a") and store.held_since(b"one\n")
    assert state() == before


def test_the_versions_of_a_path_are_those_of_the_index_and_of_some_commits(repository: Path) -> None:
    def head() -> str:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    first = head()
    (repository / "sub/b").write_bytes(b"2nd\n")
    git(repository, "commit", "-qam", "two")
    second = head()
    git(repository, "gc", "-q")
    (repository / "sub/b").write_bytes(b"3rd\n")
    git(repository, "add", "-A")
    with opened(repository / "sub") as store:
        assert [*store.versions(b"b", [second, first, second], 4)] == [b"3rd\n", b"2nd\n", b"two\n"]
        assert [*store.versions(b"b", [second, first], 5)] == []
        assert [*store.versions(b"b", ["0" * 40, "no commit", ""], 4)] == [b"3rd\n"]
        assert [*store.versions(b"none", [first], 4)] == []
        assert store.tracks(b"b") and not store.tracks(b"none")
    with opened(repository.parent) as store:
        assert [*store.versions(b"top/a", [first], 4)] == []
