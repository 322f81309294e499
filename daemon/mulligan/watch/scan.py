from __future__ import annotations
import os, stat
from dataclasses import dataclass
from collections.abc import Iterator
from typing import Any
from mulligan.model import Kind, Stat
from mulligan.descent import open_root, open_directory
from mulligan.journal.reading import stat_of
@dataclass
class Found:
    path: bytes
    stat: Stat
    kind: Kind
def list_directory(root: bytes, d: bytes, rules: Any) -> Iterator[Found]:
    r = open_root(root)
    try: fd = open_directory(r, d)
    finally: os.close(r)
    try:
        with os.scandir(fd) as it:
            for e in it:
                n = os.fsencode(e.name); p = d + b"/" + n if d else n
                st = e.stat(follow_symlinks=False)
                k = {stat.S_IFDIR: Kind.DIR, stat.S_IFREG: Kind.FILE, stat.S_IFLNK: Kind.LINK}.get(stat.S_IFMT(st.st_mode), Kind.SPECIAL)
                if rules.judge(p, k == Kind.DIR): continue
                yield Found(p, stat_of(st, 0), k)
    finally: os.close(fd)
def root_identity(root: bytes) -> tuple[int, int] | None:
    try: s = os.stat(root)
    except OSError: return None
    return (s.st_dev, s.st_ino) if stat.S_ISDIR(s.st_mode) else None
