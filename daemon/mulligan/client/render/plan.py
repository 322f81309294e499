"""The plan of a restore, before it is done, and what was done of it."""

from __future__ import annotations

from typing import Any

from mulligan.client.render.amounts import ago, counted, size
from mulligan.client.render.checkpoints import number, what
from mulligan.client.render.text import Palette, cells, cut, pad, path_bytes, shown_path, visible
from mulligan.session_ids import short_session

Plan = dict[str, Any]

#: Part of the plan → (word, style, what is said behind the count).
_PARTS = (
    ("write", "look", ""),
    ("delete", "loss", ""),
    ("chmod", "look", ""),
    ("mkdir", "dim", ""),
    ("rmdir", "dim", ""),
    ("kept", "safe", "left alone"),
    ("skipped", "look", "left out"),
)
#: So many paths that were kept are named; what was skipped is named to the last one, because it was asked for.
LISTED = 10


def side_effect_lines(result: dict[str, Any], now: float, width: int) -> list[str]:
    """`no restore undoes: git push origin main (7 min ago)`, the newest first, and how many more there are."""
    effects = result.get("side_effects") or []
    label = "  no restore undoes: "
    lines = []
    for index, effect in enumerate(effects[:LISTED]):
        failed = ", failed" if effect.get("is_error") else ""
        unclear = "not understood: " if effect.get("kind") == "unclear" else ""
        when = f" ({ago(effect.get('timestamp'), now)}{failed})"
        text = cut(visible(str(effect.get("command") or "")), max(20, width - len(label) - len(unclear) - len(when)))
        lines.append((label if index == 0 else " " * len(label)) + unclear + text + when)
    if len(effects) > LISTED:
        lines.append(" " * len(label) + f"and {len(effects) - LISTED:,} more (--json lists them)")
    return lines


def other_warnings(result: dict[str, Any]) -> list[str]:
    """The warnings that `side_effects` does not say already."""
    return [text for text in result.get("warnings") or [] if not str(text).startswith("no restore undoes: ")]


def size_of(plan: Plan) -> int:
    """How many entries the plan would change."""
    return sum(len(plan.get(part) or []) for part in ("write", "delete", "chmod", "mkdir", "rmdir"))


def target_line(result: dict[str, Any], now: float) -> str:
    """`Back to 11, "add rate limiting…" (9 min ago)`."""
    checkpoint = result.get("checkpoint") or {}
    if not checkpoint:
        return f"Back to {visible(str(result.get('position') or 'there'))}"
    text = visible(what(checkpoint))
    place = "just before the prompt " if checkpoint.get("trigger") == "prompt" else ""
    said = f', {place}"{cut(text, 40)}"' if text else ""
    return f"Back to {number(checkpoint)}{said} ({ago(checkpoint.get('timestamp'), now)})"


def plan_lines(plan: Plan, width: int, palette: Palette) -> list[str]:
    """One line a kind of change: word, count, the first paths."""
    lines = []
    digits = max([1, *(len(f"{len(plan.get(part) or []):,}") for part, _, _ in _PARTS)])
    for part, style, note in _PARTS:
        entries = plan.get(part) or []
        if not entries:
            continue
        head = f"  {part:<8} {len(entries):>{digits},}"
        said = f"  {_reason(plan, entries) or note}: " if note else "  "
        shown = some_paths(entries, width - cells(head) - cells(said))
        lines.append(palette.paint(head, style) + said + shown)
    return lines or ["  nothing to change"]


def grouped_lines(plan: Plan, width: int, palette: Palette, now: float) -> list[str]:
    """One line for each who made the changes that go; then what is left alone. As `plan_lines` without groups."""
    groups = plan.get("groups") or []
    if not groups:
        return plan_lines(plan, width, palette)
    names = [_author(group, groups) for group in groups]
    counts = [
        "  ".join(f"{part} {len(group[part]):,}" for part, _, _ in _PARTS[:5] if group.get(part)) for group in groups
    ]
    wide = max(cells(name) for name in names), max(cells(count) for count in counts)
    lines = []
    for group, name, count in zip(groups, names, counts, strict=True):
        head = f"  {pad(name, wide[0])}  {pad(count, wide[1])}  "
        lost = f"  {said}" if (said := _lost(group, now)) else ""
        paths = [path for part, _, _ in _PARTS[:5] for path in group.get(part) or []]
        room = max(20, width - cells(head) - cells(lost))
        style = "look" if group.get("by") == "this_session" else "loss"
        lines.append(palette.paint(head, style) + some_paths(paths, room) + palette.paint(lost, "dim"))
    rest = {part: plan.get(part) for part in ("kept", "skipped")}
    return lines + (plan_lines({**rest, "reasons": plan.get("reasons")}, width, palette) if any(rest.values()) else [])


