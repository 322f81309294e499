"""What the house asks of every file, so that nobody has to remember it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXTS = (".py", ".md", ".toml", ".yaml", ".json", ".service", ".socket", ".plist", ".sh", "")
LONGEST_FILE = 500
LONGEST_FUNCTION = 60
#: Names that say nothing of what is inside.
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base", "shared", "stuff"}
#: Places of the machines that this was built on; written in parts, so that this file does not hold them.
MACHINE_PATHS = re.compile("|".join([r"(?<![\w.])/" + "work/", "/" + r"root/\.\w", r"/tmp/" + r"v3\d+"]))


def sources(*directories: str) -> Iterator[Path]:
    """Our own Python files."""
    for directory in directories:
        for path in sorted((ROOT / directory).rglob("*.py")):
            if not {"__pycache__", "fixtures", "node_modules"} & set(path.parts):
                yield path


def texts() -> Iterator[Path]:
    """Every text file that is ours."""
    for name in ("daemon", "tests", "config", "systemd", "launchd", ".ci"):
        for path in sorted((ROOT / name).rglob("*")):
            hidden = {"__pycache__", "fixtures", "node_modules"} & set(path.parts) or ".mypy_cache" in path.parts
            if path.is_file() and not hidden and path.suffix in TEXTS:
                yield path
    yield from (ROOT / name for name in ("README.md", "pyproject.toml"))


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_file_is_too_long() -> None:
    long = {shown(path): len(path.read_text().splitlines()) for path in sources("daemon", "tests")}
    assert {path: lines for path, lines in long.items() if lines > LONGEST_FILE} == {}


def test_no_function_is_too_long() -> None:
    long = {}
    for path in sources("daemon"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    long[f"{shown(path)}:{node.name}"] = lines
    assert long == {}


def test_no_module_has_an_empty_name() -> None:
    assert [shown(path) for path in sources("daemon", "tests") if path.stem in EMPTY_NAMES] == []


def test_no_file_names_a_directory_of_one_machine() -> None:
    found = [
        f"{shown(path)}:{number}: {line.strip()[:100]}"
        for path in texts()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE_PATHS.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("path", ["/" + "work/x", "/" + "root/.cache", "/tmp/" + "v311/bin"])
def test_the_search_for_machine_paths_finds_one(path: str) -> None:
    assert MACHINE_PATHS.search(f"see {path} for more")


def test_every_module_and_public_name_says_what_it_is() -> None:
    bare = []
    for path in sources("daemon"):
        tree = ast.parse(path.read_text())
        if not ast.get_docstring(tree):
            bare.append(shown(path))
        for node in tree.body:
            named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if named and not node.name.startswith("_") and not ast.get_docstring(node):
                bare.append(f"{shown(path)}:{node.name}")
    assert bare == []
