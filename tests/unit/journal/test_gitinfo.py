"""Commit and branch, read from the files of real repositories and compared with what git says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mulligan.journal.gitinfo import read_git
from mulligan.model import Git

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "someone@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(root: Path, *words: str) -> str:
    command = ["git", "-c", "protocol.file.allow=always", *words]
    return subprocess.run(command, cwd=root, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    git(root, "commit", "-q", "--allow-empty", "-m", "one")
    return root


def said(root: Path) -> Git:
    return Git(head=git(root, "rev-parse", "HEAD"), branch=git(root, "branch", "--show-current"))


def test_a_branch_with_its_commit(repository: Path) -> None:
    assert read_git(str(repository)) == said(repository)


def test_a_branch_with_a_slash_in_its_name(repository: Path) -> None:
    git(repository, "switch", "-q", "-c", "feature/one")
    found = read_git(str(repository))
    assert found == said(repository)
    assert found is not None
    assert found.branch == "feature/one"


def test_a_packed_branch(repository: Path) -> None:
    git(repository, "branch", "amain")
    git(repository, "branch", "main2")
    git(repository, "tag", "-a", "-m", "a tag", "v1")
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/main").exists()
    assert read_git(str(repository)) == said(repository)


def test_a_loose_branch_wins_over_a_packed_one(repository: Path) -> None:
    git(repository, "pack-refs", "--all")
    git(repository, "commit", "-q", "--allow-empty", "-m", "two")
    assert read_git(str(repository)) == said(repository)


def test_a_detached_head_has_no_branch(repository: Path) -> None:
    git(repository, "switch", "-q", "--detach")
    assert read_git(str(repository)) == Git(head=git(repository, "rev-parse", "HEAD"))


def test_a_branch_without_a_commit_has_no_head(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    assert read_git(str(tmp_path)) == Git(branch="main")


def test_a_worktree(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    git(tmp_path / "side", "commit", "-q", "--allow-empty", "-m", "two")
    assert read_git(str(tmp_path / "side")) == said(tmp_path / "side")
    git(repository, "pack-refs", "--all")
    assert read_git(str(tmp_path / "side")) == said(tmp_path / "side")


def test_a_submodule(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    git(other, "submodule", "--quiet", "add", str(repository), "sub")
    assert read_git(str(other / "sub")) == said(other / "sub")


def test_a_directory_below_the_top_level(repository: Path) -> None:
    (repository / "a/b").mkdir(parents=True)
    assert read_git(str(repository / "a/b")) == said(repository)


def test_no_repository(tmp_path: Path) -> None:
    assert read_git(str(tmp_path)) is None


@pytest.mark.parametrize("head", ["", "ref: ../../../etc/passwd", "ref: refs/../x", "ref: /etc/passwd", "x" * 5000])
def test_a_damaged_head_is_no_repository(repository: Path, head: str) -> None:
    (repository / ".git/HEAD").write_text(head)
    assert read_git(str(repository)) is None


def test_a_reference_that_leads_to_itself_has_no_commit(repository: Path) -> None:
    (repository / ".git/refs/heads/main").write_text("ref: refs/heads/main\n")
    assert read_git(str(repository)) == Git(branch="main")


def test_a_fifo_in_place_of_head_is_not_waited_for(repository: Path) -> None:
    (repository / ".git/HEAD").unlink()
    os.mkfifo(repository / ".git/HEAD")
    assert read_git(str(repository)) is None


def test_reading_writes_nothing(repository: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in repository.rglob("*")}

    before = state()
    read_git(str(repository))
    assert state() == before
