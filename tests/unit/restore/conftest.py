"""A project directory beside a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.restoring import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
