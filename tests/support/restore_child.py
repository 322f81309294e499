"""A process that restores and may be killed: `restore_child.py BASE` makes BASE/project equal to BASE/target.

What the operation log would hold is left in BASE/plan and BASE/staged; what was captured in BASE/captured.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from mulligan.model import Entry
from mulligan.restore.apply import apply
from mulligan.restore.plan import Plan, make_plan
from mulligan.restore.recovery import recover
from support.restoring import MemoryContents, changes, scan


class FileLog:
    """Keeps the records in files."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def begin(self, plan: Plan) -> None:
        (self.base / "plan").write_bytes(msgspec.msgpack.encode(plan))

    def staged(self) -> None:
        (self.base / "staged").touch()


class FileContents(MemoryContents):
    """Has what lies in the target and what was captured, in this life or an earlier one."""

    def __init__(self, base: Path) -> None:
        super().__init__()
        self.store = base / "captured"
        self.store.mkdir(exist_ok=True)
        scan(base / "target", self)
        for path in self.store.iterdir():
            self.add(path.read_bytes())

    def capture(self, path: bytes, fd: int | None, found: Entry) -> Entry:
        found = super().capture(path, fd, found)
        if fd is not None:
            (self.store / found.hash.hex()).write_bytes(self.data[found.hash])
        return found


def run(base: Path) -> None:
    """Restore, or recover if a plan is there."""
    contents = FileContents(base)
    root, staging = os.fsencode(base / "project"), os.fsencode(base / "staging")
    if (base / "plan").exists():
        plan = msgspec.msgpack.decode((base / "plan").read_bytes(), type=Plan)
        outcome = recover(
            root,
            plan,
            contents,
            operation="op",
            staging=staging,
            staged=(base / "staged").exists(),
            capture=contents.capture,
        )
    else:
        plan = make_plan(changes(scan(base / "project"), scan(base / "target")))
        outcome = apply(
            root, plan, contents, operation="op", staging=staging, log=FileLog(base), capture=contents.capture
        )
    (base / "outcome").write_bytes(msgspec.msgpack.encode(outcome))


if __name__ == "__main__":
    run(Path(sys.argv[1]))
