"""What git reads outside of a tree leaves out in it what it leaves out for git: judged by git itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mulligan.model import RelPath
from mulligan.watch import repository as repositories
from mulligan.watch.ignore import IgnoreRules
from mulligan.watch.scan import scan

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


class User:
    """A user with a home of their own, and a repository in which everything is tried."""

    def __init__(self, base: Path) -> None:
        self.home, self.top = base / "home", base / "home" / "mono"
        self.top.mkdir(parents=True)
        self.environ = {"HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
        self.git("init", "-q")

    def git(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.top, env=self.environ, capture_output=True, text=True, check=True
        )
        return done.stdout

    def write(self, name: str, text: str = "") -> None:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def rules(self, root: Path) -> IgnoreRules:
        return IgnoreRules(os.fsencode(root), environ=self.environ)

    def agree(self, root: Path) -> list[str]:
        """The files of a directory that are not left out, which are the same for git."""
        theirs = set(filter(None, self.git("ls-files", "-o", "--exclude-standard", "-z", ".", cwd=root).split("\0")))
        found = scan(os.fsencode(root), RelPath(b""), self.rules(root))
        ours = {os.fsdecode(each.path) for each in found if os.path.isfile(os.path.join(os.fsencode(root), each.path))}
        assert ours == theirs
        return sorted(ours)


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


FILES = ("a.log", "a.tmp", "a.c", "deep/a.log", "deep/a.c", "out/x", "local", ".env", "keep.tmp")


def project_in(user: User, name: str = "mono/apps/shop") -> Path:
    for file in FILES:
        user.write(f"{name}/{file}")
    return user.home / name


def in_files_above(user: User) -> None:
    user.write("mono/.gitignore", "*.log\n/apps/shop/out/\n/out/\napps/shop/deep/a.c\n")
    user.write("mono/apps/.gitignore", "*.tmp\n!deep/a.log\n/shop/.env\n")
    user.write("mono/apps/shop/.gitignore", "!keep.tmp\n")


def in_the_repositorys_own(user: User) -> None:
    user.write("mono/.git/info/exclude", "/apps/shop/local\n*.tmp\n")
    user.write("mono/apps/.gitignore", "!keep.tmp\n")


def in_the_users_own(user: User) -> None:
    user.write(".config/git/ignore", ".env\n/apps/shop/out\n*.tmp\n")
    user.write("mono/.git/info/exclude", "!keep.tmp\n")


def in_a_file_that_the_configuration_names(user: User) -> None:
    user.write(".config/git/ignore", "*.c\n")
    user.write("mine/ignore", ".env\n")
    (user.home / "linked").symlink_to(user.home / "mine/ignore")
    user.write(".gitconfig", "[Core]\n\tExcludesFile = ~/linked # mine\n")
    user.write(".config/git/config", "[core]\nexcludesfile = ~/nowhere\n")


def in_a_file_that_an_included_configuration_names(user: User) -> None:
    user.write("mine/ignore", "*.log\n")
    user.write("mine/config", f'[core]\nexcludesFile = "{user.home}/mine/ignore"\n')
    user.write(".gitconfig", "[include]\npath = mine/config\n")


def in_a_file_that_the_repositorys_configuration_names(user: User) -> None:
    user.write("mono/mine", "*.c\n")
    user.write(".gitconfig", "[core]\nexcludesFile = ~/nowhere\n")
    user.git("config", "core.excludesFile", "mine")


def nowhere(user: User) -> None:
    user.write(".config/git/ignore", "*\n")
    user.write(".gitconfig", "[core]\nexcludesFile =\n")


PLACES = [
    (in_files_above, ["deep/a.c"]),
    (in_the_repositorys_own, ["a.tmp", "local"]),
    (in_the_users_own, [".env", "a.tmp", "out/x"]),
    (in_a_file_that_the_configuration_names, [".env"]),
    (in_a_file_that_an_included_configuration_names, ["a.log", "deep/a.log"]),
    (in_a_file_that_the_repositorys_configuration_names, ["a.c", "deep/a.c"]),
    (nowhere, []),
]


@pytest.mark.parametrize(("place", "some"), PLACES)
@pytest.mark.parametrize("name", ["mono/apps/shop", "mono"])
def test_W10_rules_outside_of_the_tree_leave_out_what_they_leave_out_for_git(
    user: User, place: Callable[[User], None], some: list[str], name: str
) -> None:
    shop = project_in(user)
    place(user)
    kept = user.agree(user.home / name)
    prefix = os.path.relpath(shop, user.home / name)
    assert kept and not {os.path.normpath(os.path.join(prefix, each)) for each in some} & set(kept)


def test_W10_a_linked_work_tree_has_the_rules_of_its_repository(user: User) -> None:
    user.git("-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "--allow-empty", "-m", "first")
    user.git("worktree", "add", "-q", str(user.home / "linked"))
    shop = project_in(user, "linked/apps/shop")
    user.write("mono/.git/info/exclude", "*.log\n")
    user.write("mono/mine", "*.c\n")
    user.git("config", "core.excludesFile", str(user.home / "mono/mine"))
    user.write("linked/.gitignore", "*.tmp\n")
    assert user.agree(shop) == user.agree(shop)
    assert user.agree(shop) == [".env", "local", "out/x"]
    assert "apps/shop/local" in user.agree(user.home / "linked")


def test_a_repository_inside_has_the_users_rules_as_well(user: User) -> None:
    workspace = user.home / "workspace"
    user.write("workspace/one/a.log")
    user.write("workspace/a.log")
    user.git("init", "-q", str(workspace / "one"))
    user.write(".config/git/ignore", "*.log\n")
    rules = user.rules(workspace)
    assert rules.why(RelPath(b"one/a.log"), False) == f"{user.home}/.config/git/ignore: *.log"
    assert not rules.judge(RelPath(b"a.log"), False), "no repository"


def test_a_directory_that_git_ignores_is_a_project_all_the_same(user: User) -> None:
    scratch = project_in(user, "mono/scratch/try")
    user.write("mono/.gitignore", "*.log\n/scratch/\n")
    assert not user.rules(scratch).judge(RelPath(b"a.c"), False)
    assert not user.rules(scratch).judge(RelPath(b"a.log"), False), "to git it is no part of the repository"
    user.write("mono/.gitignore", "*\n")
    assert not user.rules(scratch).judge(RelPath(b"a.c"), False)
    user.write("mono/.gitignore", "*\n!scratch/\n!try/\n")
    assert user.rules(scratch).judge(RelPath(b"a.c"), False)


def test_a_repository_that_is_none_or_anothers_says_nothing(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = project_in(user)
    user.write("mono/.gitignore", "*.log\n")
    (user.home / "mono/apps/.git").mkdir()
    assert user.rules(shop).judge(RelPath(b"a.log"), False), "an empty directory is no repository"
    theirs = os.geteuid() + 1
    monkeypatch.setattr(repositories.os, "geteuid", lambda: theirs)
    assert not user.rules(shop).judge(RelPath(b"a.log"), False)
    monkeypatch.undo()
    shutil.rmtree(user.top / ".git/refs")
    assert not user.rules(shop).judge(RelPath(b"a.log"), False)


def test_a_configuration_that_is_wrong_or_blocks_says_nothing(user: User) -> None:
    shop = project_in(user)
    user.write(".config/git/ignore", "*.log\n")
    user.write(".gitconfig", "[core\nexcludesFile = x\n")
    assert user.rules(shop).judge(RelPath(b"a.log"), False)
    (user.home / ".gitconfig").unlink()
    os.mkfifo(user.home / ".gitconfig")
    assert user.rules(shop).judge(RelPath(b"a.log"), False)


def test_changes_outside_are_noticed(user: User) -> None:
    shop = project_in(user)
    rules = user.rules(shop)
    assert not rules.judge(RelPath(b"a.log"), False)
    assert not rules.changed_outside()
    for name in ("mono/apps/.gitignore", "mono/.git/info/exclude", ".config/git/ignore"):
        user.write(name, "*.log\n")
        assert rules.changed_outside(), name
        assert rules.reload(RelPath(b""))
        assert rules.judge(RelPath(b"a.log"), False)
        (user.home / name).unlink()
        assert rules.changed_outside(), name
        assert rules.reload(RelPath(b""))
        assert not rules.judge(RelPath(b"a.log"), False)
    user.write("mine", "*.log\n")
    user.git("config", "--global", "core.excludesFile", "~/mine")
    assert rules.changed_outside()
    rules.reload(RelPath(b""))
    user.git("config", "user.name", "n")
    assert not rules.changed_outside(), "the file is another one, and says the same"


def test_what_changed_since_a_moment_is_known(user: User) -> None:
    shop = project_in(user)
    user.write(".config/git/ignore", "*.log\n")
    changed = (user.home / ".config/git/ignore").stat().st_ctime_ns
    assert user.rules(shop).changed_outside_since(changed - 1)
    assert not user.rules(shop).changed_outside_since(changed)
    user.write("mono/.git/info/exclude", "")
    changed = (user.home / "mono/.git/info/exclude").stat().st_ctime_ns
    assert user.rules(shop).changed_outside_since(changed - 1), "also one that says nothing any more"
