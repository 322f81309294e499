"""One handler per method of the protocol; importing this registers them all."""

from mulligan.control.handlers import (
    checkpoint,
    checkpoint_diff,
    cleanup,
    daemon,
    discover,
    file,
    fork,
    project,
    rescue,
    restore,
    revert,
    session,
    settings,
    store,
    timeline,
    watch,
)

__all__ = [
    "checkpoint",
    "checkpoint_diff",
    "cleanup",
    "daemon",
    "discover",
    "file",
    "fork",
    "project",
    "rescue",
    "restore",
    "revert",
    "session",
    "settings",
    "store",
    "timeline",
    "watch",
]
