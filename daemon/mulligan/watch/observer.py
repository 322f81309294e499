from __future__ import annotations
from dataclasses import dataclass, field
from typing import Any
@dataclass
class Touch:
    first: int
    last: int
    finished: bool
@dataclass
class Changes:
    entries: dict[bytes, Touch] = field(default_factory=dict)
    directories: set[bytes] = field(default_factory=set)
    overflow: bool = False
    root_gone: bool = False
class Observer:
    def __init__(s, root: bytes, now: Any) -> None:
        s.o = False; s.w: set[bytes] = set(); s.root_gone = False; s.limit_reached = ""
    def start(s, wake: Any) -> None: ...
    def watch(s, d: bytes) -> bool:
        s.w.add(d); return True
    def is_watched(s, d: bytes) -> bool: return d in s.w
    @property
    def watched(s) -> int: return len(s.w)
    def forget(s, d: bytes) -> None: s.w.discard(d)
    def barrier(s, t: float) -> bool:
        s.o = True; return True
    def drain(s) -> Changes:
        o, s.o = s.o, False
        return Changes(overflow=o)
    def stop(s) -> None: ...
def make_observer(root: bytes, now: Any) -> Observer: return Observer(root, now)
