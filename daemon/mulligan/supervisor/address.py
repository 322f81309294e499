"""The daemon's address for clients: `control.json` in the state directory."""

from __future__ import annotations

import json
import os

from mulligan.clock import to_rfc3339
from mulligan.control.framing import PROTOCOL_VERSION
from mulligan.paths import Places
from mulligan.store.atomic import make_private_directory, write_file


def write_address(places: Places, claude_config_dirs: list[str], started: int) -> None:
    """Tell clients of any environment where the socket is."""
    make_private_directory(places.state_dir)
    address = {
        "path": places.socket,
        "pid": os.getpid(),
        "protocol": PROTOCOL_VERSION,
        "started": to_rfc3339(started),
        "claude_config_dirs": claude_config_dirs,
    }
    write_file(places.address_file, json.dumps(address, indent=1).encode() + b"\n")


def remove_address(places: Places) -> None:
    """Take the address away, if it is this process's."""
    try:
        with open(places.address_file, "rb") as file:
            mine = json.load(file).get("pid") == os.getpid()
        if mine:
            os.unlink(places.address_file)
    except (OSError, ValueError, AttributeError):
        return
