"""Foreign text on a terminal: control characters made visible, widths counted in cells, colour only where allowed."""

from __future__ import annotations

import base64
import binascii
import os
from typing import Any

ELLIPSIS = "…"
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
#: What a shell takes as it stands, besides letters and digits.
_PLAIN = frozenset("@%+=:,./-_")
#: Zero-width joiners shape scripts and emoji and move nothing.
_JOINERS = "\u200c\u200d"


def visible(text: str, keep: str = "") -> str:
    r"""The text with every character that could act on a terminal shown as an escape (\x1b, \u202e).

    C0, C1, DEL, direction and other format characters, line separators and undecodable bytes are shown; characters of
    `keep` pass. The result never holds a newline unless `keep` does.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else _shown(char) for char in text)


def _shown(char: str) -> str:
    import unicodedata  # noqa: PLC0415 - rarely needed on the way to an answer

    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # an undecodable byte of a file name
        return f"\\x{code - 0xDC00:02x}"
    category = unicodedata.category(char)
    if category in {"Zs", "Co", "Cn"} or char in _JOINERS:
        return char
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def word(text: str) -> str:
    """A word of a command line as a shell takes it, made visible: in quotes if it needs them."""
    if text and all(char.isalnum() or char in _PLAIN for char in text):
        return text
    return "'" + visible(text).replace("'", "'\\''") + "'"


def cells(text: str) -> int:
    """How many terminal cells the text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415

    total = 0
    for char in text:
        if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
            continue
        total += 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
    return total


def cut(text: str, limit: int) -> str:
    """The text in at most `limit` cells, its end replaced by … if it is longer."""
    if cells(text) <= limit:
        return text
    if limit <= 0:
        return ""
    kept, used = [], 0
    for char in text:
        used += cells(char)
        if used > limit - 1:
            break
        kept.append(char)
    return "".join(kept).rstrip() + ELLIPSIS


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text filled with blanks to `width` cells."""
    blanks = " " * max(0, width - cells(text))
    return blanks + text if right else text + blanks


def path_bytes(entry: str | dict[str, Any], key: str = "path") -> bytes:
    """The bytes of a path of a reply: `<key>_b64` where the name is not UTF-8, else `<key>`."""
    if isinstance(entry, str):
        return entry.encode("utf-8", "surrogateescape" if _only_bytes(entry) else "surrogatepass")
    encoded = entry.get(f"{key}_b64") or (entry.get("path_b64") if key == "file_path" else None)
    if isinstance(encoded, str):
        try:
            return base64.b64decode(encoded)
        except (binascii.Error, ValueError):
            pass
    return path_bytes(str(entry.get(key, "")))


def _only_bytes(text: str) -> bool:
    return not any("\ud800" <= char <= "\udc7f" or "\udd00" <= char <= "\udfff" for char in text)


def shown_path(entry: str | dict[str, Any], key: str = "path") -> str:
    """A path of a reply as it may be printed."""
    return visible(path_bytes(entry, key).decode("utf-8", "surrogateescape"))


def quoted_path(path: bytes) -> str:
    """A path as git prints it in machine-readable output: in C quotes if a byte of it needs them."""
    text = path.decode("utf-8", "surrogateescape")
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    parts = []
    for char in text:
        if char in escapes:
            parts.append(escapes[char])
        elif char.isprintable():
            parts.append(char)
        else:
            parts.extend(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))
    return '"' + "".join(parts) + '"'


def tilde(path: str, home: str) -> str:
    """The path with the home directory as ~."""
    if home and home != os.sep and (path == home or path.startswith(home + os.sep)):
        return "~" + path[len(home) :]
    return path


class Palette:
    """Colours by meaning; plain text when colour is not allowed. Apply after padding: escapes have no width."""

    __slots__ = ("enabled",)

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def paint(self, text: str, style: str) -> str:
        """The text in a named style: safe, look, loss, dim, bold, or "" for none."""
        code = {"safe": "32", "look": "33", "loss": "31", "dim": "2", "bold": "1", "place": "36"}.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if self.enabled and code and text else text
