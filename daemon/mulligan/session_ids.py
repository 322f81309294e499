"""Ids of sessions, as people are shown them. Standard library only: the client uses it."""

from __future__ import annotations

_SHORT = 8
#: OpenCode's ids begin with a prefix and their time: those of one day have the same first eight characters.
_OPENCODE, _OPENCODE_SHORT = "ses_", 12


def short_session(session: str) -> str:
    """The beginning of an id that tells it from others, and by which it can be named."""
    return session[: _OPENCODE_SHORT if session.startswith(_OPENCODE) else _SHORT]
