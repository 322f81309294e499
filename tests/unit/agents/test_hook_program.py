"""The hook program by itself: silent, always 0, in time, whatever is or is not at the other end."""

from __future__ import annotations

import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mulligan.agents import hook
from mulligan.client.connection import candidates
from support.daemon import DaemonFixture, stopped

PROGRAM = Path(hook.__file__)
BARE = [sys.executable, "-I", "-S", "-E"]


class Listener:
    """Answers each message with the same bytes, and keeps the messages; None: never."""

    def __init__(self, path: Path, reply: bytes | None) -> None:
        self.path, self.reply, self.messages = path, reply, list[bytes]()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._kept: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                stream, _ = self._socket.accept()
            except OSError:
                return
            self._kept.append(stream)
            with stream.makefile("rb") as lines:
                self.messages.append(lines.readline())
            if self.reply is not None:
                stream.sendall(self.reply)
                stream.close()

    def close(self) -> None:
        self._socket.close()
        for stream in self._kept:
            stream.close()


def reply_of(output: str) -> bytes:
    message = {"jsonrpc": "2.0", "id": 1, "result": {"version": 1, "output": output}}
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def program(
    raw: bytes, environ: dict[str, str], event: str = "Stop", stdin: int | None = None
) -> tuple[subprocess.CompletedProcess[bytes], float]:
    """Run it; the result and the seconds that it took."""
    given = {"stdin": stdin} if stdin is not None else {"input": raw}
    began = time.perf_counter()
    done = subprocess.run(
        [*BARE, str(PROGRAM), event], env=environ, capture_output=True, timeout=20, check=False, **given  # type: ignore[call-overload]
    )  # fmt: skip
    return done, time.perf_counter() - began


