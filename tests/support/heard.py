"""What a request to the model's API says of the conversation, without what the client adds of its own each time."""

from __future__ import annotations

import re
from typing import Any

from support.mock_api import text_of

#: (role, kind, what was said, called or answered)
Said = tuple[str, str, Any]
#: What newer clients say of a file that was written in this very process.
_FILE_STATE = re.compile(r" \(file state is current in your context[^)]*\)")
_REMINDER = "<system-reminder>"
#: What a newer client answers in the place of a call that has no result.
INTERRUPTED = "[Tool call interrupted"


def heard(request: dict[str, Any]) -> list[Said]:
    """The conversation before the prompt that a request is about."""
    said = [block for message in request["messages"] for block in _blocks(message)]
    last = max(number for number, (role, kind, text) in enumerate(said) if _is_prompt(role, kind, text))
    return said[:last]


def _is_prompt(role: str, kind: str, text: Any) -> bool:
    return role == "user" and kind == "text" and "[[" in text


def _blocks(message: dict[str, Any]) -> list[Said]:
    role, content = message["role"], message["content"]
    if role == "system":
        return []
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    found = [(role, str(block["type"]), _value(block)) for block in content]
    return [one for one in found if one[1] != "text" or not one[2].startswith(_REMINDER)]


def _value(block: dict[str, Any]) -> Any:
    match block["type"]:
        case "text":
            return block["text"].strip()
        case "thinking":
            return block["thinking"]
        case "tool_use":
            return block["id"], block["name"], block["input"]
        case _:
            return block["tool_use_id"], _FILE_STATE.sub("", text_of(block["content"])).strip()


def answers(said: list[Said]) -> dict[str, str]:
    """{call: its result} in a conversation; a stand-in for a missing one is none."""
    found = dict(value for _, kind, value in said if kind == "tool_result")
    return {call: text for call, text in found.items() if not text.startswith(INTERRUPTED)}
