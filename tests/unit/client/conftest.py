"""A small daemon for the client's tests: a thread that speaks the protocol over a real Unix socket."""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

Answer = dict[str, Any] | Callable[[dict[str, Any]], Any]


class Daemon:
    """Answers with what was put into `answers`; keeps what it was asked in `asked`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.before: list[dict[str, Any]] = []
        self.after: list[dict[str, Any]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def fails(self, method: str, code: str, status: int, message: str = "no", **data: Any) -> None:
        """Makes a method answer with an error of ours."""

        def error(_: dict[str, Any]) -> Any:
            return "error", {
                "code": -32000,
                "message": message,
                "data": {"code": code, "hint": "step", "exit_status": status, **data},
            }

        self.answers[method] = error

    def close(self) -> None:
        """Ends the thread."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            with stream:
                self._serve(stream)

    def _serve(self, stream: socket.socket) -> None:
        with stream.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                self.asked.append((request["method"], request.get("params", {})))
                answer = self.answers.get(request["method"])
                if answer is None:
                    reply: Any = ("error", {"code": -32601, "message": "no method"})
                else:
                    reply = answer(request.get("params", {})) if callable(answer) else answer
                if reply == "hang up":
                    return
                name, value = reply if isinstance(reply, tuple) else ("result", reply)
                whole = {"jsonrpc": "2.0", "id": request["id"], name: value}
                messages = [*self.before, whole, *self.after]
                try:
                    for message in messages:
                        stream.sendall(json.dumps(message).encode() + b"\n")
                except OSError:
                    return
                if request["method"] == "events.subscribe":
                    return


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """A daemon that clients of this test find, and no other."""
    directory = tempfile.mkdtemp(prefix="mc-")  # short: socket paths have 107 bytes
    for name in [name for name in os.environ if name.startswith(("MULLIGAN_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", directory)
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.path.join(directory, "run"))
    monkeypatch.setenv("MULLIGAN_SOCKET", os.path.join(directory, "s"))
    monkeypatch.setenv("COLUMNS", "80")
    running = Daemon(os.path.join(directory, "s"))
    yield running
    running.close()
    shutil.rmtree(directory)
