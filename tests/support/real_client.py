"""The real Claude Code client: installed once outside of the repository, run against a mock of its API.

Nothing of the caller's reaches it: an empty environment, a home of its own, a dummy key, an address on loopback.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.daemon import MARK, DaemonFixture
from support.mock_api import MockApi
from support.trees import Snapshot, snapshot

#: The last version that is JavaScript alone; later ones bring a binary of some hundred MB.
DEFAULT_VERSION = "2.1.112"
#: Versions to run with, from the environment.
VERSIONS = os.environ.get("MULLIGAN_CLIENT_VERSIONS", DEFAULT_VERSION).split(",")
_PACKAGE = "@anthropic-ai/claude-code"
_INSTALL_SECONDS, _RUN_SECONDS = 600.0, 60.0
_TURNS = Path(__file__).parent / "real-client" / "turns.json"
#: What npm needs of the environment to reach its registry at all.
_NETWORK = re.compile(r"(?i)(https?_proxy|no_proxy|node_extra_ca_certs|ssl_cert_file|npm_config_.*)\Z")


def _cache() -> Path:
    """Where clients are installed. Read when the tests are loaded: later the home directory is another one."""
    if place := os.environ.get("MULLIGAN_CLIENT_CACHE"):
        return Path(place)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".cache")
    return Path(cache) / "mulligan-tests" / "claude-code"


CACHE = _cache()


class UnavailableError(Exception):
    """The client cannot be had here; the message says why."""


def install(version: str) -> list[str]:
    """The command of a client's version, installed if it is not there yet. Raises UnavailableError."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        raise UnavailableError("node and npm are not installed")
    place = CACHE / version
    if not place.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{version}.", dir=CACHE) as under_way:
            fetch(npm, [f"{_PACKAGE}@{version}"], Path(under_way))
            made = Path(under_way) / "npm"
            try:
                made.rename(place)
            except OSError:
                if not place.exists():  # else somebody else was faster
                    raise
    return _command(node, place)


def fetch(npm: str, packages: list[str], place: Path) -> None:
    """Install packages into `npm` below a place, without their scripts. Raises UnavailableError."""
    (place / "npm").mkdir()
    (place / "npm" / "package.json").write_text('{"private": true}\n')
    kept = {name: value for name, value in os.environ.items() if _NETWORK.match(name)}
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        done = subprocess.run(
            [*command, *packages],
            cwd=place / "npm",
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(place), **kept},
            capture_output=True,
            text=True,
            timeout=_INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"npm did not end within {_INSTALL_SECONDS:.0f} s") from None
    if done.returncode:
        raise UnavailableError(f"npm could not fetch {' '.join(packages)}: {done.stderr.strip()[-300:]}")


def _command(node: str, place: Path) -> list[str]:
    modules = place / "node_modules" / "@anthropic-ai"
    for binary in (*modules.glob("claude-code-*/claude"), *modules.glob("claude-code/bin/claude.exe")):
        return [str(binary)]
    script = modules / "claude-code" / "cli.js"
    if not script.exists():
        raise UnavailableError(f"no client in {modules}")
    return [node, str(script)]


@dataclass(frozen=True)
class Moment:
    """What the tree was while the client waited for a reply; `label` is the script and the turn that come next."""

    label: str
    tree: Snapshot


class RealClient:
    """A client in one project, with the home of a daemon and a mock of its own; what it starts ends with that daemon.

    `moments` are the trees before each reply, in their order.

    `while_waiting(label)` may be set to what else is to happen while the client waits for a reply.
    """

    def __init__(self, version: str, daemon: DaemonFixture, project: Path) -> None:
        self.version, self._daemon, self.project = version, daemon, project
        self._command = install(version)
        task = "Agent" if number_of(version) >= (2, 1, 72) else "Task"
        self.api = MockApi(json.loads(_TURNS.read_text()), {"CWD": str(project), "TASK": task})
        self.moments: list[Moment] = []
        self.while_waiting: Callable[[str], None] = lambda _label: None
        self.api.before_reply = self._before_reply
        self.api.start()

    def _before_reply(self, label: str) -> None:
        if label != "side":
            self.moments.append(Moment(label, snapshot(self.project)))
            self.while_waiting(label)

    def close(self) -> None:
        """End the mock."""
        self.api.stop()

    def say(self, prompt: str, session: str = "", *options: str) -> str:
        """Run the client with one prompt to its end; the id of the session that it went into."""
        with self.begin(prompt, session, *options) as process:
            out, errors = process.communicate(timeout=_RUN_SECONDS)
        assert process.returncode == 0, f"{prompt}: the client ended with {process.returncode}\n{out}\n{errors}"
        said = json.loads(out)
        return str((said[-1] if isinstance(said, list) else said)["session_id"])

    def begin(self, prompt: str, session: str = "", *options: str) -> subprocess.Popen[str]:
        """Start the client with one prompt, in a process group of its own."""
        resume = ["--resume", session] if session else []
        words = ["-p", prompt, "--output-format", "json", "--dangerously-skip-permissions", *resume, *options]
        return subprocess.Popen(
            [*self._command, *words],
            cwd=self.project,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @contextmanager
    def talking(self) -> Iterator[Callable[[str], dict[str, Any]]]:
        """One client that goes on: a function that says something and gives the result that follows."""
        words = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        with subprocess.Popen(
            [*self._command, *words, "--dangerously-skip-permissions"],
            cwd=self.project,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            said, heard = process.stdin, process.stdout

            def say(text: str) -> dict[str, Any]:
                message = {"role": "user", "content": [{"type": "text", "text": text}]}
                said.write(json.dumps({"type": "user", "message": message}) + "\n")
                said.flush()
                for line in heard:
                    told: dict[str, Any] = json.loads(line)
                    if told.get("type") == "result":
                        return told
                raise AssertionError("the client ended")

            yield say
            said.close()
            heard.read()

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._daemon.home),
            "CLAUDE_CONFIG_DIR": str(self._daemon.claude_dir),
            MARK: self._daemon.env[MARK],
            "ANTHROPIC_API_KEY": "sk-ant-dummy-00000000000000000000",
            "ANTHROPIC_BASE_URL": self.api.url,
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }

    def tree_at(self, label: str) -> Snapshot:
        """The tree before the reply of a label, the last time it was given."""
        return next(moment.tree for moment in reversed(self.moments) if moment.label == label)

    def calls(self, script: str) -> list[tuple[str, str]]:
        """(tool, id) of the calls that a script asked for, in their order."""
        return [(tool, call) for label, tool, call in self.api.calls if label.partition("/")[0] == script]


def number_of(version: str) -> tuple[int, ...]:
    """A version for comparisons."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def usage_of(transcripts: list[Path]) -> dict[str, int]:
    """Tokens by kind over all messages of some transcripts, each message once: counted by other means."""
    messages: dict[str, dict[str, int]] = {}
    for path in transcripts:
        for line in path.read_bytes().split(b"\n"):
            message: dict[str, Any] = (json.loads(line) if line else {}).get("message") or {}
            if isinstance(message, dict) and "usage" in message and message.get("model") != "<synthetic>":
                messages[message["id"]] = message["usage"]
    names = {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "cache_creation_tokens": "cache_creation_input_tokens",
        "cache_read_tokens": "cache_read_input_tokens",
    }
    return {ours: sum(usage.get(theirs, 0) for usage in messages.values()) for ours, theirs in names.items()}
