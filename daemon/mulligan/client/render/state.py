"""A session's task state as a person reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.amounts import ago, counted
from mulligan.client.render.table import Cell, Column, table
from mulligan.client.render.text import cut, pad, visible, word

_LABEL = 11
_STYLES = {"done": "safe", "completed": "safe", "blocked": "loss", "in_progress": "look", "active": "look"}
_FIELDS = ("title", "status", "goal", "steps", "next", "blockers", "decisions", "files", "notes")


def state_lines(state: dict[str, Any], context: Context) -> list[str]:
    """All fields: those with a meaning first, the free ones as JSON."""
    lines: list[str] = []
    for key in [*(key for key in _FIELDS if key in state), *(key for key in state if key not in _FIELDS)]:
        value = state[key]
        if key == "steps" and isinstance(value, list):
            lines += _labelled(key, _steps(value, context), context)
        elif isinstance(value, list) and key in _FIELDS:
            lines += _labelled(key, [visible(_text(item)) for item in value], context)
        else:
            style = "bold" if key == "title" else _STYLES.get(str(value), "") if key == "status" else ""
            shown = _text(value).split("\n") if key in _FIELDS else [_json(value)]
            lines += _labelled(key, [context.palette.paint(visible(text), style) for text in shown], context)
    return lines


def _labelled(label: str, texts: Sequence[str], context: Context) -> list[str]:
    width = max(_LABEL, len(visible(label)) + 2)
    heads = [pad(visible(label), width), *[" " * width] * (len(texts) - 1)]
    return [context.palette.paint(head, "dim") + text for head, text in zip(heads, texts, strict=False)]


def _steps(steps: list[Any], context: Context) -> list[str]:
    found = [step if isinstance(step, dict) else {"text": step} for step in steps]
    states = [visible(str(step.get("status") or "pending")) for step in found]
    width = max([0, *map(len, states)])
    return [
        context.palette.paint(pad(state, width), _STYLES.get(state, "dim"))
        + f"  {visible(str(step.get('id', '')))}  {visible(str(step.get('text', '')))}".rstrip()
        for step, state in zip(found, states, strict=True)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return visible(json.dumps(value, ensure_ascii=False))


def head_line(result: JsonObject, context: Context) -> str:
    """Whose state it is, and since when."""
    session = visible(str(result.get("session_id") or ""))[:8]
    when = ago(result.get("updated_at"), context.now()) if result.get("updated_at") else ""
    if not result.get("exists", True):
        return f"session {session}: no task state was saved"
    marked = ", a placeholder that mulligan made at a compaction" if result.get("synthesized") else ""
    return f"session {session}, saved {when}{marked}"


def summary(result: JsonObject) -> str:
    """A state in a line: title, status, steps, blockers."""
    steps = result.get("steps") or {}
    parts = [str(result.get("title") or "untitled"), f"({result.get('status') or 'active'})"]
    if steps.get("total"):
        parts.append(f"{steps.get('done', 0)} of {counted(int(steps['total']), 'step')} done")
    if blockers := result.get("blockers"):
        parts.append(counted(len(blockers) if isinstance(blockers, list) else int(blockers), "blocker"))
    return visible(", ".join([" ".join(parts[:2]), *parts[2:]]))


def carried_lines(result: JsonObject) -> list[str]:
    """The state that a restore or a fork takes along; none without one."""
    state = result.get("state")
    return [f"  task state    {summary(_counts(state.get('state') or {}))}"] if isinstance(state, dict) else []


def brought_lines(result: JsonObject) -> list[str]:
    """The state that was brought, and the way back from it."""
    state = result.get("state")
    if not isinstance(state, dict):
        return []
    session, undo = visible(str(state.get("session_id") or "")), state.get("undo")
    lines = [f"task state of session {session[:8]}: {summary(_counts(state.get('state') or {}))}"]
    back = f"what it was: mulligan state restore-snapshot {word(str(undo))} --session {session}"
    return [*lines, *([back] if undo else [])]


def _counts(state: dict[str, Any]) -> dict[str, Any]:
    """What `summary` shows, of a whole state."""
    found = state.get("steps")
    steps = [step for step in found if isinstance(step, dict)] if isinstance(found, list) else []
    done = sum(step.get("status") in ("done", "completed") for step in steps)
    return {**state, "steps": {"total": len(steps), "done": done}}


def summary_line(result: JsonObject) -> str:
    """The state of a checkpoint's moment in a line; "" without one."""
    state = result.get("state")
    return summary(_counts(state.get("state") or {})) if isinstance(state, dict) else ""


def snapshots_table(snapshots: list[dict[str, Any]], context: Context) -> list[str]:
    """Snapshots, newest first."""
    columns = [
        Column("name", minimum=12),
        Column("when"),
        Column("kind"),
        Column("status"),
        Column("title", minimum=10),
    ]
    rows = [
        [
            Cell(str(each.get("name") or "")),
            Cell(ago(each.get("timestamp"), context.now()), "dim"),
            Cell(str(each.get("kind") or "").replace("_", "-"), "dim"),
            Cell(str(each.get("status") or "")),
            Cell(cut(visible(str(each.get("title") or "")), 60)),
        ]
        for each in snapshots
    ]
    return table(columns, rows, context.width, context.palette)
