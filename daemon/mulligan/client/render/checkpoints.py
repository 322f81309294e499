"""Checkpoints as rows: who made it, what it was, what changed; in a list and as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mulligan.client.render.amounts import age
from mulligan.client.render.table import Cell, Column, table
from mulligan.client.render.text import Palette, visible

Checkpoint = dict[str, Any]

#: Who is behind a trigger, as a person says it.
_BY = {
    "manual": "you",
    "prompt": "prompt",
    "tool_use": "tool",
    "turn_end": "turn",
    "interval": "timer",
    "compaction": "compact",
    "pre_restore": "before",
    "post_restore": "restore",
    "fork": "fork",
    "baseline": "start",
}
_WHAT = {
    "pre_restore": "before a restore",
    "post_restore": "after a restore",
    "baseline": "first sight of the project",
    "turn_end": "end of a turn",
    "interval": "by the clock",
    "compaction": "before a compaction",
    "fork": "a fork",
}
COLUMNS = (
    Column("#", right=True),
    Column("when"),
    Column("by", minimum=6),
    Column("what", minimum=16),
    Column("changes"),
)


def number(checkpoint: Checkpoint) -> str:
    """The ordinal, else the id."""
    ordinal = checkpoint.get("ordinal")
    return str(ordinal) if ordinal is not None else str(checkpoint.get("id", "?"))


def by(checkpoint: Checkpoint) -> str:
    """Who or what made it: `you`, `prompt`, the tool's name."""
    trigger = str(checkpoint.get("trigger", ""))
    tool = checkpoint.get("tool")
    if trigger == "tool_use" and isinstance(tool, dict) and tool.get("name"):
        return str(tool["name"])
    return _BY.get(trigger, trigger or "?")


def what(checkpoint: Checkpoint) -> str:
    """Its description, else the first line of its prompt, else what its trigger means."""
    description = str(checkpoint.get("description") or "").strip()
    if description:
        return _first_line(description)
    trigger = str(checkpoint.get("trigger", ""))
    if trigger == "prompt":
        return _first_line(str((checkpoint.get("metadata") or {}).get("user_prompt") or ""))
    return _WHAT.get(trigger, "")


def _first_line(text: str) -> str:
    lines = text.strip().splitlines() or [""]
    return lines[0] + (" …" if len(lines) > 1 and any(line.strip() for line in lines[1:]) else "")


def marks(checkpoint: Checkpoint) -> str:
    """What is special about it: pinned, incomplete, damaged."""
    found = ["pin"] if checkpoint.get("pinned") else []
    if checkpoint.get("complete") is False:
        found.append("incomplete")
    if checkpoint.get("damaged_files"):
        found.append("damaged")
    return " ".join(found)


def changes(checkpoint: Checkpoint) -> str:
    """`~31 +2 −1`: modified, added, deleted; a dot for none."""
    metadata = checkpoint.get("metadata") or {}
    parts = [
        f"{sign}{metadata[key]}"
        for sign, key in (("~", "modified"), ("+", "added"), ("−", "deleted"))
        if metadata.get(key)
    ]
    return " ".join(parts) or "·"


def _cells(checkpoint: Checkpoint, lead: str, now: float, style: str) -> list[Cell]:
    text, special = what(checkpoint), marks(checkpoint)
    mark_style = "look" if checkpoint.get("complete") is False else "dim"
    mark_style = "loss" if checkpoint.get("damaged_files") else mark_style
    return [
        Cell(lead, style),
        Cell(age(checkpoint.get("timestamp"), now), "dim"),
        Cell(by(checkpoint)),
        Cell(text),
        Cell(special, mark_style),
        Cell(changes(checkpoint), "dim"),
    ]


def listing(checkpoints: list[Checkpoint], current: str | None, now: float, width: int, palette: Palette) -> list[str]:
    """The list, in the order given, with the current checkpoint marked @."""
    digits = max([1, *(len(number(item)) for item in checkpoints)])
    rows = []
    for item in checkpoints:
        mine = current is not None and item.get("id") == current
        rows.append(_cells(item, f"{'@' if mine else ' '} {number(item):>{digits}}", now, "safe" if mine else ""))
    return _table(rows, width, palette, "  " + "#".rjust(digits))


def _table(rows: list[list[Cell]], width: int, palette: Palette, title: str) -> list[str]:
    """The rows; the column of marks exists only if one of them has a mark."""
    columns = [Column(title), *COLUMNS[1:4], Column(""), COLUMNS[4]]
    if not any(row[4].text for row in rows):
        columns.pop(4)
        rows = [[*row[:4], row[5]] for row in rows]
    return table(columns, rows, width, palette, heading=bool(title.strip()))


def tree(roots: list[dict[str, Any]], current: str | None, now: float, width: int, palette: Palette) -> list[str]:
    """The tree, newest first: the line of the current checkpoint flat, branches indented, the current one marked @."""
    entries = [entry for root in reversed(roots) for entry in _drawn(root, current)]
    if not entries:
        return []
    nodes = [(lead, node) for lead, node in entries if node is not None]
    leads = [f"{lead} {number(node)}" for lead, node in nodes]
    rows = [
        _cells(node, text, now, "safe" if node.get("id") == current else "")
        for (_, node), text in zip(nodes, leads, strict=True)
    ]
    for row in rows:
        row.pop()  # changes belong to the list; the tree shows how things hang together
    columns = [Column(""), *COLUMNS[1:4], Column("")]
    if not any(row[4].text for row in rows):
        columns.pop()
        rows = [row[:4] for row in rows]
    drawn = iter(table(columns, rows, width, palette, heading=False))
    return [visible(lead) if node is None else next(drawn) for lead, node in entries]


def _postorder(root: dict[str, Any]) -> list[dict[str, Any]]:
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting.extend(node.get("children") or [])
    found.reverse()
    return found


def _drawn(root: dict[str, Any], current: str | None) -> Iterator[tuple[str, Checkpoint | None]]:
    """(lead, checkpoint) of each line, or (lead, None) where a branch joins. No recursion: chains may be long."""
    holds: dict[int, bool] = {}
    latest: dict[int, str] = {}
    for node in _postorder(root):
        children = node.get("children") or []
        checkpoint = node.get("checkpoint") or {}
        holds[id(node)] = checkpoint.get("id") == current or any(holds[id(child)] for child in children)
        latest[id(node)] = max([str(checkpoint.get("timestamp") or ""), *(latest[id(child)] for child in children)])
    # What is to be drawn, last first: a chain from a node upwards, a node itself, or the line where a branch joins.
    waiting: list[tuple[str, str, dict[str, Any]]] = [("chain", "", root)]
    while waiting:
        action, lead, node = waiting.pop()
        checkpoint = node.get("checkpoint") or {}
        if action == "join":
            yield lead, None
        elif action == "node":
            mark = "@" if current is not None and checkpoint.get("id") == current else "o" if lead else "*"
            yield lead + mark, checkpoint
        else:
            chain = [node]
            while chain:
                node = chain.pop()
                waiting.append(("node", lead, node))
                children = sorted(
                    node.get("children") or [], key=lambda child: (holds[id(child)], latest[id(child)]), reverse=True
                )
                for child in children[1:]:
                    waiting.append(("join", lead + "|/", {}))
                    waiting.append(("chain", lead + "| ", child))
                chain = children[:1]
