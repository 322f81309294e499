"""A hand-off: what the next session, agent or person has to know, as one Markdown text.

Pure. The text is derived: it is made anew from what is stored whenever that changed, and never read back. Its size is
bounded, whatever it is made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mulligan.clock import to_rfc3339
from mulligan.taskstate.secrets import Redactor

#: Raised with every change that somebody who reads hand-offs by program would notice.
FORMAT = "mulligan/handoff@1"
MARKER = f"<!-- {FORMAT} -->"
#: Characters of a whole text; bytes may be four times as many.
LIMIT = 200_000
COMMANDS, FILES, FAILURES = 200, 300, 50
_COMMAND_LENGTH, _TEXT_LENGTH, _ITEMS = 4_000, 4_000, 200
_MEANT = ("title", "status", "goal", "steps", "next", "blockers", "decisions", "files", "notes")
_DONE = ("done", "completed")
#: What would end a line, or make a terminal do something.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_BACKTICKS = re.compile(r"`+")
UNKNOWN = "unknown"


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A shell command; `exit` is a number, `running`, or unknown."""

    command: str
    start: int
    exit: str = UNKNOWN
    call: str = ""
    by_subagent: bool = False
    is_error: bool = False


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """A file as the session left it. `checkpoint` is the last complete one that holds this version; "" if none does."""

    path: str
    did: str
    checkpoint: str = ""
    ordinal: int = 0
    changed_since: bool = False


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """A call that failed, of whose command or file no later call succeeded."""

    tool: str
    what: str
    start: int
    call: str = ""
    exit: str = UNKNOWN


class Handoff(msgspec.Struct, frozen=True, kw_only=True):
    """What a hand-off tells. Times are journal time; `more_*` count what was left out because there was too much."""

    session: str
    project: str
    made: int
    state: dict[str, Any] | None = None
    synthesized: bool = False
    updated_at: int = 0
    commands: list[Ran] = []
    more_commands: int = 0
    files: list[Changed] = []
    more_files: int = 0
    failures: list[Failed] = []
    more_failures: int = 0


def cleaned(handoff: Handoff, redactor: Redactor) -> Handoff:
    """The same without secrets: every text in it that is not mulligan's own has gone through the redactor."""
    redact, replace = redactor.redact, msgspec.structs.replace
    return replace(
        handoff,
        project=redact(handoff.project),
        state=redactor.redact_value(handoff.state),
        commands=[replace(ran, command=redact(ran.command)) for ran in handoff.commands],
        files=[replace(changed, path=redact(changed.path)) for changed in handoff.files],
        failures=[replace(failed, tool=redact(failed.tool), what=redact(failed.what)) for failed in handoff.failures],
    )


def render(handoff: Handoff) -> str:
    """The text, at most `LIMIT` characters; give what was `cleaned`."""
    text = "\n".join(_lines(handoff)) + "\n"
    note = "\n\n(cut here: it would be longer than a hand-off may be)\n"
    return text if len(text) <= LIMIT else text[: LIMIT - len(note)] + note


def _lines(handoff: Handoff) -> Iterator[str]:
    state = handoff.state or {}
    title = _line(state.get("title")) if handoff.state and not handoff.synthesized else ""
    yield from (MARKER, f"# Hand-off: {title or 'a session without a task state'}", "")
    yield f"* session: {_code(handoff.session)}"
    yield f"* project: {_name(handoff.project)}"
    yield f"* written: {to_rfc3339(handoff.made)}, by mulligan from what it has stored; changes of this file are lost"
    if handoff.state is None:
        yield "* task state: none was saved"
    elif handoff.synthesized:
        yield "* task state: none was saved; a placeholder stands for it since the conversation was compacted"
    else:
        yield f"* task state: saved {to_rfc3339(handoff.updated_at)}, status {_code(state.get('status') or 'active')}"
        yield from _state(state)
    yield from _failures(handoff)
    yield from _commands(handoff)
    yield from _files(handoff)