def _author(group: dict[str, Any], groups: list[dict[str, Any]]) -> str:
    if group.get("by") == "this_session":
        return "this session"
    if group.get("by") == "nobody":
        return "no agent's call"
    others = [other for other in groups if other.get("by") == "another_session"]
    return "another session" if len(others) == 1 else f"session {short_session(visible(str(group.get('session_id'))))}"


def _lost(group: dict[str, Any], now: float) -> str:
    """`(2 min ago, 14 lines, 1.2 KiB)`: when the newest version that goes came, and how much of it is nowhere else."""
    files = group.get("files") or []
    if not files:
        return ""
    newest = max(str(file.get("timestamp") or "") for file in files)
    words = [] if group.get("by") == "this_session" or not newest else [ago(newest, now)]
    if group.get("lines") is not None:
        words.append(counted(int(group["lines"]), "line"))
    return f"({', '.join([*words, size(group.get('bytes') or 0)])})"


def conflict_lines(result: dict[str, Any]) -> list[str]:
    """Every conflict with its reason, and how to get either version."""
    lines = []
    for conflict in result.get("conflicts") or []:
        path, ours, theirs = shown_path(conflict), str(conflict.get("ours")), str(conflict.get("theirs"))
        marked = "; both versions are in it now" if conflict.get("marked") else ""
        lines.append(f"  conflict {path}: {visible(str(conflict.get('reason') or ''))}{marked}")
        lines.append(f"    now {visible(ours)}    before {visible(theirs)}")
    return lines


def _reason(plan: Plan, entries: list[Any]) -> str:
    """The reason that all these entries share, if it is short and they do."""
    reasons = {reason_of(plan, entry) for entry in entries}
    only = reasons.pop() if len(reasons) == 1 else ""
    return only if cells(only) <= 40 else ""


def reason_of(plan: Plan, entry: Any) -> str:
    """Why an entry was kept or skipped: it says so itself, or the plan does."""
    if isinstance(entry, dict):
        return visible(str(entry.get("reason") or ""))
    return visible(str((plan.get("reasons") or {}).get(entry) or ""))


def some_paths(entries: list[Any], room: int) -> str:
    """As many paths as fit into the room, and how many more there are: `src/auth.py src/limits.py +4`."""
    shown: list[str] = []
    used = 0
    for index, entry in enumerate(entries):
        text = shown_path(entry)
        rest = len(entries) - index - 1
        reserve = len(f" +{rest:,}") if rest else 0
        if used + cells(text) + bool(shown) + reserve > room:
            if not shown:
                return cut(text, max(8, room - reserve)) + (f" +{rest:,}" if rest else "")
            return " ".join(shown) + f" +{rest + 1:,}"
        used += cells(text) + bool(shown)
        shown.append(text)
    return " ".join(shown)


def not_done(plan: Plan) -> list[str]:
    """Every path that was skipped and the first that were kept, with their reasons, in the order of their names."""

    def named(part: str, entries: list[Any]) -> list[str]:
        reasons = [reason_of(plan, entry) for entry in entries]
        return [
            f"  {part} {shown_path(entry)}" + (f": {reason}" if reason else "")
            for entry, reason in zip(entries, reasons, strict=True)
        ]

    skipped, kept = (sorted(plan.get(part) or [], key=path_bytes) for part in ("skipped", "kept"))
    shown = kept if len(kept) <= LISTED + 1 else kept[:LISTED]
    rest = len(kept) - len(shown)
    return named("skipped", skipped) + named("kept", shown) + ([f"  and {rest:,} more kept"] if rest else [])


def done_words(plan: Plan) -> str:
    """`5 written, 2 deleted`."""
    names = {"write": "written", "delete": "deleted", "chmod": "modes", "mkdir": "made", "rmdir": "removed"}
    words = [f"{len(plan[part]):,} {word}" for part, word in names.items() if plan.get(part)]
    for part, word in (("kept", "kept"), ("skipped", "skipped")):
        if plan.get(part):
            words.append(f"{len(plan[part]):,} {word}")
    return ", ".join(words) or "nothing had to change"
