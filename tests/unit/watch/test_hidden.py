"""Counting what the rules hide, by real directories."""

from __future__ import annotations

import os
from pathlib import Path

from mulligan.model import RelPath
from mulligan.watch.hidden import Share, Summary
from mulligan.watch.ignore import IgnoreRules
from mulligan.watch.scan import list_directory, scan

ROOT = RelPath(b"")


def make(root: Path, *paths: str) -> bytes:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"")
    return os.fsencode(root)


def scanned(root: bytes, rules: IgnoreRules) -> Summary:
    rules.hidden.begin()
    list(scan(root, ROOT, rules))
    return rules.hidden.summary()


def test_a_hidden_directory_counts_one_and_version_control_nothing(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("data/\n*.log\n")
    root = make(tmp_path, ".git/HEAD", "data/1", "data/2", "sub/a.log", "sub/b.log", "sub/c", "node_modules/x")
    found = scanned(root, IgnoreRules(root))
    assert found.ignored == 4
    assert found.top == Share(1, 4, ".gitignore: data/", 1), "of .gitignore, data, sub and node_modules"
    assert found.tree == Share(3, 4, ".gitignore: *.log", 2)


def test_what_was_counted_before_is_not_counted_again(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.log\n")
    root = make(tmp_path, "a.log", "sub/b.log", "gone/c.log")
    rules = IgnoreRules(root)
    assert [scanned(root, rules).ignored for _ in range(2)] == [3, 3]
    make(tmp_path, "sub/d.log")
    (tmp_path / "gone" / "c.log").unlink()
    (tmp_path / "gone").rmdir()
    list(list_directory(root, RelPath(b"sub"), rules))
    assert rules.hidden.summary().ignored == 4, "a directory that is listed alone is counted anew"
    assert scanned(root, rules).ignored == 3
    assert rules.judge(RelPath(b"a.log"), False)
    assert rules.hidden.summary().ignored == 3, "to ask is not to meet"


def test_most_is_more_than_half_of_the_top_or_of_the_whole(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("/*\n!/.gitignore\n")
    root = make(tmp_path, "a", "b", ".git/HEAD")
    found = scanned(root, IgnoreRules(root))
    assert found.most(captured=1) == ("top", Share(2, 3, ".gitignore: /*", 2))
    (tmp_path / ".gitignore").write_text("*.o\n*.d\n")
    root = make(tmp_path, *(f"src/{n}{end}" for n in range(4) for end in (".c", ".o")), "src/0.d")
    found = scanned(root, IgnoreRules(root))
    assert found.most(captured=6) is None
    assert found.most(captured=4) == ("tree", Share(5, 9, ".gitignore: *.o", 4))
    (tmp_path / ".gitignore").write_text("")
    root = make(tmp_path, *(f"{name}/x" for name in ("node_modules", ".venv", ".tox", "__pycache__", ".nox")))
    assert scanned(root, IgnoreRules(root)).most(captured=1) is None, "no line says so"
