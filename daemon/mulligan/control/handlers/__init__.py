"""One handler per method of the protocol; importing this registers them all."""

from mulligan.control.handlers import (
    blame,
    cat,
    checkpoint,
    checkpoint_diff,
    daemon,
    discover,
    file,
    history,
    project,
    restore,
    search,
    session,
    settings,
    store,
    timeline,
    watch,
)

__all__ = [
    "blame",
    "cat",
    "checkpoint",
    "checkpoint_diff",
    "daemon",
    "discover",
    "file",
    "history",
    "project",
    "restore",
    "search",
    "session",
    "settings",
    "store",
    "timeline",
    "watch",
]
