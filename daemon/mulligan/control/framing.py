"""One JSON-RPC message per line: UTF-8, no newline inside, at most 1 MiB. Standard library only."""

from __future__ import annotations

import json
from typing import Any

PROTOCOL_VERSION = 1
#: Bytes of one message with its newline.
LINE_LIMIT = 1 << 20
#: Replies may be longer than requests: a diff or a list of 100,000 files is one line.
REPLY_LIMIT = 1 << 30

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
APPLICATION_ERROR = -32000


def encode(message: dict[str, Any]) -> bytes:
    """One line. Lone surrogates (foreign input) are written as escapes, so the line is always valid UTF-8."""
    try:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
    except RecursionError:
        from mulligan.control.deep_json import dumps  # noqa: PLC0415 - timelines of thousands only

        return dumps(message).encode() + b"\n"


class LineTooLongError(ValueError):
    """A message is over the limit; the connection cannot be read on."""


class LineReader:
    """Splits a stream into lines: feed bytes, take the whole lines. Memory is bounded by the limit."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their newlines. Raises LineTooLongError."""
        *whole, rest = data.split(b"\n")
        lines = []
        for piece in whole:
            self._parts.append(piece)
            line = b"".join(self._parts)
            if len(line) >= self._limit:
                raise LineTooLongError
            lines.append(line)
            self._parts, self._size = [], 0
        self._parts.append(rest)
        self._size += len(rest)
        if self._size >= self._limit:
            raise LineTooLongError
        return lines
