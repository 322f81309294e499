"""A scripted stand-in for the model's API, in a thread: the real client talks to it and does what it says.

A prompt that holds `[[name]]` starts the script of that name; its n-th turn answers the n-th request since then, found
from the history that the client sends, so resumed and forked conversations are answered rightly without any memory.

A turn is a text (the last word), or a list of blocks: `{"text": …}`, `{"thinking": …}` or `{TOOL: arguments}`.
`{"retracted": text}` is, the first time, a reply that stops for a tool and calls none: newer clients take it back.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_MARK = re.compile(r"\[\[(\w+)\]\]")
_DONE = "DONE"


def text_of(content: Any) -> str:
    """All text of a message's content."""
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content or [] if block.get("type") == "text")


class MockApi:
    """Serves on loopback from `start` to `stop`; `url` is its address.

    `before_reply(label)` is called while the client waits: what it did before is done, and nothing new has begun. A
    label is the script's name and the turn, as "write/0". `calls` are the tools asked for: (label, tool, id).
    `requests` are what was asked, one for each of `labels`.
    """

    def __init__(self, scripts: dict[str, list[Any]], variables: dict[str, str]) -> None:
        text = json.dumps(scripts)
        for name, value in variables.items():
            text = text.replace("${" + name + "}", json.dumps(value)[1:-1])
        self.scripts: dict[str, list[Any]] = json.loads(text)
        self.before_reply: Callable[[str], None] = lambda _label: None
        self.calls: list[tuple[str, str, str]] = []
        self.labels: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self._retracted: set[str] = set()
        self._numbers = itertools.count(1)
        self._stamp = f"{time.time_ns():x}"
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """End; replies under way are cut off."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def new_id(self, prefix: str) -> str:
        """An id that no other run gives."""
        return f"{prefix}_01mock{self._stamp}{next(self._numbers):06d}"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The whole reply to a request for a message."""
        label, turn = self._choose(request)
        with self._lock:
            self.labels.append(label)
            self.requests.append(request)
            self.before_reply(label)
        stop = ""
        if isinstance(turn, dict):
            if label in self._retracted:
                turn = _DONE
            else:
                self._retracted.add(label)
                turn, stop = turn["retracted"], "tool_use"
        blocks = [{"text": turn}] if isinstance(turn, str) else turn
        content = [self._block(label, block) for block in blocks]
        calls = any(block["type"] == "tool_use" for block in content)
        return {
            "id": self.new_id("msg"),
            "type": "message",
            "role": "assistant",
            "model": request.get("model", "mock"),
            "content": content,
            "stop_reason": stop or ("tool_use" if calls else "end_turn"),
            "stop_sequence": None,
            "usage": {
                "input_tokens": 12,
                "cache_creation_input_tokens": 40,
                "cache_read_input_tokens": len(json.dumps(request)) // 4,
                "output_tokens": 20 * len(content) + 1,
            },
        }

    def _choose(self, request: dict[str, Any]) -> tuple[str, Any]:
        turn = 0
        for message in reversed(request.get("messages", [])):
            if message["role"] == "assistant":
                turn += 1
                continue
            marks = [name for name in _MARK.findall(text_of(message["content"])) if name in self.scripts]
            if marks and request.get("tools"):
                script = self.scripts[marks[-1]]
                return f"{marks[-1]}/{turn}", script[turn] if turn < len(script) else _DONE
        return "side", "A title"

    def _block(self, label: str, block: dict[str, Any]) -> dict[str, Any]:
        ((kind, value),) = block.items()
        if kind == "text":
            return {"type": "text", "text": value}
        if kind == "thinking":
            return {"type": "thinking", "thinking": value, "signature": "c2lnbmF0dXJl"}
        tool = self.new_id("toolu")
        self.calls.append((label, kind, tool))
        return {"type": "tool_use", "id": tool, "name": kind, "input": value}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], api: MockApi) -> None:
        super().__init__(address, _Handler)
        self.api = api

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Nothing is written to the terminal."""

    def do_HEAD(self) -> None:
        self._json(200, None)

    def do_GET(self) -> None:
        self._json(200, {"data": [], "has_more": False, "first_id": None, "last_id": None})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        path = self.path.partition("?")[0]
        if path == "/v1/messages/count_tokens":
            self._json(200, {"input_tokens": 1})
        elif path != "/v1/messages":
            self._json(404, {"type": "error", "error": {"type": "not_found_error", "message": "not found"}})
        elif request.get("stream"):
            self._stream(self.server.api.answer(request))
        else:
            self._json(200, self.server.api.answer(request))

    def _json(self, status: int, payload: Any) -> None:
        data = b"" if payload is None else json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, message: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("request-id", self.server.api.new_id("req"))
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in _events(message):
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A reply as the API streams it."""
    usage = {**message["usage"], "output_tokens": 1}
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": usage}}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            start, deltas = {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        elif block["type"] == "thinking":
            start = {**block, "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        else:
            start = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stopped = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stopped, "usage": message["usage"]}
    yield {"type": "message_stop"}
