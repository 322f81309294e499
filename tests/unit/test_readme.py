"""What the README and the other documents say exists, exists."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import msgspec
import pytest

from mulligan import errors
from mulligan.client.main import commands_of
from mulligan.client.overview import names
from mulligan.config import Config
from mulligan.paths import places
from mulligan.project.settings import STRATEGIES

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "daemon/mulligan"
DOCUMENTS = [ROOT / "README.md", ROOT / "daemon/DESIGN.md", SOURCE / "store/FORMAT.md", SOURCE / "control/PROTOCOL.md"]
README = DOCUMENTS[0].read_text(encoding="utf-8")
DESIGN = DOCUMENTS[1].read_text(encoding="utf-8")


def section(heading: str) -> str:
    """The text below a heading of the README, up to the next one of its rank."""
    return re.split(rf"^#+ {heading}$", README, flags=re.MULTILINE)[1].split("\n## ")[0]


def test_the_exit_codes_are_those_of_the_errors() -> None:
    described = {
        (int(number), code)
        for number, cell in re.findall(r"^\| (\d+) \|([^|]*)\|", section("Exit codes"), re.MULTILINE)
        for code in re.findall(r"`(\w+)`", cell) or [""]
    }
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.MulliganError)]
    assert described == {(kind.exit_status, kind.code) for kind in kinds} | {(0, ""), (130, "")}


def spoken_commands(text: str) -> set[tuple[str, ...]]:
    """The words behind `mulligan` in code: (command,) or (command, part)."""
    code = [*re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL), *re.findall(r"`([^`\n]+)`", text)]
    lines = [line for block in code for line in block.splitlines()]
    found = [re.search(r"(?:^|[(&|] ?|\$ )mulligan ([a-z]+)(?: ([a-z]+(?:-[a-z]+)*))?", line) for line in lines]
    chained = [re.findall(r"[&|] mulligan ([a-z]+)(?: ([a-z]+(?:-[a-z]+)*))?", line) for line in lines]
    single = {match.groups(default="") for match in found if match}
    return single | {pair for pairs in chained for pair in pairs}


@pytest.mark.parametrize("document", DOCUMENTS, ids=[path.name for path in DOCUMENTS])
def test_every_command_named_exists(document: Path) -> None:
    for command, part in spoken_commands(document.read_text(encoding="utf-8")):
        assert command in names(), f"mulligan {command}"
        parts = commands_of(command)
        assert "" in parts or part in parts, f"mulligan {command} {part}"


def test_the_readme_names_commands_at_all() -> None:
    assert len({command for command, _ in spoken_commands(README)}) > 12


@pytest.mark.parametrize("document", DOCUMENTS, ids=[path.name for path in DOCUMENTS])
def test_every_link_leads_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_every_configuration_key_is_named_with_its_default() -> None:
    described = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section("Configuration"), re.MULTILINE))
    assert set(described) == {field.name for field in msgspec.structs.fields(Config)}
    plain = {name: text for name, text in described.items() if text in ("true", "false", "[]", "null")}
    expected = {True: "true", False: "false", (): "[]", None: "null"}
    for name, text in plain.items():
        assert expected[getattr(Config(), name)] == text, name


def test_every_strategy_is_described() -> None:
    described = re.findall(r"^\| `(\w+)`[^|]*\|", section("Strategies").split("###")[0], re.MULTILINE)
    assert sorted(described) == sorted(STRATEGIES)


def test_the_places_are_the_places() -> None:
    for platform in ("linux", "darwin"):
        found = places({"HOME": "/h", "XDG_RUNTIME_DIR": "$XDG_RUNTIME_DIR"}, platform)
        for path in (found.config_file, found.data_dir, found.state_dir):
            assert path.replace("/h/", "~/") in section("Where it lies")


def test_the_first_command_is_one_line_and_the_second_is_what_ci_runs() -> None:
    first, second = re.findall(r"^```sh\n(.*?)```", section("Start"), re.MULTILINE | re.DOTALL)[:2]
    assert len(first.splitlines()) == len(second.splitlines()) == 1
    assert second.strip() in (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert (ROOT / second.strip()).stat().st_mode & 0o100


def test_every_source_file_named_in_the_design_exists() -> None:
    named = set(re.findall(r"`((?:[\w.]+/)*[\w{},]+\.(?:py|md|yaml|service|socket|plist))`", DESIGN))
    assert len(named) > 40
    for name in named:
        options = re.search(r"\{(.+)\}", name)
        expanded = [name.replace(options[0], one) for one in options[1].split(",")] if options else [name]
        for one in expanded:
            assert any((base / one).exists() for base in (SOURCE, ROOT)), one


def test_every_test_named_in_the_design_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", DESIGN))
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert named
    assert {name for name in named if f"def {name}(" not in sources} == set()
