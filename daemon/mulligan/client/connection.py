"""The way to the daemon: where its socket is, one connection, calls and events.

Nothing here retries a call: a call that was sent may have been done. A daemon that cannot be reached is
DaemonNotRunningError; a reply may be of any length up to the protocol's limit.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mulligan.control.framing import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, REPLY_LIMIT, LineReader, encode
from mulligan.errors import DaemonNotRunningError, MulliganError, RefusedError, UsageError
from mulligan.paths import ADDRESS_NAME, default_state_dirs, places

JsonObject = dict[str, Any]

CONNECT_SECONDS = 5.0
#: Silence after which a short question counts as unanswered. Long operations wait without a limit.
ANSWER_SECONDS = 60.0
#: Methods whose work grows with the project or that wait for somebody.
UNLIMITED = frozenset(
    {
        "checkpoint.create",
        "checkpoint.diff",
        "checkpoint.restore",
        "checkpoint.cleanup",
        "events.subscribe",
        "file.blame",
        "file.history",
        "file.search",
        "operation.redo",
        "operation.rescue",
        "operation.revert",
        "operation.undo",
        "project.add",
        "project.remove",
        "store.drill",
        "store.gc",
        "store.purge",
        "store.rebuild",
        "store.usage",
        "store.verify",
        "watch.sync",
    }
)
_CHUNK = 1 << 18


def read_address(state_dir: str) -> JsonObject | None:
    """What a daemon wrote into `control.json` of a state directory; None if nothing usable is there."""
    try:
        with open(os.path.join(state_dir, ADDRESS_NAME), "rb") as file:
            address = json.loads(file.read(1 << 20))
    except (OSError, ValueError):
        return None
    if isinstance(address, dict) and isinstance(address.get("path"), str):
        return address
    return None


def candidates(environ: Mapping[str, str], given: str | None = None) -> list[str]:
    """The sockets to try, in order; a socket that was named on the command line is the only one."""
    if given:
        return [os.path.abspath(given)]
    found = []
    if named := environ.get("MULLIGAN_SOCKET"):
        found.append(os.path.abspath(named))
    for state_dir in default_state_dirs(environ):
        if address := read_address(state_dir):
            found.append(str(address["path"]))
    found.append(places({key: value for key, value in environ.items() if key != "MULLIGAN_SOCKET"}).socket)
    return list(dict.fromkeys(found))


def _classes() -> dict[str, type[MulliganError]]:
    found: dict[str, type[MulliganError]] = {}
    waiting = [MulliganError]
    while waiting:
        kind = waiting.pop()
        found.setdefault(kind.code, kind)
        waiting.extend(kind.__subclasses__())
    return found


def error_of(error: JsonObject, method: str) -> MulliganError:
    """The exception that a JSON-RPC error stands for."""
    number, message = error.get("code"), str(error.get("message") or "the daemon gave no reason")
    data = error.get("data") if isinstance(error.get("data"), dict) else {}
    assert isinstance(data, dict)
    rest = {key: value for key, value in data.items() if key not in {"code", "hint", "message", "exit_status"}}
    hint = str(data.get("hint") or "")
    if number == METHOD_NOT_FOUND:
        return MulliganError(
            f"the daemon does not know {method}", hint="mulligan restart, if it is an older one", **rest
        )
    if number == INVALID_PARAMS:
        return UsageError(message, hint=hint, **rest)
    if number == INTERNAL_ERROR:
        return MulliganError(message, hint=hint or "the reason is in the log: mulligan service logs", **rest)
    known = _classes()
    code = str(data.get("code", ""))
    if code in known:
        return known[code](message, hint=hint, **rest)
    status = data.get("exit_status")
    by_status = {kind.exit_status: kind for kind in reversed(known.values())}
    kind = by_status.get(status, MulliganError) if isinstance(status, int) else MulliganError
    return kind(message, hint=hint, **({"daemon_code": code} if code else {}), **rest)


def _require_text(value: object) -> None:
    """JSON holds no other bytes; paths of files have a parameter of their own for them."""
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeEncodeError:
        hint = "a directory with such a name is reached through a link: --project LINK"
        raise UsageError(f"{ascii(value)[1:-1]} is not UTF-8", hint=hint) from None


class Connection:
    """One connection to the daemon. Not for several threads."""

    def __init__(self, stream: socket.socket, path: str) -> None:
        self.path = path
        self._socket = stream
        self._reader = LineReader(REPLY_LIMIT)
        self._lines: list[bytes] = []
        self._last = 0

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def hello(self) -> JsonObject:
        """Greets the daemon: server, version, protocol, capabilities."""
        from mulligan import __version__  # noqa: PLC0415
        from mulligan.control.framing import PROTOCOL_VERSION  # noqa: PLC0415

        return self.call("hello", {"client": f"mulligan {__version__}", "protocol": [PROTOCOL_VERSION]})

    def call(
        self, method: str, params: JsonObject | None = None, progress: Callable[[JsonObject], None] | None = None
    ) -> JsonObject:
        """The result of one method; parameters that are None are left out.

        `progress` gets the parameters of progress notifications that come before the reply. Raises the error that the
        daemon gives, DaemonNotRunningError if it goes away, MulliganError if it stays silent.
        """
        self._last += 1
        given = {key: value for key, value in (params or {}).items() if value is not None}
        for value in given.values():
            _require_text(value)
        self._send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": given})
        self._socket.settimeout(None if method in UNLIMITED else ANSWER_SECONDS)
        while True:
            message = self._message(method)
            if message.get("method") == "progress" and progress:
                progress(message.get("params") or {})
            if "method" in message or message.get("id", self._last) not in {self._last, None}:
                continue
            if isinstance(error := message.get("error"), dict):
                raise error_of(error, method)
            result = message.get("result")
            return result if isinstance(result, dict) else {"result": result}

    def notifications(self) -> Iterator[tuple[str, JsonObject]]:
        """What the daemon sends on its own, as (method, parameters), until it closes the connection."""
        self._socket.settimeout(None)
        while True:
            try:
                message = self._message("events.subscribe")
            except DaemonNotRunningError:
                return
            if isinstance(method := message.get("method"), str):
                yield method, message.get("params") or {}

    def wait_closed(self, seconds: float) -> bool:
        """Whether the daemon closes the connection within that time."""
        self._socket.settimeout(seconds)
        try:
            while self._socket.recv(_CHUNK):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def _send(self, message: JsonObject) -> None:
        self._socket.settimeout(ANSWER_SECONDS)
        try:
            self._socket.sendall(encode(message))
        except TimeoutError:
            raise self._silent() from None
        except OSError:
            pass  # it may have answered before it closed: the reply says more than EPIPE does

    def _message(self, method: str) -> JsonObject:
        while not self._lines:
            try:
                data = self._socket.recv(_CHUNK)
            except TimeoutError:
                raise self._silent() from None
            except OSError:
                data = b""
            if not data:
                raise DaemonNotRunningError(
                    f"the daemon closed the connection before it answered {method}", hint="run: mulligan start"
                )
            try:
                self._lines = self._reader.feed(data)
            except ValueError:
                raise MulliganError(f"the reply to {method} is too long", hint="ask for less: --limit, PATH") from None
        line = self._lines.pop(0)
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise MulliganError(f"what answers at {self.path} is no mulligand", hint="mulligan doctor")
        return message

    def _silent(self) -> MulliganError:
        return MulliganError(
            f"the daemon did not answer within {ANSWER_SECONDS:.0f} s ({self.path})", hint="mulligan service logs"
        )


def connect(environ: Mapping[str, str], given: str | None = None) -> Connection:
    """A connection to the first socket that somebody listens at.

    Raises DaemonNotRunningError if there is none, RefusedError if one exists and may not be used.
    """
    refused: str | None = None
    for path in candidates(environ, given):
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.settimeout(CONNECT_SECONDS)
        try:
            stream.connect(path)
        except PermissionError:
            refused = refused or path
            stream.close()
        except (OSError, ValueError):
            stream.close()
        else:
            return Connection(stream, path)
    if refused:
        raise RefusedError(f"{refused} belongs to somebody else", hint="run mulligan as the user whose daemon it is")
    where = f" at {given}" if given else ""
    raise DaemonNotRunningError(f"the daemon is not running{where}", hint="run: mulligan start")
