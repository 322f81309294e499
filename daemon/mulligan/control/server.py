"""The control server: JSON-RPC 2.0, a message a line, over a Unix socket that only this user may open.

Handlers run in request threads, so a slow one delays its own connection only. Every peer's uid is checked. A line over
the limit ends the connection after an error; a subscriber that does not read is told `lost` and closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from mulligan.control import framing
from mulligan.control.methods import METHODS, Params
from mulligan.control.objects import show_path
from mulligan.control.peer import has_hung_up, peer_uid
from mulligan.control.services import Call, Services
from mulligan.control.subscription import Subscription
from mulligan.errors import MulliganError
from mulligan.paths import SOCKET_PATH_LIMIT
from mulligan.store.atomic import make_private_directory

log = logging.getLogger(__name__)
_THREADS = 16
_READ_SIZE = 1 << 16

Spawn = Callable[[Any, str], "asyncio.Task[Any]"]


def bind(path: str) -> socket.socket:
    """A listening socket at a path, 0600 in a 0700 directory. Raises MulliganError if the path is too long.

    The caller holds the data directory's lock, so a socket that is there already is a dead daemon's and is replaced.
    """
    if len(os.fsencode(path)) > SOCKET_PATH_LIMIT:
        raise MulliganError(
            f"the socket path {path} is longer than {SOCKET_PATH_LIMIT} bytes",
            hint="set MULLIGAN_SOCKET to a shorter one",
        )
    make_private_directory(os.path.dirname(path))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    before = os.umask(0o177)  # nothing else runs yet: the socket is 0600 from its creation on
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(128)
    return listener


class Server:
    """Answers requests until it is closed. `spawn(coroutine, name)` makes tasks."""

    def __init__(self, services: Services, spawn: Spawn) -> None:
        self._services, self._spawn = services, spawn
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="request")
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self, listener: socket.socket) -> None:
        """Begin to answer on a listening socket."""
        self._server = await asyncio.start_unix_server(self._connected, sock=listener, limit=framing.LINE_LIMIT)

    async def close(self) -> None:
        """Stop listening and drop the connections."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        uid = peer_uid(writer.get_extra_info("socket"))
        if uid not in (0, os.getuid()):
            log.warning("a connection of uid %s was refused", uid)
            writer.close()
            return
        self._writers.add(writer)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = framing.LineReader()
        while data := await reader.read(_READ_SIZE):
            try:
                whole = lines.feed(data)
            except framing.LineTooLongError:
                message = f"a message may have {framing.LINE_LIMIT:,} bytes at the most"
                writer.write(framing.encode(_error(None, framing.INVALID_REQUEST, message, hint="send less at a time")))
                await writer.drain()
                return
            for line in whole:
                if line.strip() and not await self._answer(line, reader, writer):
                    return

    async def _answer(self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one message; False if the connection is now a subscription's and has ended."""
        try:
            request = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else error
            await self._send(writer, _error(None, framing.PARSE_ERROR, f"not JSON: {reason}"))
            return True
        if not isinstance(request, dict) or not isinstance(request.get("method"), str):
            await self._send(writer, _error(None, framing.INVALID_REQUEST, "a request is an object with a method"))
            return True
        number, name, parameters = request.get("id"), request["method"], request.get("params") or {}
        if name == "events.subscribe":
            subscription = Subscription(self._services.bus, writer)
            listening = self._spawn(_end_with_peer(subscription, reader, writer), "subscriber")
            try:
                return await subscription.run(number, parameters)
            finally:
                listening.cancel()
        reply = await self._call(number, name, parameters, writer)
        if "id" in request:
            await self._send(writer, reply)
        return True

    @staticmethod
    async def _send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        writer.write(_line(message))
        await writer.drain()

    async def _call(self, number: Any, name: str, parameters: Any, writer: asyncio.StreamWriter) -> dict[str, Any]:
        method = METHODS.get(name)
        if method is None:
            return _error(number, framing.METHOD_NOT_FOUND, f'no method "{name}"', hint="rpc.discover lists them")
        try:
            params: Params = msgspec.convert(parameters, method.params)
        except msgspec.ValidationError as error:
            return _error(number, framing.INVALID_PARAMS, f"{name}: {error}")
        loop = asyncio.get_running_loop()

        def progress(**fields: Any) -> None:
            message = framing.encode({"jsonrpc": "2.0", "method": "progress", "params": fields})
            loop.call_soon_threadsafe(_write_if_open, writer, message)

        call = Call(self._services, progress)
        try:
            result = await loop.run_in_executor(self._threads, method.handler, call, params)
        except MulliganError as error:
            return _expected(number, error)
        except Exception:
            log.exception("%s failed", name)
            return _error(number, framing.INTERNAL_ERROR, f"{name} failed inside the daemon", hint="see its log")
        return {"jsonrpc": "2.0", "id": number, "result": {"version": 1, **result}}


def _line(message: dict[str, Any]) -> bytes:
    """A message as `framing.encode` makes it, in a tenth of the time, which is the loop's: a list may be long."""
    try:
        return msgspec.json.encode(message) + b"\n"
    except (UnicodeEncodeError, RecursionError):
        return framing.encode(message)


def _write_if_open(writer: asyncio.StreamWriter, message: bytes) -> None:
    if not writer.is_closing():
        writer.write(message)


async def _end_with_peer(
    subscription: Subscription, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """End a subscription when its peer goes: what nobody reads would be sent for ever."""
    while await reader.read(_READ_SIZE):
        pass  # it takes no further requests
    if has_hung_up(writer.get_extra_info("socket")):
        subscription.end()


def _error(number: Any, code: int, message: str, hint: str = "") -> dict[str, Any]:
    data = {"code": "protocol", "hint": hint, "exit_status": 1}
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message, "data": data}}


def _expected(number: Any, error: MulliganError) -> dict[str, Any]:
    details = {name: _plain(value) for name, value in error.data.items()}
    data = {**details, "code": error.code, "hint": error.hint, "exit_status": error.exit_status}
    return {
        "jsonrpc": "2.0",
        "id": number,
        "error": {"code": framing.APPLICATION_ERROR, "message": error.message, "data": data},
    }


def _plain(value: Any) -> Any:
    """What an error tells, fit for JSON: paths are bytes inside and text outside."""
    if isinstance(value, bytes):
        return show_path(value)
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
