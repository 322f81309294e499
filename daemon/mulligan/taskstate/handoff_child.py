"""Makes the text of a hand-off in a process of its own: transcripts may be long, and redacting takes its time.

What it is given holds secrets and goes over a pipe; what it answers does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mulligan import child
from mulligan.taskstate.handoff import Handoff, cleaned, render
from mulligan.taskstate.secrets import Redactor
from mulligan.transcript.outcomes import exit_codes

_NICENESS = 10
#: A longer line is passed over, as by whoever follows a transcript.
_LONGEST_LINE = 16 << 20


class Question(msgspec.Struct, frozen=True):
    """A hand-off, the transcripts of its session, and environment files whose values are secrets."""

    handoff: Handoff
    transcripts: list[str]
    environment_files: list[bytes]


class Answer(msgspec.Struct, frozen=True):
    """The text."""

    text: str


def text_of(question: Question) -> str:
    """The text of a hand-off: exit codes are looked up, then secrets are taken out, then it is written."""
    handoff = question.handoff
    wanted = {ran.call for ran in handoff.commands} | {failed.call for failed in handoff.failures}
    codes: dict[str, int] = {}
    for path in question.transcripts:
        codes |= exit_codes(_lines_of(path), wanted)
    replace = msgspec.structs.replace
    told = replace(
        handoff,
        commands=[replace(ran, exit=str(codes.get(ran.call, ran.exit))) for ran in handoff.commands],
        failures=[replace(failed, exit=str(codes.get(failed.call, failed.exit))) for failed in handoff.failures],
    )
    return render(cleaned(told, Redactor(question.environment_files)))


def _lines_of(path: str) -> Iterator[bytes]:
    """The lines of a transcript; one that is gone or cannot be read has none."""
    try:
        with open(path, "rb") as file:
            while line := file.readline(_LONGEST_LINE):
                yield line
    except OSError:
        return


if __name__ == "__main__":
    child.answer(Answer(text_of(child.question(Question, _NICENESS))))
