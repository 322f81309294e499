"""The plan of a restore, before it is done, and what was done of it."""

from __future__ import annotations

from typing import Any

from mulligan.client.render.amounts import ago
from mulligan.client.render.checkpoints import number, what
from mulligan.client.render.text import Palette, cells, cut, path_bytes, shown_path, visible

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
