"""A session of OpenCode as its plugin tells it: inputs of hooks, and the files as its tools write them."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

from support.daemon import DaemonFixture
from support.live_transcript import APART, MILLISECOND, now, settle


def new_session() -> str:
    """An id as OpenCode makes them."""
    return f"ses_{uuid.uuid4().hex[:26]}"


class OpenCodeSession:
    """One session; `tell` delivers as the plugin does. `root` is the session of which this is a child."""

    def __init__(self, daemon: DaemonFixture, project: Path, session: str = "", root: str = "") -> None:
        self.daemon, self.project = daemon, project
        self.session, self.root = session or new_session(), root

    def told(self, event: str, **more: Any) -> dict[str, Any]:
        """What the plugin would tell of an event now."""
        family = {"parent_session_id": self.root} if self.root else {}
        common = {"hook_event_name": event, "session_id": self.session, "cwd": str(self.project)}
        return {**common, **family, "time": now() // MILLISECOND, **more}

    def deliver(self, told: dict[str, Any]) -> str:
        """Tell it; the answer."""
        event = told["hook_event_name"]
        answer = self.daemon.call("hook.deliver", agent="opencode", event=event, input=json.dumps(told))
        return str(answer["output"])

    def tell(self, event: str, **more: Any) -> str:
        """Tell an event of now; the answer."""
        return self.deliver(self.told(event, **more))

    def prompt(self, text: str, **more: Any) -> str:
        """A person's words; their id."""
        name = f"msg_{uuid.uuid4().hex}"
        self.tell("UserPromptSubmit", prompt=text, prompt_id=name, model="mock-1", **more)
        return name

    def start(self, tool: str, **arguments: Any) -> str:
        """A call begins; its id."""
        name = f"call_{uuid.uuid4().hex}"
        assert self.tell("PreToolUse", tool_name=tool, tool_use_id=name, tool_input=arguments) == ""
        return name

    def finish(self, tool: str, name: str, *, is_error: bool = False) -> None:
        """Its result; before and behind it is time enough to tell whose a change is."""
        time.sleep(APART)
        self.tell("PostToolUse", tool_name=tool, tool_use_id=name, is_error=is_error)
        time.sleep(APART)

    def write(self, path: Path, data: bytes) -> str:
        """A whole call of `write`; its id."""
        name = self.start("write", filePath=str(path), content=data.decode())
        path.write_bytes(data)
        self.finish("write", name)
        return name

    def stop(self, reason: str = "idle") -> None:
        """The turn ends."""
        self.tell("Stop", reason=reason)

    @property
    def kept(self) -> Path:
        """Where what it told is kept."""
        return self.daemon.data_dir / "opencode/projects/kept" / f"{self.root or self.session}.jsonl"

    def kept_lines(self) -> int:
        """How many lines all sessions of the daemon have."""
        return sum(file.read_bytes().count(b"\n") for file in self.kept.parent.glob("*.jsonl"))

    def settle(self, before: int = 0) -> None:
        """Wait until all has been executed that the daemon was told in its life; `before`: lines before that."""
        settle(self.daemon, self.project, self.kept_lines() - before)
