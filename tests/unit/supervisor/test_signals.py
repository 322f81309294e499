"""Signals become calls on the loop, and stop being them afterwards."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from mulligan.supervisor.signals import handled


@pytest.mark.parametrize(
    ("number", "expected"),
    [(signal.SIGTERM, "stop"), (signal.SIGINT, "stop"), (signal.SIGHUP, "reload")],
)
def test_a_signal_calls_its_callback(number: signal.Signals, expected: str) -> None:
    async def test() -> None:
        calls: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        with handled(loop, stop=lambda: calls.put_nowait("stop"), reload=lambda: calls.put_nowait("reload")):
            for _ in range(2):
                os.kill(os.getpid(), number)
                assert await asyncio.wait_for(calls.get(), 5) == expected

    asyncio.run(test())


def test_afterwards_the_process_has_its_own_handlers_again() -> None:
    async def test() -> None:
        with handled(asyncio.get_running_loop(), stop=lambda: None, reload=lambda: None):
            pass

    asyncio.run(test())
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