def assert_silent(done: subprocess.CompletedProcess[bytes], stdout: bytes = b"") -> None:
    assert (done.returncode, done.stdout, done.stderr) == (0, stdout, b"")


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short path for a socket."""
    directory = Path(os.path.realpath(f"/tmp/mh{os.getpid()}-{random.randrange(10**6)}"))
    directory.mkdir()
    yield directory
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()


def test_the_input_arrives_as_it_is(place: Path) -> None:
    listener = Listener(place / "s", reply_of(""))
    raw = '{"prompt": "tab\\t \\"quoted\\" é \U0001f600 \\u2028",\n\t"x": "\x7f"}'
    done, _ = program(raw.encode() + b"\xff", {"MULLIGAN_SOCKET": str(listener.path)})
    assert_silent(done)
    (line,) = listener.messages
    message = json.loads(line)
    assert message["method"] == "hook.deliver"
    assert message["params"]["input"] == raw + "�"
    assert message["params"]["event"] == "Stop"
    assert message["params"]["pid"] == os.getpid()
    assert 0 <= time.monotonic_ns() - message["params"]["sent"] < 10**10
    listener.close()


@pytest.mark.parametrize("output", ["x", 'two\nlines "quoted" é \\u', "y" * 300_000], ids=["short", "odd", "long"])
def test_what_the_daemon_answers_is_printed_and_nothing_else(place: Path, output: str) -> None:
    listener = Listener(place / "s", reply_of(output))
    done, _ = program(b"{}", {"MULLIGAN_SOCKET": str(listener.path)})
    assert_silent(done, output.encode())
    listener.close()


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\n",
        b"no\n",
        b'{"output":\n',
        b'{"result":{"output":7}}\n',
        b'{"error":{}}\n',
        b"\xff" * 9,
        b'"output":"\\',
    ],
)
def test_garbage_is_no_answer(place: Path, reply: bytes) -> None:
    listener = Listener(place / "s", reply)
    assert_silent(program(b"{}", {"MULLIGAN_SOCKET": str(listener.path)})[0])
    listener.close()


def test_nobody_there_is_no_matter(place: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(place / "dead"))
    dead.close()
    (place / "file").touch()
    for name in ("dead", "file", "missing", "n" * 300):
        environ = {"MULLIGAN_SOCKET": str(place / name), "HOME": str(place), "XDG_RUNTIME_DIR": str(place)}
        assert_silent(program(b"{}", environ)[0])
    assert_silent(program(b"", {})[0])


def test_without_an_input_or_an_event_or_an_output(place: Path) -> None:
    listener = Listener(place / "s", reply_of("something"))
    environ = {"MULLIGAN_SOCKET": str(listener.path)}
    words = " ".join(f"'{word}'" for word in (*BARE, PROGRAM))
    for line in (f"{words} Stop <&-", f"{words} Stop < /dev/null >&-", words):
        done = subprocess.run(["/bin/sh", "-c", line], env=environ, capture_output=True, timeout=20, check=False)
        assert (done.returncode, done.stderr) == (0, b""), line
    listener.close()


def test_a_huge_input_is_read_to_its_end_and_not_sent(place: Path) -> None:
    listener = Listener(place / "s", reply_of(""))
    done, _ = program(b'{"x": "' + b'"' * (8 << 20), {"MULLIGAN_SOCKET": str(listener.path)})
    assert_silent(done)
    assert json.loads(listener.messages[0])["params"].items() >= {"input": "", "cut": True}.items()
    listener.close()


def test_it_gives_up_on_whoever_does_not_answer_and_on_an_input_without_an_end(place: Path) -> None:
    listener = Listener(place / "s", None)
    reading, writing = os.pipe()
    for stdin in (None, reading):
        took = []
        for _ in range(3):
            done, seconds = program(b"{}", {"MULLIGAN_SOCKET": str(listener.path)}, stdin=stdin)
            assert_silent(done)
            took.append(seconds)
        assert 0.15 < min(took) < 0.25
    os.close(reading)
    os.close(writing)
    listener.close()


def test_the_command_is_the_same_program(place: Path) -> None:
    listener = Listener(place / "s", reply_of("told"))
    command = [sys.executable, "-m", "mulligan.client.main", "--socket", str(listener.path), "hook", "PreCompact"]
    done = subprocess.run(command, input=b"{}", capture_output=True, timeout=20, check=False)
    assert_silent(done, b"told")
    assert json.loads(listener.messages[0])["params"]["event"] == "PreCompact"
    listener.close()


def test_a_daemon_that_hangs_is_left_alone(daemon_factory: object) -> None:
    daemon: DaemonFixture = daemon_factory()  # type: ignore[operator]
    with stopped(daemon):
        for _ in range(3):
            done, seconds = program(b"{}", daemon.env)
            assert_silent(done)
    assert seconds < 1
    daemon.call("daemon.status")


def test_the_daemon_is_found_where_the_client_finds_it(tmp_path: Path) -> None:
    words = [None, "", str(tmp_path / "a"), str(tmp_path / "b")]
    for name in ("a/mulligan", "b/mulligan", "a", "b", "a/.local/state/mulligan", "é/.local/state/mulligan"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        address = {"path": f"/run/{name}", "pid": 1}
        (tmp_path / name / "control.json").write_text(json.dumps(address, indent=1))
    chance = random.Random(1)
    names = ("MULLIGAN_SOCKET", "MULLIGAN_STATE_DIR", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HOME")
    for _ in range(300):
        environ = {name: word for name in names if (word := chance.choice([*words, str(tmp_path / "é")])) is not None}
        found = hook.sockets({key.encode(): value.encode() for key, value in environ.items()})
        assert list(dict.fromkeys(map(os.fsdecode, found))) == candidates(environ), environ
    given = hook.sockets({b"HOME": str(tmp_path).encode()}, str(tmp_path / "b"))
    assert given[0] == b"/run/b"


def test_it_costs_little_more_than_the_interpreter(place: Path) -> None:
    listener = Listener(place / "s", reply_of(""))
    environ = {"MULLIGAN_SOCKET": str(listener.path)}
    raw = json.dumps({"tool_input": {"content": "line\n" * 2000}}).encode()
    bare, whole = [], []
    for _ in range(25):
        began = time.perf_counter()
        subprocess.run([*BARE, "-c", "pass"], env=environ, input=raw, check=True)
        bare.append(time.perf_counter() - began)
        whole.append(program(raw, environ)[1])
    assert statistics.median(whole) - statistics.median(bare) < 0.012
    assert min(whole) - min(bare) < 0.006
    listener.close()


@pytest.mark.parametrize("words", [[], ["PreToolUse", "and more"]])
def test_the_command_is_no_usage_error_which_would_refuse_the_agents_call(words: list[str]) -> None:
    command = [sys.executable, "-m", "mulligan.client.main", "--socket", "/nowhere", "hook", *words]
    done = subprocess.run(command, input=b"{}", capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
