"""Ids of sessions: whose they are, and as people are shown them. Standard library only: the client uses it."""

from __future__ import annotations

#: A project's session that is no agent's.
MANUAL_SESSION = "manual"
_SHORT = 8
#: OpenCode's ids begin with a prefix and their time: those of one day have the same first eight characters.
_OPENCODE, _OPENCODE_SHORT = "ses_", 12


def is_opencode(session: str) -> bool:
    """Whether a session is OpenCode's."""
    return session.startswith(_OPENCODE)


def short_session(session: str) -> str:
    """The beginning of an id that tells it from others, and by which it can be named."""
    return session[: _OPENCODE_SHORT if is_opencode(session) else _SHORT]
