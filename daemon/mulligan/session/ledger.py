"""What a shell command did that no restore of files undoes: pushes, publishes, migrations, calls to other hosts.

A list of warnings, judged from words alone, and never a promise: what a script, a makefile or a program of one's own
does is not seen, and a command that is listed may have failed. What only looks is left out, and so is what happens in
the working tree. A command whose quoting cannot be followed is listed as "unclear" if it names a program of the list.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mulligan.session.outward import RULES
from mulligan.session.programs import Run, program_name, programs

UNCLEAR = "unclear"
#: Characters of a command that are shown.
_SHOWN = 120
#: More of one command is not looked at.
_LONGEST = 20_000
_NOTHING_DONE = frozenset(("--help", "--version", "--dry-run", "--dryrun", "--dry-run=client", "--dry-run=server"))
_DJANGO = frozenset(("manage.py", "django-admin"))
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*\Z")
_NAMED = re.compile(r"(?<![\w-])(?:" + "|".join(sorted(map(re.escape, RULES), key=len, reverse=True)) + r")(?![\w-])")


class Effect(NamedTuple):
    """One thing that was done outside of the files: its kind, and the command that did it."""

    kind: str
    command: str


def effects(command: str) -> list[Effect]:
    """What a command line did beyond the files, in its order; each thing once."""
    text = command[:_LONGEST]
    if _NAMED.search(text) is None:
        return []
    runs, whole = programs(text)
    found = [Effect(kind, _shown(" ".join(run.words))) for run in runs if (kind := judge(run))]
    if not whole or len(command) > _LONGEST:
        found.append(Effect(UNCLEAR, _shown(command)))
    return list(dict.fromkeys(found))


def judge(run: Run) -> str:
    """The kind of what one program does beyond the files; "" for nothing that is known."""
    if not run.words:
        return ""
    name, words = program_name(run.words[0]), run.words[1:]
    if _PYTHON.match(name) and words:
        name, words = program_name(words[0]), words[1:]
        if name not in _DJANGO:
            return ""
    elif name == "php" and words[:1] == ["artisan"]:
        name, words = "artisan", words[1:]
    rule = RULES.get(name.split("@")[0] or name)
    if rule is None or not _NOTHING_DONE.isdisjoint(words) or words[:1] == ["help"]:
        return ""
    return rule(words, run.documents)


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
