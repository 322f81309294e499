from __future__ import annotations

from typing import Any


class IgnoreRules:
    def __init__(s, root: bytes, boundaries: Any = ()) -> None:
        s.root = root

    def judge(s, path: bytes, is_dir: bool) -> bool:
        return path.rpartition(b"/")[2] in (b".git", b"node_modules")

    def is_ignore_file(s, p: bytes) -> bool:
        return False

    def force(s, p: bytes) -> None: ...
    def reload(s, p: bytes) -> None: ...


def is_client_temporary(n: bytes) -> bool:
    return b".tmp." in n
