"""A diff as `git apply` takes it, as a statistic, and as names with letters."""

from __future__ import annotations

import base64
from typing import Any

from mulligan.client.render.amounts import counted
from mulligan.client.render.text import Palette, cells, cut, pad, path_bytes, quoted_path, shown_path, visible

File = dict[str, Any]

#: The part of a mode that says what kind of entry it is (git's modes are octal texts).
_KIND = 0o170000


def in_order(diff: dict[str, Any]) -> list[tuple[str, File]]:
    """(letter, file) of every difference, ordered by the bytes of the path. D M A R T as git gives them."""
    found = [("A", file) for file in diff.get("added_files") or []]
    found += [("D", file) for file in diff.get("deleted_files") or []]
    found += [(_letter(file), file) for file in diff.get("modified_files") or []]
    return sorted(found, key=lambda pair: path_bytes(pair[1]))


def _letter(file: File) -> str:
    if file.get("renamed_from"):
        return "R"
    old, new = _mode(file.get("old_mode")), _mode(file.get("new_mode"))
    if old is not None and new is not None and old != new:
        only_mode = not file.get("additions") and not file.get("deletions") and not file.get("binary")
        if old & _KIND != new & _KIND or only_mode:
            return "T"
    return "M"


def _mode(value: Any) -> int | None:
    if isinstance(value, int):
        return value
    try:
        return int(value, 8)
    except (TypeError, ValueError):
        return None


def content(file: File) -> bytes:
    """The bytes of one file's part of the diff."""
    if encoded := file.get("diff_content_b64"):
        return base64.b64decode(encoded)
    return str(file.get("diff_content") or "").encode("utf-8", "surrogateescape")


def coloured(data: bytes, palette: Palette) -> str:
    """The diff for eyes: coloured by line, whatever could act on the terminal made visible."""
    styles = {"+": "safe", "-": "loss", "@": "place"}
    lines = []
    for raw in data.split(b"\n"):
        text = visible(raw.decode("utf-8", "surrogateescape"), keep="\t")
        heading = text.startswith(("diff ", "--- ", "+++ ", "index ", "new file", "deleted file", "rename "))
        lines.append(palette.paint(text, "bold" if heading else styles.get(text[:1], "")))
    return "\n".join(lines)


def stat(diff: dict[str, Any], width: int, palette: Palette) -> list[str]:
    """One line a file with a bar of + and -, and the sum."""
    files = [file for _, file in in_order(diff)]
    names = [_stat_name(file) for file in files]
    numbers = ["Bin" if file.get("binary") else str(_changed(file)) for file in files]
    digits = max([1, *map(len, numbers)])
    longest = max([1, *map(cells, names)])
    room = min(longest, max(10, width - digits - 16))
    bar = max(5, width - room - digits - 5)
    most = max([1, *(_changed(file) for file in files)])
    scale = min(1.0, bar / most)
    lines = []
    for file, name, text in zip(files, names, numbers, strict=True):
        plus, minus = _bar(file.get("additions") or 0, scale), _bar(file.get("deletions") or 0, scale)
        signs = palette.paint("+" * plus, "safe") + palette.paint("-" * minus, "loss")
        lines.append(f" {pad(cut(name, room), room)} | {text:>{digits}} {signs}".rstrip())
    plus, minus = (sum(file.get(key) or 0 for file in files) for key in ("additions", "deletions"))
    if files:
        lines.append(f" {counted(len(files), 'file')}, {plus:,} added, {minus:,} deleted (lines)")
    return lines


def _stat_name(file: File) -> str:
    name = shown_path(file)
    if file.get("renamed_from"):
        return f"{shown_path(file, 'renamed_from')} => {name}"
    return name


def _changed(file: File) -> int:
    return int(file.get("additions") or 0) + int(file.get("deletions") or 0)


def _bar(count: int, scale: float) -> int:
    return max(1, int(count * scale)) if count else 0


def name_status(diff: dict[str, Any]) -> list[str]:
    """`M<tab>path`, `R<tab>old<tab>new`; names quoted as git does where they need it."""
    lines = []
    for letter, file in in_order(diff):
        names = [quoted_path(path_bytes(file))]
        if letter == "R":
            names.insert(0, quoted_path(path_bytes(file, "renamed_from")))
        lines.append("\t".join([letter, *names]))
    return lines


def is_empty(diff: dict[str, Any]) -> bool:
    """Whether nothing differs."""
    return not in_order(diff)
