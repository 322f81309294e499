"""The README's list of tools is the server's, with every argument and every limit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mulligan.agents.plan_tokens import LIFETIME_SECONDS
from mulligan.agents.resources import RESOURCES
from mulligan.agents.tool import ANSWER_CHARACTERS, TEXT_CHARACTERS
from mulligan.agents.tools import TOOLS

README = (Path(__file__).resolve().parents[3] / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("\n## For agents: MCP\n")[2].partition("\n## ")[0]
ROWS = {
    name: (re.findall(r"`(\w+)`", arguments), words)
    for name, arguments, words in re.findall(r"^\| `(\w+)` \|([^|]*)\|([^|]*)\|$", SECTION, re.MULTILINE)
}


def test_every_tool_is_listed_and_no_other() -> None:
    assert list(ROWS) == list(TOOLS)


@pytest.mark.parametrize("name", list(TOOLS))
def test_its_arguments_are_those_of_the_tool(name: str) -> None:
    arguments, words = ROWS[name]
    assert sorted(arguments) == sorted(TOOLS[name].parameters)
    assert ("by plan and token" in words) is ("token" in TOOLS[name].parameters) is TOOLS[name].destructive


def test_the_limits_are_the_limits() -> None:
    for number in (ANSWER_CHARACTERS, TEXT_CHARACTERS, 2 * ANSWER_CHARACTERS, ANSWER_CHARACTERS // 2):
        assert re.search(rf"\b{number:,}\b", SECTION), number
    assert f"for {LIFETIME_SECONDS // 60} minutes" in SECTION


def test_the_resources_are_named() -> None:
    assert set(re.findall(r"`(mulligan://\w+)`", SECTION)) == set(RESOURCES)
