"""Progress of a long request: one line on stderr, gone when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

from mulligan.client.render.amounts import coarse, size
from mulligan.client.render.text import cut, visible

#: Seconds between two redraws, so that a fast sender does not keep the terminal busy.
REDRAW = 0.1


def describe(params: dict[str, Any], elapsed: float) -> str:
    """`baseline: 1,200 of 3,210 files · 12.0 MiB · 3.1 MiB/s · 4 s left` from the parameters of a notification."""
    done, total = _number(params.get("done")), _number(params.get("total"))
    parts = []
    if done is not None:
        parts.append(f"{int(done):,} of {int(total):,} files" if total else f"{int(done):,} files")
    if (amount := _number(params.get("bytes"))) is not None:
        parts.append(size(amount))
    if rate := _number(params.get("rate")):
        parts.append(f"{int(rate):,}/s" if amount is None else f"{size(rate)}/s")
    if done and total and done < total and elapsed > 1:
        parts.append(f"{coarse(elapsed * (total - done) / done)} left")
    stage = visible(str(params.get("stage") or "working"))
    return f"{stage}: {' · '.join(parts)}" if parts else stage


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


class Progress:
    """Draws over its own line; leaving the block wipes it."""

    def __init__(self, stream: TextIO, width: int, now: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._width, self._now = stream, width, now
        self._started, self._drawn = now(), -1.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._drawn >= 0:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def show(self, params: dict[str, Any]) -> None:
        """Shows one notification, if the last one is long enough ago."""
        now = self._now()
        if self._drawn >= 0 and now - self._drawn < REDRAW:
            return
        self._drawn = now
        self._stream.write("\r\x1b[K" + cut(describe(params, now - self._started), self._width - 1))
        self._stream.flush()
