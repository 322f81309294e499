"""What the rules leave out and what they keep, beside what git says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mulligan.model import RelPath
from mulligan.watch.ignore import IgnoreRules, is_client_temporary

TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# made by a test\n"


def rules(root: Path, *, exclude: tuple[str, ...] = (), include: tuple[str, ...] = ()) -> IgnoreRules:
    return IgnoreRules(os.fsencode(root), exclude=exclude, include=include)


def left_out(ours: IgnoreRules, *paths: str) -> list[str]:
    """Those of the paths that are left out; a trailing slash says that one is a directory."""
    return [path for path in paths if ours.judge(RelPath(os.fsencode(path.rstrip("/"))), path.endswith("/"))]


def write(path: Path, text: str | bytes = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize("name", [".git", ".hg", ".svn", ".jj", ".bzr", "CVS", "_darcs"])
def test_version_control_is_always_left_out(tmp_path: Path, name: str) -> None:
    write(tmp_path / ".mulliganignore", f"!{name}\n!*\n")
    ours = rules(tmp_path, include=(name,))
    assert left_out(ours, f"{name}/", f"{name}/HEAD", f"sub/{name}/", f"sub/{name}/x/y") == [
        f"{name}/", f"{name}/HEAD", f"sub/{name}/", f"sub/{name}/x/y",
    ]  # fmt: skip


def test_the_git_file_of_a_work_tree_is_left_out(tmp_path: Path) -> None:
    assert left_out(rules(tmp_path), ".git", "module/.git") == [".git", "module/.git"]


def test_W10_defaults_leave_out_only_what_is_derived(tmp_path: Path) -> None:
    kept = [
        "pkg/", "bin/", "vendor/", "vendor/lib.go", "build/", "dist/", "target/", "out/", "env/", "lib/",
        "yarn.lock", "schema.sql", ".github/", ".github/workflows/ci.yml", ".env", ".vscode/", ".gitignore",
        ".mulliganignore", "node_modules", "__pycache__", "notes.tmp", "a~",
    ]  # fmt: skip
    derived = ["node_modules/", "web/node_modules/", "node_modules/x/index.js", "src/__pycache__/", ".venv/", ".tox/"]
    assert left_out(rules(tmp_path), *kept, *derived) == derived


def test_W10_a_pattern_build_does_not_take_rebuild(tmp_path: Path) -> None:
    write(tmp_path / ".gitignore", "build\n")
    assert left_out(rules(tmp_path), "rebuild.py", "build.py", "builds/", "build/", "sub/build", "build/x") == [
        "build/", "sub/build", "build/x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("manifest", "name"), [("Cargo.toml", "target"), ("pom.xml", "target"), ("build.gradle.kts", "build")]
)
def test_a_manifest_beside_it_says_that_a_directory_is_derived(tmp_path: Path, manifest: str, name: str) -> None:
    write(tmp_path / "made" / manifest)
    (tmp_path / "drivers").mkdir()
    assert left_out(rules(tmp_path), f"made/{name}/", f"made/{name}/x", f"drivers/{name}/", f"made/{name}") == [
        f"made/{name}/", f"made/{name}/x",
    ]  # fmt: skip


@pytest.mark.parametrize("manifest", ["package.json", "pyproject.toml", "setup.py"])
def test_a_manifest_that_proves_nothing_leaves_nothing_out(tmp_path: Path, manifest: str) -> None:
    write(tmp_path / manifest)
    assert left_out(rules(tmp_path), "build/", "dist/", "target/") == []


def test_a_cache_directory_says_so_with_the_real_signature(tmp_path: Path) -> None:
    write(tmp_path / "build/CACHEDIR.TAG", TAG)
    write(tmp_path / "dist/CACHEDIR.TAG", "Signature: something else")
    assert left_out(rules(tmp_path), "build/", "build/a/b", "dist/", "dist/a") == ["build/", "build/a/b"]


def test_a_virtual_environment_of_any_name_says_so(tmp_path: Path) -> None:
    write(tmp_path / "env/pyvenv.cfg", "home = /usr/bin\n")
    write(tmp_path / "conf/pyvenv.cfg", "nothing of the kind\n")
    assert left_out(rules(tmp_path), "env/", "conf/") == ["env/"]


def test_nothing_below_a_directory_that_is_left_out_is_taken_in_again(tmp_path: Path) -> None:
    write(tmp_path / ".gitignore", "logs/\n")
    write(tmp_path / "logs/.gitignore", "!*\n")
    write(tmp_path / "logs/.mulliganignore", "!*\n")
    assert left_out(rules(tmp_path), "logs/", "logs/today.log") == ["logs/", "logs/today.log"]


def test_the_deeper_ignore_file_decides(tmp_path: Path) -> None:
    write(tmp_path / ".gitignore", "*.log\n")
    write(tmp_path / "keep/.gitignore", "!*.log\n")
    assert left_out(rules(tmp_path), "a.log", "keep/a.log", "keep/deep/a.log") == ["a.log"]


def test_mulliganignore_takes_in_what_git_leaves_out_and_leaves_out_what_git_keeps(tmp_path: Path) -> None:
    write(tmp_path / ".gitignore", "build/\n*.log\n")
    write(tmp_path / ".mulliganignore", "!build/\n!node_modules/\nhuge.bin\n")
    assert left_out(rules(tmp_path), "build/", "build/x", "node_modules/", "a.log", "huge.bin", "sub/huge.bin") == [
        "a.log", "huge.bin", "sub/huge.bin",
    ]  # fmt: skip


def test_the_configuration_leaves_out_and_takes_in(tmp_path: Path) -> None:
    write(tmp_path / ".gitignore", "dist/\n")
    ours = rules(tmp_path, exclude=("*.iso", "media/"), include=("dist/", "keep.iso"))
    assert left_out(ours, "a.iso", "keep.iso", "media/", "dist/", "dist/x") == ["a.iso", "media/"]


def test_the_exclude_file_of_a_repository_counts_also_through_a_linked_work_tree(tmp_path: Path) -> None:
    repository, linked = tmp_path / "main", tmp_path / "linked"
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", "-C", str(repository)]
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(linked)], check=True, capture_output=True)
    write(repository / ".git/info/exclude", "secret.txt\n")
    assert left_out(rules(repository), "secret.txt", "other.txt") == ["secret.txt"]
    assert left_out(rules(linked), "secret.txt", "other.txt") == ["secret.txt"]


def test_a_path_that_a_tool_named_is_taken_in_and_nothing_beside_it(tmp_path: Path) -> None:
    write(tmp_path / ".gitignore", "build/\n*.log\n")
    ours = rules(tmp_path)
    assert left_out(ours, "build/", "build/out/a.txt", "today.log") == ["build/", "build/out/a.txt", "today.log"]
    assert ours.force(RelPath(b"build/out/a.txt"))
    assert ours.force(RelPath(b"today.log"))
    assert left_out(
        ours,
        "build/",
        "build/out/",
        "build/out/a.txt",
        "build/out/b.txt",
        "build/b",
        "build/sub/",
        "today.log",
        "x.log",
    ) == ["build/out/b.txt", "build/b", "build/sub/", "x.log"]


@pytest.mark.parametrize("path", [b".git/config", b"sub/.git/HEAD", b".mulligan-17~/a", b"nested/file", b""])
def test_what_is_not_the_projects_own_cannot_be_forced(tmp_path: Path, path: bytes) -> None:
    ours = IgnoreRules(os.fsencode(tmp_path), boundaries=[b"nested"])
    assert not ours.force(RelPath(path))


def test_the_root_of_another_project_is_a_boundary(tmp_path: Path) -> None:
    ours = IgnoreRules(os.fsencode(tmp_path), boundaries=[os.fsencode(tmp_path / "sub/other"), b"/elsewhere"])
    assert left_out(ours, "sub/", "sub/other/", "sub/other/x", "sub/others/") == ["sub/other/", "sub/other/x"]
    ours.set_boundaries([])
    assert left_out(ours, "sub/other/", "sub/other/x") == []


def test_the_directory_of_a_restore_is_left_out_in_the_root_alone(tmp_path: Path) -> None:
    assert left_out(rules(tmp_path), ".mulligan-12ab~/", ".mulligan-12ab~/x", "sub/.mulligan-1~/", ".mulligan-x/") == [
        ".mulligan-12ab~/", ".mulligan-12ab~/x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "temporary"),
    [
        (b"a.py.tmp.4711.0af3", True), (b".env.tmp.1.9", True), (b"a.tmp", False), (b"a.tmp.x.0a", False),
        (b".tmp.1.a", False), (b"a.tmp.1.a.py", False), (b"a.tmp.1.", False),
    ],
)  # fmt: skip
def test_the_clients_temporary_names(name: bytes, temporary: bool) -> None:
    assert is_client_temporary(name) is temporary


def test_reload_says_whether_anything_can_have_changed(tmp_path: Path) -> None:
    ours = rules(tmp_path)
    assert left_out(ours, "sub/a.log", "sub/") == []
    write(tmp_path / "sub/.gitignore", "*.log\n")
    assert ours.is_ignore_file(RelPath(b"sub/.gitignore"))
    assert left_out(ours, "sub/a.log") == []
    assert ours.reload(RelPath(b"sub"))
    assert left_out(ours, "sub/a.log", "sub/deep/a.log", "a.log") == ["sub/a.log", "sub/deep/a.log"]
    assert not ours.reload(RelPath(b"sub"))
    write(tmp_path / "sub/CACHEDIR.TAG", TAG)
    assert ours.is_ignore_file(RelPath(b"sub/CACHEDIR.TAG"))
    assert ours.reload(RelPath(b"sub"))
    assert left_out(ours, "sub/") == ["sub/"]
    (tmp_path / "sub/CACHEDIR.TAG").unlink()
    (tmp_path / "sub/.gitignore").unlink()
    assert ours.reload(RelPath(b"sub"))
    assert left_out(ours, "sub/", "sub/a.log") == []


def test_why_names_the_file_and_the_line(tmp_path: Path) -> None:
    write(tmp_path / "sub/.gitignore", "/*\n")
    assert rules(tmp_path).why(RelPath(b"sub/a"), False) == "sub/.gitignore: /*"
    assert rules(tmp_path).why(RelPath(b"a"), False) == ""
    assert rules(tmp_path).why(RelPath(b"node_modules"), True) == "a derived directory by its name"


def test_an_ignore_file_that_is_no_regular_file_says_nothing_and_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "sub").mkdir()
    write(tmp_path / "outside", "*\n")
    (tmp_path / "sub/.gitignore").symlink_to(tmp_path / "outside")
    assert left_out(rules(tmp_path), "a", "sub/a") == []


def test_names_are_bytes(tmp_path: Path) -> None:
    write(tmp_path / ".gitignore", b"caf\xe9*\n")
    ours = rules(tmp_path)
    assert ours.judge(RelPath(b"caf\xe9.txt"), False)
    assert not ours.judge(RelPath("café.txt".encode()), False)
    assert not ours.judge(RelPath(b"new\nline"), False)


def test_a_path_a_thousand_levels_deep_is_judged(tmp_path: Path) -> None:
    write(tmp_path / ".gitignore", "*.log\n")
    deep = b"/".join([b"d"] * 3000)
    ours = rules(tmp_path)
    assert ours.judge(RelPath(deep + b"/a.log"), False)
    assert not ours.judge(RelPath(deep + b"/a.txt"), False)
