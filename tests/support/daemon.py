"""A real daemon for a test: a process of its own, a home of its own, nothing left behind.

Everything that the daemon could look at (HOME, the XDG directories, the agents' configuration) lies in one short
temporary directory, so the person's own files are never read.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mulligan.control.framing import REPLY_LIMIT
from mulligan.paths import SOCKET_PATH_LIMIT

START_SECONDS = 30.0
STOP_SECONDS = 20.0
CALL_SECONDS = 60.0
#: Whatever has this variable in its environment is ended with the fixture whose directory it names.
MARK = "MULLIGAN_TEST_MARK"

#: Root reads and writes whatever the modes say; without these capabilities (1: override, 2: search) it is a user.
_AS_USER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for capability in (1, 2):
    libc.prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class RpcError(Exception):
    """The daemon answered with an error: `number` is JSON-RPC's, `code` and `hint` are ours."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message", ""))
        self.number: int = error["code"]
        self.data: dict[str, Any] = error.get("data") or {}
        self.code: str = self.data.get("code", "")
        self.hint: str = self.data.get("hint", "")


class Connection:
    """One client connection; requests are answered in turn."""

    def __init__(self, path: str, seconds: float = CALL_SECONDS) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(seconds)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._reader = self._socket.makefile("rb")
        self._number = 0

    def write_no_more(self) -> None:
        """Close this direction alone, as a program does whose standard input has ended."""
        self._socket.shutdown(socket.SHUT_WR)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One request and its reply. Raises RpcError, and EOFError if the daemon closed the connection."""
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            reply = self.read()
            if reply.get("id") == self._number:
                break
        if "error" in reply:
            raise RpcError(reply["error"])
        result: dict[str, Any] = reply["result"]
        return result

    def read(self) -> dict[str, Any]:
        """The next message, a notification or a reply."""
        line = self._reader.readline(REPLY_LIMIT)
        if not line.endswith(b"\n"):
            raise EOFError("the daemon closed the connection")
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        """Close; again is nothing."""
        self._reader.close()
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DaemonFixture:
    """A `mulligand` with its environment. `start` waits until it answers; `close` ends it and removes everything."""

    def __init__(self, *, config: str = "", faults: str = "", as_user: bool = True, base: str | None = None) -> None:
        # A short one: a socket lies in it. TMPDIR says where.
        self.directory = Path(tempfile.mkdtemp(prefix="mg", dir=base))
        self.home = self.directory / "home"
        self.projects = self.directory / "projects"
        self.config_file = self.directory / "config.yaml"
        self.data_dir = self.directory / "data"
        self.state_dir = self.directory / "state"
        self.socket = self.directory / "run" / "control.sock"
        self.claude_dir = self.home / ".claude"
        self.fault_log = self.directory / "faults.log"
        self.allow_traceback = False
        self.process: subprocess.Popen[bytes] | None = None
        self._log_file = self.directory / "daemon.log"
        self._as_user = as_user and os.geteuid() == 0
        for made in (self.home, self.projects, self.claude_dir):
            made.mkdir(mode=0o700)
        (self.directory / "run").mkdir(mode=0o700)
        self.config_file.write_text(config)
        assert len(os.fsencode(self.socket)) <= SOCKET_PATH_LIMIT
        self.env = self._environment(faults)

    def _environment(self, faults: str) -> dict[str, str]:
        places = {
            "HOME": self.home,
            "XDG_CONFIG_HOME": self.home / ".config",
            "XDG_DATA_HOME": self.home / ".local/share",
            "XDG_STATE_HOME": self.home / ".local/state",
            "XDG_CACHE_HOME": self.home / ".cache",
            "XDG_RUNTIME_DIR": self.directory / "run",
            "MULLIGAN_CONFIG": self.config_file,
            "MULLIGAN_DATA_DIR": self.data_dir,
            "MULLIGAN_STATE_DIR": self.state_dir,
            "MULLIGAN_SOCKET": self.socket,
            "CLAUDE_CONFIG_DIR": self.claude_dir,
            "MULLIGAN_FAULT_LOG": self.fault_log,
            "MULLIGAN_FAULT_GATE": self.directory / "gate",
            MARK: self.directory,
        }
        plain = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}
        # Where our own package lies, if the tests are run against another one than the installed.
        passed = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        armed = {"MULLIGAN_FAULTS": faults} if faults else {}
        return plain | passed | armed | {name: str(place) for name, place in places.items()}

    def arm(self, faults: str) -> None:
        """Fault points of the next start (see mulligan.faults); empty disarms."""
        self.env.pop("MULLIGAN_FAULTS", None)
        if faults:
            self.env["MULLIGAN_FAULTS"] = faults

    def faults_hit(self) -> list[str]:
        """The fault points that were hit so far."""
        return self.fault_log.read_text().split() if self.fault_log.exists() else []

    def command(self, *words: str) -> list[str]:
        """The daemon's command line."""
        as_user = ["-c", _AS_USER] if self._as_user else []
        return [sys.executable, *as_user, "-m", "mulligan.supervisor.main", *words]

    def start(self, *, wait: bool = True) -> DaemonFixture:
        """Start the process and wait until its socket answers `hello`."""
        assert self.process is None or self.process.poll() is not None, "it is running"
        with self._log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                env=self.env,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if wait:
            self.until(self.answers, START_SECONDS, "the daemon does not answer")
        return self

    def answers(self) -> bool:
        """Whether the socket answers `hello`; fails with the log if the process has ended."""
        process = self.process
        assert process is not None
        if process.poll() is not None:
            raise AssertionError(f"the daemon ended with {process.returncode}\n{self.log()}")
        try:
            with Connection(str(self.socket), 5) as connection:
                return bool(connection.call("hello", client="tests", protocol=[1]))
        except (OSError, EOFError):
            return False

    def until(self, holds: Callable[[], Any], seconds: float = 20.0, what: str = "the condition does not hold") -> Any:
        """Wait for a condition and return its value; fail with the daemon's log."""
        end = time.monotonic() + seconds
        while True:
            if found := holds():
                return found
            if time.monotonic() > end:
                raise AssertionError(f"{what} after {seconds} s\n{self.log()[-6000:]}")
            time.sleep(0.01)

    @property
    def pid(self) -> int:
        """The process id of the daemon."""
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.poll() is None

    def connect(self, seconds: float = CALL_SECONDS) -> Connection:
        """A connection of one's own."""
        return Connection(str(self.socket), seconds)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One request on a new connection; paths are given as `str` or `Path`."""
        plain = {name: str(value) if isinstance(value, Path) else value for name, value in params.items()}
        with self.connect() as connection:
            return connection.call(method, **plain)

    def add(self, project: Path) -> dict[str, Any]:
        """Add a project and wait until its baseline is complete; the project's `status` object."""
        self.call("project.add", project=project)
        return self.until(lambda: self._watching(project), 60, f"{project} is not watched")  # type: ignore[no-any-return]

    def _watching(self, project: Path) -> dict[str, Any] | None:
        for found in self.call("daemon.status")["projects"]:
            if found["path"] == str(project) and found["state"] == "watching" and not found["backlog"]:
                return found  # type: ignore[no-any-return]
        return None

    def client(
        self, *words: str, data: str | None = None, cwd: Path | None = None, seconds: float = 60.0, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the client to its end; output is text. Further keywords are added to its environment."""
        command = [sys.executable, "-m", "mulligan.client.main", *words]
        return subprocess.run(
            command,
            env=self.env | env,
            cwd=cwd or self.directory,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def kill9(self) -> None:
        """The process is gone at once; its children are left to find out by themselves."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"the daemon does not end within {STOP_SECONDS} s\n{self.log()}") from None

    def restart(self, *, kill: bool = False) -> None:
        """End it (SIGTERM, or kill −9) and start it again."""
        if kill:
            self.kill9()
        else:
            assert self.stop() == 0, self.log()
        self.start()

    def log(self) -> str:
        """All that the daemon has said so far, over all starts."""
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    def close(self) -> None:
        """End every process that was started with this environment, remove the directory, then judge the log."""
        try:
            if self.running:
                self.stop()
        finally:
            for pid in self._left_behind():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            log = self.log()
            _remove(self.directory)
        if not self.allow_traceback:
            assert "Traceback (most recent call last)" not in log, log

    def _left_behind(self) -> Iterator[int]:
        """Processes that bear this fixture's mark, as the daemon that a client started."""
        mark = f"{MARK}={self.directory}".encode()
        for name in os.listdir("/proc") if Path("/proc/self/environ").exists() else []:
            if name.isdigit() and int(name) != os.getpid():
                with contextlib.suppress(OSError):
                    if mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                        yield int(name)


def _remove(directory: Path) -> None:
    """Remove a tree of which the modes may forbid it."""
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        for parent, names, _ in os.walk(os.fsencode(directory)):
            for name in names:
                with contextlib.suppress(OSError):
                    os.chmod(os.path.join(parent, name), 0o700)
        shutil.rmtree(directory, ignore_errors=True)


def in_parallel(count: int, work: Callable[[int], Any]) -> list[Any]:
    """`work(0) … work(count - 1)` in threads that start together; their results, or the first exception."""
    gate = threading.Barrier(count)

    def run(number: int) -> Any:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@contextmanager
def stopped(daemon: DaemonFixture) -> Iterator[None]:
    """The daemon sees nothing and reads nothing for a while."""
    os.kill(daemon.pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{daemon.pid}/task")
    daemon.until(lambda: all(" T " in (task / "stat").read_text() for task in tasks.iterdir()))
    try:
        yield
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
