"""What a person calls a position in a project's history, and which one that is.

Ids and prefixes, ordinals, `@` and its ancestors, `latest`, ages and times, `prompt:N`, `row:N` (just behind one row of
the journal). A name from outside is judged by its grammar first; what fits nothing is answered with what is near.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mulligan.clock import NANOSECONDS, from_rfc3339
from mulligan.errors import AmbiguousError, NotFoundError, UsageError
from mulligan.model import Checkpoint, Cut
from mulligan.session_ids import short_session
from mulligan.store.catalogue import Catalogue, Project

_ID = re.compile(r"[a-z][a-z0-9]{3,31}\Z")
_ORDINAL = re.compile(r"#?([0-9]{1,12})\Z")
_ANCESTOR = re.compile(r"@(?:(\^+)|~([0-9]{1,6}))?\Z")
_AGE = re.compile(r"([0-9]{1,9})\s*(s|sec|min|m|h|d|w)(?:\s+ago)?\Z")
_PROMPT = re.compile(r"prompt:(-?[0-9]{1,9})\Z")
_ROW = re.compile(r"row:([0-9]{1,18})\Z")
_UNITS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
#: A session that was active within this time may be the one that is meant.
RECENT = 24 * 3600 * NANOSECONDS
#: Characters of an odd name that an error repeats.
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Position:
    """A cut that was named, and the checkpoint there, if one was taken; `label` is how to speak of it.

    Just before a prompt, `session` and `prompt` (the key) say which.
    """

    cut: Cut
    checkpoint: Checkpoint | None
    label: str
    session: str = ""
    prompt: str = ""


class Names:
    """The names of one project's positions. `now` is the moment to count ages from."""

    def __init__(self, catalogue: Catalogue, project: Project, now: int) -> None:
        self._catalogue, self._project, self._now = catalogue, project, now

    def position(self, name: str, session: str = "") -> Position:
        """The position that a name means. Raises NotFoundError, AmbiguousError, UsageError."""
        if match := _PROMPT.match(name):
            return self._prompt(int(match[1]), session)
        if match := _ROW.match(name):
            return self._row(int(match[1]), name)
        found = self.checkpoint(name)
        return Position(found.cut, found, str(found.ordinal))

    def moment(self, name: str) -> int:
        """The journal time that an age ("5m", "2 h ago") or a time means. Raises UsageError."""
        name = name.strip()
        if match := _AGE.match(name):
            return self._now - int(match[1]) * _UNITS[match[2]] * NANOSECONDS
        try:
            return from_rfc3339(name)
        except ValueError:
            raise UsageError(f'"{name[:_SHOWN]}" is no age and no time', hint="such as 5m, 2h, 3d or a date") from None

    def checkpoint(self, name: str) -> Checkpoint:
        """The checkpoint that a name means. Raises NotFoundError, AmbiguousError, UsageError."""
        name = name.strip()
        if match := _ORDINAL.match(name):
            return self._one("ordinal = ?", (int(match[1]),), name)
        if match := _ANCESTOR.match(name):
            steps = len(match[1] or "") or int(match[2] or 0)
            return self._ancestor(steps, name)
        if name == "latest":
            return self._one("1", (), name)
        if match := _AGE.match(name):
            return self._not_after(self._now - int(match[1]) * _UNITS[match[2]] * NANOSECONDS, name)
        if _PROMPT.match(name) or _ROW.match(name):
            raise UsageError(
                f'"{name}" is a position, not a checkpoint', hint="mulligan restore and diff take it, fork a prompt"
            )
        if _ID.match(name):
            return self._prefix(name)
        try:
            return self._not_after(from_rfc3339(name), name)
        except ValueError:
            raise self._unknown(name) from None

    def _one(self, where: str, arguments: tuple[object, ...], name: str) -> Checkpoint:
        found = self._catalogue.checkpoints(f"project = ? and {where}", (self._project.id, *arguments), 1)
        if not found:
            raise self._unknown(name)
        return found[0]

    def _not_after(self, moment: int, name: str) -> Checkpoint:
        found = self._catalogue.db.execute(
            "select id from checkpoint where project = ? and timestamp <= ?"
            " order by timestamp desc, ordinal desc limit 1",
            (self._project.id, moment),
        ).fetchone()
        made = self._catalogue.checkpoint(found[0]) if found else None
        if made is None:
            raise self._unknown(name)
        return made

    def _ancestor(self, steps: int, name: str) -> Checkpoint:
        found = self._catalogue.checkpoint(self._catalogue.current(self._project.id))
        for _ in range(steps):
            found = self._catalogue.checkpoint(found.parent) if found is not None else None
        if found is None:
            raise self._unknown(name)
        return found

    def _prefix(self, name: str) -> Checkpoint:
        found = self._catalogue.checkpoints("project = ? and id >= ? and id < ?", (self._project.id, name, name + "~"))
        if not found:
            raise self._unknown(name)
        exact = [made for made in found if made.id == name]
        if len(found) > 1 and not exact:
            raise AmbiguousError(
                f'"{name}" fits {len(found)} checkpoints',
                hint="give more characters: " + ", ".join(made.id for made in found[:8]),
                candidates=[{"id": made.id, "ordinal": made.ordinal} for made in found],
            )
        return (exact or found)[0]

    def prompt(self, number: int, session: str = "") -> tuple[str, int, str, int]:
        """(session, ordinal, key, moment) of a session's Nth prompt; negative numbers count from the last one.

        Raises NotFoundError, and AmbiguousError if no session is named and several were active in the last day.
        """
        session = session or self.only_recent_session()
        order = "ordinal = ?" if number > 0 else "ordinal = (select max(ordinal) from prompt where session = ?) + ?"
        arguments = (session, number) if number > 0 else (session, session, number + 1)
        found = self._catalogue.db.execute(
            f"select key, moment, ordinal from prompt where session = ? and {order}", arguments
        ).fetchone()
        if found is None or number == 0:
            raise NotFoundError(
                f"no prompt {number} in session {session or '(none)'}", hint=f"mulligan session show {session}".rstrip()
            )
        key, moment, ordinal = found
        return session, int(ordinal), str(key), int(moment)

    def _prompt(self, number: int, session: str) -> Position:
        session, ordinal, key, moment = self.prompt(number, session)
        taken = self._catalogue.checkpoints("project = ? and event_key = ?", (self._project.id, key), 1)
        if taken:
            return Position(taken[0].cut, taken[0], f"prompt:{ordinal}", session, key)
        if moment < self._project.thinned:
            raise self._dropped(moment, f"prompt:{ordinal}")
        return Position(Cut(self._project.last_seq, moment), None, f"prompt:{ordinal}", session, key)

    def _dropped(self, moment: int, name: str) -> NotFoundError:
        """No checkpoint was taken at a moment whose versions were dropped."""
        near = self._catalogue.checkpoints("project = ? and timestamp <= ?", (self._project.id, moment), 1)
        hint = f"the checkpoint before it is {near[0].ordinal}" if near else "mulligan list"
        return NotFoundError(f"{name} is no position any more: versions of then were dropped", hint=hint)

    def _row(self, seq: int, name: str) -> Position:
        """The moment at which a version was captured, as `history` names it where no checkpoint holds it."""
        query = "select 1 from row where seq = ? and project = ?"
        if self._catalogue.db.execute(query, (seq, self._project.id)).fetchone() is None:
            raise NotFoundError(f'no version "{name}" in this project', hint="mulligan history PATH names them")
        return Position(Cut(seq), None, name)

    def only_recent_session(self) -> str:
        """The most recently active session that has prompts. Raises AmbiguousError for several in the last day."""
        found = self._catalogue.db.execute(
            "select id, last from session where project = ?"
            " and exists (select 1 from prompt where prompt.session = session.id) order by last desc",
            (self._project.id,),
        ).fetchall()
        recent = [session for session, last in found if last >= self._now - RECENT]
        if len(recent) > 1:
            candidates = [{"id": session, "first_words": self.first_words(session)} for session in recent]
            shown = ", ".join(f'{short_session(item["id"])} "{item["first_words"]}"' for item in candidates[:5])
            raise AmbiguousError(
                f"{len(recent)} sessions were active in the last 24 h", hint=f"add --session: {shown}",
                candidates=candidates,
            )  # fmt: skip
        return str(found[0][0]) if found else ""

    def first_words(self, session: str) -> str:
        """How a session's first prompt begins."""
        found = self._catalogue.db.execute(
            "select text from prompt where session = ? order by ordinal limit 1", (session,)
        ).fetchone()
        return " ".join(str(found[0]).split()[:6]) if found else ""

    def session(self, name: str) -> str:
        """The id of a session of this project by its id or unique prefix; "" means the most recently active one."""
        if not name:
            found = self._catalogue.db.execute(
                "select id from session where project = ? order by last desc limit 1", (self._project.id,)
            ).fetchone()
            return str(found[0]) if found else ""
        found_all = self._catalogue.db.execute(
            "select id from session where project = ? and id >= ? and id < ? order by last desc",
            (self._project.id, name, name + "\U0010ffff"),
        ).fetchall()
        if not found_all:
            raise NotFoundError(f'no session "{name}" in this project', hint="mulligan session list")
        if len(found_all) > 1 and (name,) not in found_all:
            raise AmbiguousError(
                f'"{name}" fits {len(found_all)} sessions', hint="give more characters",
                candidates=[{"id": session} for (session,) in found_all],
            )  # fmt: skip
        return name if (name,) in found_all else str(found_all[0][0])

    def _unknown(self, name: str) -> NotFoundError:
        newest = self._catalogue.checkpoints("project = ?", (self._project.id,), 200)
        near = [made for made in newest if made.id[:1] == name[:1]][:1]
        nearest = [*near, *newest[:1]]
        shown = [f"{made.id[:4]} ({made.ordinal})" for made in near] + [
            f"{made.ordinal} (newest)" for made in newest[:1]
        ]
        where = self._project.path.decode("utf-8", "replace")
        shown_name = name if len(name) <= _SHOWN else name[:_SHOWN] + "…"
        return NotFoundError(
            f'no checkpoint "{shown_name}" in {where}',
            hint=("nearest: " + ", ".join(shown) + ".    " if shown else "") + "mulligan list",
            nearest=[{"id": made.id, "ordinal": made.ordinal} for made in nearest],
        )
