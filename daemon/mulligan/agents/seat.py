"""Where an agent's request comes from: its project, its session, and the way to the daemon.

The environment of a server is that of its start, and a client's session changes while it lives (a cleared, resumed or
forked conversation). So the daemon is asked anew for every request, which session that client is in now.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mulligan.agents.plan_tokens import PlanTokens
from mulligan.client.connection import JsonObject, connect
from mulligan.session_ids import MANUAL_SESSION

#: Programs that stand between a client and the server that it starts.
_LAUNCHERS = frozenset({"sh", "bash", "dash", "zsh", "fish", "env", "uv", "uvx", "pipx", "npx"})
_DEEPEST = 8


@dataclass(frozen=True)
class Seat:
    """One agent's place, and the call that is answered: its tool, and its id if the client says that."""

    environ: Mapping[str, str]
    project: str
    tokens: PlanTokens
    socket: str | None = None
    call_id: str = ""
    tool: str = ""
    client: int = 0
    started: float = field(default_factory=time.monotonic)

    def call(self, method: str, /, **params: Any) -> JsonObject:
        """The result of a method of the daemon; `from_` stands for the parameter `from`. Raises what it says."""
        if "from_" in params:
            params["from"] = params.pop("from_")
        connection = connect(self.environ, self.socket)
        try:
            return connection.call(method, params)
        finally:
            connection.close()

    def session(self) -> str:
        """The session of the caller, the project's own if no agent's is known. Raises AmbiguousError for several."""
        return self.known_session() or MANUAL_SESSION

    def known_session(self) -> str:
        """The same, but "" if there is none."""
        given = self.environ.get("CLAUDE_CODE_SESSION_ID", "")
        if not given and (named := self.environ.get("MULLIGAN_SESSION")):
            return str(self.call("session.of", project=self.project, own=named)["session_id"] or "")
        found = self.call(
            "session.of",
            project=self.project,
            session=given or None,
            pid=self.client or None,
            call=self.call_id or None,
            tool=self.tool or None,
            age_seconds=time.monotonic() - self.started,
        )
        return str(found.get("session_id") or "")

    def session_for(self, *names: str | None) -> str | None:
        """The session, if one of some names of positions is only clear with it."""
        return self.session() if any((name or "").startswith("prompt:") for name in names) else None


def take_seat(environ: Mapping[str, str], socket: str | None = None) -> Seat:
    """The seat of the client that started this process.

    `CLAUDE_PID` is not looked at: clients set it for hooks and shell commands, so a server that has it was started by a
    client which another one's shell command started, and it names that other one.
    """
    project = environ.get("CLAUDE_PROJECT_DIR") or os.getcwd()
    return Seat(environ, os.path.abspath(project), PlanTokens(), socket, client=client_pid())


def client_pid() -> int:
    """The process that started this one, passing over shells and launchers."""
    pid = os.getppid()
    for _ in range(_DEEPEST):
        name, parent = _process(pid)
        if name not in _LAUNCHERS or parent <= 1:
            break
        pid = parent
    return pid


def _process(pid: int) -> tuple[str, int]:
    """Name and parent of a process; ("", 0) if nobody says."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # pid (name) state parent ...
            name, _, rest = file.read(1 << 12).partition(b"(")[2].rpartition(b")")
            return os.fsdecode(name), int(rest.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        command = ["ps", "-o", "ppid=,comm=", "-p", str(pid)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5)
        parent, name_and_path = done.stdout.split(maxsplit=1)
        return os.path.basename(name_and_path.strip()).lstrip("-"), int(parent)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return "", 0
