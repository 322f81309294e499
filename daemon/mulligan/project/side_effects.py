"""What was done since some moment that no restore of files undoes: of the agents' calls and of a person's own commands.

A list of warnings from the words of shell commands (`session/ledger.py`), and never a promise.
"""

from __future__ import annotations

from typing import NamedTuple

from mulligan.clock import FOREVER
from mulligan.project.naming import Position
from mulligan.session.ledger import effects
from mulligan.store.catalogue import Catalogue
from mulligan.transcript.events import PromptKind

#: A call that began longer ago is not looked for among those that still ran.
_LONGEST = 86_400_000_000_000


class SideEffect(NamedTuple):
    """One command with an effect beyond the files. `call` is empty for a person's own; `moment` is journal time."""

    kind: str
    command: str
    moment: int
    session: str
    call: str
    is_error: bool


def stood_at(position: Position) -> int:
    """When a position's tree stood."""
    made = position.checkpoint
    return made.timestamp if made is not None and position.cut.moment == FOREVER else position.cut.moment


def side_effects_since(catalogue: Catalogue, project: int, moment: int) -> list[SideEffect]:
    """What a project's sessions did after a moment, or were about to do then, newest first."""
    calls = catalogue.db.execute(
        "select command, start, session, id, is_error from call where project = ? and start > ? and command != ''"
        " and (end = 0 or end > ?)",
        (project, moment - _LONGEST, moment),
    ).fetchall()
    own = catalogue.db.execute(
        "select text, moment, session, '', 0 from prompt where kind = ? and moment >= ?"
        " and session in (select id from session where project = ?)",
        (str(PromptKind.BASH), moment, project),
    ).fetchall()
    return [
        SideEffect(effect.kind, effect.command, start, session, call, bool(is_error))
        for command, start, session, call, is_error in sorted([*calls, *own], key=lambda row: -row[1])
        for effect in effects(command)
    ]
