"""A journal without a daemon, and an observer that tells what a test has it tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.journaling import Blind, Journal


@pytest.fixture
def blind() -> Blind:
    return Blind()


@pytest.fixture
def journal(tmp_path: Path, blind: Blind) -> Iterator[Journal]:
    made = Journal(tmp_path, blind)
    yield made
    made.close()
