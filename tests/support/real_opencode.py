"""The real OpenCode: installed once outside of the repository, run against a mock of its model's API, on loopback.

Nothing of the caller's reaches it, and it fetches nothing: a home of its own, no updates, no list of models.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from support.daemon import DaemonFixture
from support.mock_api import MockApi
from support.real_client import CACHE, Moment, UnavailableError, fetch
from support.trees import Snapshot, snapshot

VERSION = os.environ.get("MULLIGAN_OPENCODE_VERSION", "1.18.33")
_RUN_SECONDS = 90.0
_PACKAGES = [
    f"opencode-ai@{VERSION}",
    f"@opencode-ai/plugin@{VERSION}",
    f"@opencode-ai/sdk@{VERSION}",
    "typescript@5.9.3",
    "@types/node@22",
]
#: What a script is named by is in its prompt; see MockApi.
SCRIPTS: dict[str, list[Any]] = {
    "hello": ["Hello."],
    "write": [[{"write": {"filePath": "${CWD}/a.txt", "content": "written\n"}}], "DONE"],
    "edit": [
        [{"read": {"filePath": "${CWD}/keep.txt"}}],
        [{"edit": {"filePath": "${CWD}/keep.txt", "oldString": "before", "newString": "after"}}],
        "DONE",
    ],
    "bash": [[{"bash": {"command": "rm gone.txt; echo $MULLIGAN_SESSION > session.txt", "description": "x"}}], "DONE"],
    "fail": [
        [{"read": {"filePath": "${CWD}/nowhere.txt"}}],
        [{"bash": {"command": "echo half > half.txt; exit 3", "description": "x"}}],
        "DONE",
    ],
    "parallel": [
        [
            {"write": {"filePath": "${CWD}/one.txt", "content": "1\n"}},
            {"write": {"filePath": "${CWD}/two.txt", "content": "2\n"}},
        ],
        "DONE",
    ],
    "task": [[{"task": {"description": "d", "prompt": "do it: [[child]]", "subagent_type": "general"}}], "DONE"],
    "child": [[{"write": {"filePath": "${CWD}/child.txt", "content": "by the child\n"}}], "DONE"],
    "state": [[{"bash": {"command": "${MULLIGAN} state save '${STATE}'", "description": "x"}}], "DONE"],
}
STATE = '{"title": "The bridge over the river"}'


def install() -> Path:
    """Where its packages are, installed if they are not there yet. Raises UnavailableError."""
    npm = shutil.which("npm")
    if not npm or not shutil.which("node"):
        raise UnavailableError("node and npm are not installed")
    place = CACHE.parent / "opencode" / VERSION
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{VERSION}.", dir=place.parent) as under_way:
            fetch(npm, _PACKAGES, Path(under_way))
            try:
                (Path(under_way) / "npm").rename(place)
            except OSError:
                if not place.exists():  # else somebody else was faster
                    raise
    return place


def program() -> str:
    """The program itself; the one that runs on every processor, if there are two. Raises UnavailableError."""
    found = sorted(install().glob("node_modules/opencode-*/bin/opencode"), key=lambda path: "baseline" not in str(path))
    if not found:
        raise UnavailableError("npm has no program for this machine")
    return str(found[0])


class RealOpenCode:
    """OpenCode in one project, with the home of a daemon and a mock of its own. `moments`: the trees before replies."""

    def __init__(self, daemon: DaemonFixture, project: Path) -> None:
        self._program, self._daemon, self.project = program(), daemon, project
        mulligan = f"{sys.executable} -m mulligan.client.main"
        self.api = MockApi(SCRIPTS, {"CWD": str(project), "MULLIGAN": mulligan, "STATE": STATE})
        self.moments: list[Moment] = []
        self.api.before_reply = self._before_reply
        self.api.start()
        self.config = daemon.home / ".config/opencode/opencode.json"
        self.config.parent.mkdir(parents=True)
        self.config.write_text(json.dumps(self._configuration(), indent=2))

    def _before_reply(self, label: str) -> None:
        if label != "side":
            self.moments.append(Moment(label, snapshot(self.project)))

    def limit(self, context: int) -> None:
        """From the next run on the model holds so many tokens; what is over is compacted before an answer."""
        configuration = json.loads(self.config.read_text())
        configuration["provider"]["mock"]["models"]["mock-1"]["limit"]["context"] = context
        self.config.write_text(json.dumps(configuration))

    def _configuration(self) -> dict[str, Any]:
        model = {"tool_call": True, "limit": {"context": 200_000, "output": 1000}}
        options = {"baseURL": f"{self.api.url}/v1", "apiKey": "dummy"}
        return {
            "autoupdate": False,
            "share": "disabled",
            "model": "mock/mock-1",
            "small_model": "mock/mock-1",
            "provider": {"mock": {"npm": "@ai-sdk/anthropic", "options": options, "models": {"mock-1": model}}},
            "permission": {"*": "allow"},
        }

    def close(self) -> None:
        """End the mock."""
        self.api.stop()

    def say(self, script: str, session: str = "", more: str = "") -> str:
        """Run it with one prompt to its end; the id of the session that it went into."""
        done = self.run(script, session, more)
        assert done.returncode == 0, f"{script}: {done.stdout}\n{done.stderr}"
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return str(events[-1]["sessionID"])

    def run(self, script: str, session: str = "", more: str = "") -> subprocess.CompletedProcess[str]:
        """Run it with one prompt; everything that it says."""
        words = ["run", "--format", "json", *(["--session", session] if session else []), f"please, [[{script}]]{more}"]
        return subprocess.run(
            [self._program, *words],
            cwd=self.project,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_RUN_SECONDS,
            check=False,
        )

    def _environment(self) -> dict[str, str]:
        off = ["MODELS_FETCH", "AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "CLAUDE_CODE", "SHARE"]
        return {**self._daemon.env, **{f"OPENCODE_DISABLE_{name}": "1" for name in off}, "TERM": "dumb"}

    def tree_at(self, label: str) -> Snapshot:
        """The tree before the reply of a label, the last time it was given."""
        return next(moment.tree for moment in reversed(self.moments) if moment.label == label)