def _state(state: dict[str, Any]) -> Iterator[str]:
    if state.get("goal"):
        yield from ("", "## Goal", "", _paragraph(state["goal"]))
    if isinstance(steps := state.get("steps"), list) and steps:
        yield from ("", "## Steps", "")
        for step in steps[:_ITEMS]:
            status = step.get("status") or "pending" if isinstance(step, dict) else "pending"
            text = step.get("text") or step.get("id") if isinstance(step, dict) else step
            suffix = "" if status in (*_DONE, "pending") else f" ({_line(status)})"
            yield f"- [{'x' if status in _DONE else ' '}] {_line(text)}{suffix}"
        yield from _left(len(steps) - _ITEMS)
    for key, heading in (("next", "Next"), ("blockers", "Blockers"), ("decisions", "Decisions"), ("files", "Files"),
                         ("notes", "Notes")):  # fmt: skip
        if value := state.get(key):
            yield from ("", f"## {heading}", "", *_value(value))
    for key, value in state.items():
        if key not in _MEANT:
            yield from ("", f"## {_line(key)}", "", *_value(value))


def _value(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield _paragraph(value)
        return
    if isinstance(value, list):
        for item in value[:_ITEMS]:
            yield f"- {_line(item if isinstance(item, str) else _json(item))}"
        yield from _left(len(value) - _ITEMS)
        return
    yield from _fenced(_json(value), "json")


def _failures(handoff: Handoff) -> Iterator[str]:
    yield from ("", "## Open failures", "")
    if not handoff.failures:
        yield "None."
    for failed in handoff.failures:
        code = f", exit {failed.exit}" if failed.tool == "Bash" else ""
        yield f"- {to_rfc3339(failed.start)} {_line(failed.tool)}{code}: {_code(failed.what)}"
    yield from _left(handoff.more_failures)


def _commands(handoff: Handoff) -> Iterator[str]:
    yield from ("", "## Commands", "")
    if not handoff.commands:
        yield "None were run."
        return
    if handoff.more_commands:
        yield f"The last {len(handoff.commands)}; {handoff.more_commands} before them are left out."
        yield ""
    for ran in handoff.commands:
        who = ", by a subagent" if ran.by_subagent else ""
        code = ran.exit if ran.exit != UNKNOWN or not ran.is_error else "unknown, it failed"
        yield f"{to_rfc3339(ran.start)}, exit {code}{who}"
        yield from _fenced(ran.command, "sh", _COMMAND_LENGTH)


def _files(handoff: Handoff) -> Iterator[str]:
    yield from ("", "## Files that the session changed", "")
    if not handoff.files:
        yield "None."
    for changed in handoff.files:
        where = (
            f"checkpoint {changed.ordinal} ({changed.checkpoint})" if changed.checkpoint else "no complete checkpoint"
        )
        since = "; changed since then by somebody else" if changed.changed_since else ""
        yield f"- {_name(changed.path)}: {changed.did}, held by {where}{since}"
    yield from _left(handoff.more_files)


def _left(count: int) -> Iterable[str]:
    return [f"- and {count} more"] if count > 0 else []


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()


def _visible(text: str) -> str:
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def _line(value: Any) -> str:
    """A text on one line, without what Markdown or HTML would make more of than a text."""
    text = _visible(_cut(" ".join(str("" if value is None else value).split()), _TEXT_LENGTH))
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", text)


def _paragraph(value: Any) -> str:
    """A text of several lines: each stands for itself, and begins nothing."""
    lines = _cut(str(value), _TEXT_LENGTH).strip().splitlines()
    return "  \n".join(re.sub(r"^(\s*)([-+=~>]|\d+[.)])", r"\1\\\2", _line(line)) for line in lines)


def _code(value: Any) -> str:
    """A text as code on one line, of which nothing is escaped but control characters."""
    return _ticked(_visible(_cut(" ".join(str(value).split()), 500)))


def _name(path: str) -> str:
    """A path as code on one line, with every blank that it has."""
    return _ticked(_visible(_cut(path, _TEXT_LENGTH)).replace("\n", "\\n").replace("\t", "\\t"))


def _ticked(text: str) -> str:
    ticks = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))
    space = " " if text.strip("` ") != text else ""
    return f"{ticks}{space}{text or ' '}{space}{ticks}"


def _fenced(text: str, language: str, most: int = _TEXT_LENGTH) -> Iterator[str]:
    shown = _visible(_cut(text, most))
    fence = "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(shown)), default=0))
    yield from (f"{fence}{language}", shown, fence)
