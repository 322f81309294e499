"""What was lost, before it is brought back."""

from __future__ import annotations

from typing import Any

from mulligan.client.render.amounts import ago, coarse, counted, seconds_of, size
from mulligan.client.render.table import Cell, Column, table
from mulligan.client.render.text import Palette, shown_path, visible
from mulligan.session_ids import short_session

#: So many are listed; who wants them all takes --json.
LISTED = 40
_STYLES = {"vanished": "loss", "emptied": "loss", "shrank": "look"}


def loss_lines(result: dict[str, Any], now: float, width: int, palette: Palette) -> list[str]:
    """The lost versions, the latest loss first: how, what, how large, when, by which call; and what is left out."""
    entries = result.get("entries") or []
    since = seconds_of(result.get("since"))
    span = f" in the last {coarse(now - since)}" if since is not None else ""
    lines = [palette.paint(f"Lost{span}: {counted(len(entries), 'path') if entries else 'nothing'}", "bold")]
    if entries:
        columns = [
            Column("how"),
            Column("what", minimum=16),
            Column("size", True),
            Column("when"),
            Column("by", minimum=8),
        ]
        rows = [_row(entry, now) for entry in entries[:LISTED]]
        lines += ["", *("  " + line for line in table(columns, rows, width - 2, palette))]
    if len(entries) > LISTED:
        lines.append(f"  and {len(entries) - LISTED:,} more")
    lines += [f"  left out: {count:,} {visible(reason)} (--all)" for reason, count in _left_out(result)]
    newer = [entry for entry in entries if entry.get("newer")]
    lines += [f"  kept: something newer is at {shown_path(entry)} (--force replaces it)" for entry in newer[:LISTED]]
    replaced = [entry for entry in entries if entry.get("now") and not entry.get("newer") and entry["now"].get("size")]
    lines += [f"  replaces what is there now: {shown_path(entry)}" for entry in replaced[:LISTED]]
    if entries:
        lines += ["", "A checkpoint is taken first: `mulligan undo` takes the rescue back."]
    return lines


def _left_out(result: dict[str, Any]) -> list[tuple[str, int]]:
    return sorted((result.get("left_out") or {}).items())


def _row(entry: dict[str, Any], now: float) -> list[Cell]:
    how = str(entry.get("how") or "")
    moved = f" (now at {entry['moved_to']})" if entry.get("moved_to") else ""
    return [
        Cell(how, _STYLES.get(how, "look")),
        Cell(shown_path(entry) + ("/" if entry.get("kind") == "directory" else "") + moved),
        Cell(size(entry.get("size") or 0), "dim"),
        Cell(ago(entry.get("lost_at"), now), "dim"),
        Cell(_by(entry)),
    ]


def _by(entry: dict[str, Any]) -> str:
    """`s9f3c21 Bash "rm -rf docs"`, or that it was no agent's call."""
    call = entry.get("call")
    if not call:
        return "no agent's call"
    grade = str(entry.get("grade") or "")
    words = [short_session(str(call.get("session_id") or "")), str(call.get("tool") or "")]
    if text := str(call.get("command") or call.get("prompt") or ""):
        words.append(f'"{" ".join(text.split())}"')
    return " ".join(word for word in words if word) + (f" ({grade})" if grade.startswith("one of") else "")
