"""How calls ended, as the lines of their results tell: exit codes, which are in the text that the model is given.

Pure, and asked only of calls that are to be shown: what is stored of a call is whether it failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from mulligan.transcript.parse import decode_line

#: What every line with a result has; looking for it is a tenth of decoding the line.
_MARK = b"tool_result"
_EXIT = re.compile(r"(?:Error: )?Exit code (\d{1,3})\b")


def exit_codes(lines: Iterable[bytes], wanted: set[str]) -> dict[str, int]:
    """Exit codes of shell commands by the ids of their calls, where a transcript's lines say them; never raises.

    A failure bears its code in the text. A command of which the client tells the output and no oddity ended with 0:
    it makes an error of any other code, or explains it.
    """
    found: dict[str, int] = {}
    for line in lines:
        if _MARK not in line:
            continue
        try:
            data = decode_line(line)
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue
        if isinstance(data, dict):
            for block in _results(data):
                tool = block.get("tool_use_id")
                if isinstance(tool, str) and tool in wanted:
                    code = _code(block, data.get("toolUseResult"))
                    if code is not None:
                        found[tool] = code
    return found


def _results(data: dict[str, Any]) -> list[dict[str, Any]]:
    message = data.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]


def _code(block: dict[str, Any], told: Any) -> int | None:
    if block.get("is_error") is True:
        for text in (_text(block.get("content")), told):
            if isinstance(text, str) and (said := _EXIT.match(text)):
                return int(said[1])
        return None
    if not isinstance(told, dict) or "stdout" not in told:
        return None
    odd = ("interrupted", "returnCodeInterpretation", "backgroundTaskId", "isAsync")
    return None if any(told.get(key) for key in odd) else 0


def _text(content: Any) -> Any:
    if isinstance(content, list):
        return next((block.get("text") for block in content if isinstance(block, dict) and "text" in block), None)
    return content
