"""`status`: am I protected, first; then sessions, store and daemon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mulligan.client.render.amounts import ago, counted, duration, size, tokens
from mulligan.client.render.checkpoints import what
from mulligan.client.render.text import Palette, cells, cut, pad, visible
from mulligan.session_ids import short_session

LABEL = 11
DOT = " · "
#: State of a project that is not protected → why, and the next command.
_UNPROTECTED = {
    "paused": ("is paused", "mulligan project resume {path}"),
    "missing": ("is not there", "mulligan project list"),
    "excluded": ("is excluded", "mulligan project add {path}"),
    "found": ("is too large to be added on its own", "mulligan project add {path}"),
}


def status_lines(
    status: dict[str, Any], directory: str, now: float, width: int, palette: Palette, short: Callable[[str], str]
) -> list[str]:
    """The whole text of `status`; `directory` is what was asked about, `short` shows a path."""
    daemon, project = status.get("daemon") or {}, status.get("project")
    lines = [_protection(status, directory, now, width, palette, short)]
    if project:
        for session in sessions_of(status, project)[:5]:
            lines.append(_line("session", session_words(session), width, palette))
        lines.append(_line("store", _store(status.get("store") or {}, now), width, palette))
    lines.append(_line("daemon", _daemon(daemon, status, bool(project)), width, palette))
    lines += problems(status, now, palette)
    return lines


def _line(label: str, words: list[str], width: int, palette: Palette, style: str = "dim") -> str:
    """A labelled line; what does not fit is dropped from the right."""
    kept = list(words)
    while len(kept) > 1 and LABEL + cells(DOT.join(kept)) > width:
        kept.pop()
    return palette.paint(pad(label, LABEL), style) + cut(DOT.join(kept), width - LABEL)


def sessions_of(status: dict[str, Any], project: dict[str, Any]) -> list[dict[str, Any]]:
    """The sessions of one project, as they come: newest first."""
    sessions: list[dict[str, Any]] = status.get("sessions") or []
    return [item for item in sessions if item.get("project_path", project.get("path")) == project.get("path")]


def _protection(
    status: dict[str, Any],
    directory: str,
    now: float,
    width: int,
    palette: Palette,
    short: Callable[[str], str],
) -> str:
    project = status.get("project")
    if not project:
        reason = _sentence(str(status.get("reason") or f"{short(directory)} is nobody's project"))
        step = visible(str(status.get("hint") or f"mulligan project add {short(directory)}"))
        return _not_protected(reason, step, width, palette)
    path, state = short(str(project.get("path", directory))), str(project.get("state", "watching"))
    if state == "baseline":
        progress = project.get("progress") or {}
        done, total = int(progress.get("done") or 0), int(progress.get("total") or 0)
        read = f"{done:,} of {counted(total, 'file')} read" if total else f"{counted(done, 'file')} read"
        return _line("baseline:", [f"{path}  {read}", "not yet complete"], width, palette, "look")
    reason, step = project.get("reason"), project.get("hint")
    if state != "watching" or project.get("protected") is False:
        why, command = _UNPROTECTED.get(state, (f"is {visible(state)}", "mulligan project list"))
        text = f"{path} {why}." if not reason else _sentence(f"{path}: {reason}")
        return _not_protected(text, visible(str(step)) if step else command.format(path=path), width, palette)
    words = [counted(int(project.get("files") or 0), "file"), f"captured {ago(project.get('last_capture'), now)}"]
    if (count := _count(project.get("checkpoints"))) is not None:
        words.append(counted(count, "checkpoint"))
    if newest := newest_words(project, now):
        words[-1:] = [f"{words[-1]}, newest {newest}"]
    return _line("protected:", [f"{path}  {words[0]}", *words[1:]], width, palette, "safe")


def newest_words(project: dict[str, Any], now: float) -> str:
    """`"fix login" 4 min ago`, or nothing."""
    newest = project.get("newest") or project.get("newest_checkpoint")
    if not isinstance(newest, dict):
        return ""
    text = visible(what(newest))
    return (f'"{cut(text, 24)}" ' if text else "") + ago(newest.get("timestamp"), now)


def _sentence(text: str) -> str:
    return visible(text).rstrip(".") + "."


def _count(value: Any) -> int | None:
    if isinstance(value, int):
        return value
    return len(value) if isinstance(value, list) else None


def _not_protected(reason: str, step: str, width: int, palette: Palette) -> str:
    gap = "\n  " if cells(reason) + cells(step) + 19 > width else "    "
    return palette.paint("NOT protected:", "loss") + f" {reason}{gap}{step}"


def session_words(session: dict[str, Any]) -> list[str]:
    """`s9f3c21  smart`, `6 prompts`, `23 calls`, `184k tokens`, `at work`."""
    metadata = session.get("metadata") or {}
    head = (
        f"{short_session(visible(str(session.get('id', '?'))))}  {visible(str(session.get('strategy') or ''))}".rstrip()
    )
    words = [head, counted(int(session.get("prompts") or 0), "prompt"), counted(int(session.get("calls") or 0), "call")]
    if total := metadata.get("total_tokens"):
        words.append(f"{tokens(int(total))} tokens")
    if session.get("at_work"):
        words.append("at work")
    return words


def _store(store: dict[str, Any], now: float) -> list[str]:
    words = [size(store.get("bytes") or 0)]
    if budget := store.get("budget_bytes"):
        words[0] += f" of {size(budget)}"
    if objects := store.get("objects"):
        words.append(counted(int(objects), "object"))
    if drill := store.get("last_drill"):
        words.append(f"restorable: {drill['restorable']} of {drill['total']}, drill {ago(drill['time'], now)}")
    return words


def _daemon(daemon: dict[str, Any], status: dict[str, Any], inside: bool) -> list[str]:
    projects = [item for item in status.get("projects") or [] if item.get("state") != "excluded"]
    words = [visible(str(daemon.get("version", "?"))), f"up {duration(daemon.get('uptime_seconds') or 0)}"]
    words.append(counted(len(projects), "project") + ("" if inside or not projects else " (mulligan project list)"))
    if memory := daemon.get("rss_bytes"):
        words.append(size(memory))
    lost = sum(int(project.get("overflows") or 0) for project in projects)
    if inside or lost:
        words.append("1 overflow" if lost == 1 else f"{lost} overflows")
    return words


def problems(status: dict[str, Any], now: float, palette: Palette) -> list[str]:
    """Warnings, gaps and the last error, one a line."""
    lines = []
    project = status.get("project") or {}
    for warning in status.get("warnings") or []:
        text = str(warning.get("message") or warning) if isinstance(warning, dict) else str(warning)
        lines.append(palette.paint(pad("warning", LABEL), "look") + visible(text))
    if gaps := project.get("gaps"):
        last = gaps[-1] if isinstance(gaps[-1], dict) else {}
        why = f" ({visible(str(last['reason']))})" if last.get("reason") else ""
        text = f"{counted(len(gaps), 'time')} nobody watched, last until {ago(last.get('end'), now)}{why}"
        lines.append(palette.paint(pad("gaps", LABEL), "dim") + text)
    if error := (status.get("daemon") or {}).get("last_error"):
        text = str(error.get("message") or error) if isinstance(error, dict) else str(error)
        lines.append(palette.paint(pad("last error", LABEL), "loss") + visible(text))
    return lines
