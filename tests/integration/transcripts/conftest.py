"""Every test here has a daemon that looks at transcripts already."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.daemon import DaemonFixture
from support.live_transcript import started


@pytest.fixture
def daemon(daemon_factory: Callable[..., DaemonFixture]) -> DaemonFixture:
    """A running daemon that looks at transcripts already."""
    return started(daemon_factory)
