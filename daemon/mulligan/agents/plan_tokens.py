"""Tokens of plans: what changes much is first shown, and done only for who brings the token of what was shown. Pure.

A token is random, holds for one use and some minutes, and is bound to the tool, its arguments, the project, the session
and to what the plan would do: the daemon refuses if that has become something else. It lives in this process alone.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mulligan.errors import RefusedError

LIFETIME_SECONDS = 600
_MOST = 32


@dataclass(frozen=True, slots=True)
class Planned:
    """What a token stands for. `params` are those of the daemon's method, in which names have become ids."""

    tool: str
    arguments: str
    project: str
    session: str
    params: dict[str, Any]
    digest: str
    expires: float


class PlanTokens:
    """The tokens that were given out and not used yet; more than 32 are never kept."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._planned: dict[str, Planned] = {}

    def issue(
        self, tool: str, arguments: dict[str, Any], project: str, session: str, params: dict[str, Any], digest: str
    ) -> str:
        """A token for a plan that was shown."""
        token = secrets.token_urlsafe(12)
        expires = self._clock() + LIFETIME_SECONDS
        self._planned[token] = Planned(tool, _plain(arguments), project, session, params, digest, expires)
        while len(self._planned) > _MOST:
            del self._planned[next(iter(self._planned))]
        return token

    def redeem(self, token: str, tool: str, arguments: dict[str, Any], project: str, session: str) -> Planned:
        """What a token stands for; it is used up by that, also if it does not fit. Raises RefusedError."""
        planned = self._planned.pop(token, None)
        again = f"call {tool} without a token for a plan and a new one"
        if planned is None or planned.expires <= self._clock():
            raise RefusedError("no plan has this token: it was used, has expired or is not of this server", hint=again)
        if (planned.tool, planned.arguments) != (tool, _plain(arguments)):
            raise RefusedError(
                f"the token is of another plan, {planned.tool} {planned.arguments}; nothing was changed", hint=again
            )
        if (planned.project, planned.session) != (project, session):
            raise RefusedError("the token is of another session or project; nothing was changed", hint=again)
        return planned


def _plain(arguments: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in arguments.items() if key != "token"}, sort_keys=True)
