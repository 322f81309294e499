"""However a transcript reaches the daemon, in whatever slices and over whatever restarts, the same comes out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mulligan.session.events import Reread, SessionCommand, Settings, Strategy
from mulligan.session.machine import SessionMachine
from mulligan.session.state import State
from mulligan.transcript.parse import parse_line
from mulligan.transcript.tail import Tail, TailState
from support.transcripts import FIXTURES

FILES = [
    "2.1.332/kitchen/projects/-home-dev-K-2-1-332---x/2ad0265b-a908-4890-9a78-d733e541a7ee.jsonl",
    "2.1.332/branch/projects/-home-dev-Br-2-1-332/eece9a7a-7e32-4d3d-98b3-1de4cd2f50c6.jsonl",
    "2.1.100/interactive/projects/-home-dev-D-2-1-100/e3c770bf-7aba-45a3-abd9-12191120e88e.jsonl",
    "2.0.76/interactive/projects/-home-dev-D-2-0-76/f99c25ad-c112-40be-8009-1b0cd2c51d1e.jsonl",
    "1.0.128/kitchen/projects/-home-dev-K-1-0-128---x/1ab29553-d439-4197-b53f-621cc020d597.jsonl",
    "1.0.60/print/projects/-home-dev-A-1-0-60/ead5b045-4f41-489c-920e-69deff34a5e7.jsonl",
]


class Daemon:
    """Tail and machine whose states are stored together after each read, and loaded again at a restart."""

    def __init__(self, path: Path, strategy: Strategy) -> None:
        self.path, self.settings = path, Settings(strategy=strategy)
        self.catalogue: set[str] = set()
        self.commands: list[SessionCommand] = []
        self.stored = (msgspec.msgpack.encode(TailState()), msgspec.msgpack.encode(State(path.stem)))
        self.start()

    def start(self) -> None:
        tail, state = self.stored
        self.tail = Tail(str(self.path), msgspec.msgpack.decode(tail, type=TailState))
        machine_state = msgspec.msgpack.decode(state, type=State)
        self.machine = SessionMachine(machine_state, self.catalogue.__contains__, self.settings)

    def read(self, limit: int, *, commit: bool = True) -> bool:
        step = self.tail.read(limit)
        commands = self.machine.feed(Reread()) if step.restart else []
        for _, line in step.lines:
            commands += [one for event in parse_line(line).events for one in self.machine.feed(event)]
        if commit:
            self.commands += commands
            for command in commands:
                self.catalogue |= {key for name in ("key", "event_key") if (key := getattr(command, name, ""))}
            self.stored = (msgspec.msgpack.encode(self.tail.state), msgspec.msgpack.encode(self.machine.state))
        return step.more

    def read_all(self, limit: int = 1 << 20) -> None:
        while self.read(limit):
            pass


def whole(path: Path, strategy: Strategy) -> list[SessionCommand]:
    daemon = Daemon(path, strategy)
    daemon.read_all()
    return daemon.commands


@pytest.mark.parametrize("name", FILES, ids=[Path(name).stem for name in FILES])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_slices_and_restarts_give_the_same_commands(name: str, data: st.DataObject, tmp_path: Path) -> None:
    strategy = data.draw(st.sampled_from([Strategy.PER_PROMPT, Strategy.PER_TOOL_USE, Strategy.SMART]))
    content = (FIXTURES / name).read_bytes()
    expected = whole(FIXTURES / name, strategy)
    path = tmp_path / Path(name).name
    path.write_bytes(b"")
    daemon = Daemon(path, strategy)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=12)))
    for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        with path.open("ab") as file:
            file.write(content[start:end])
        event = data.draw(st.sampled_from(["read", "step", "crash", "restart", "nothing"]))
        if event == "read":
            daemon.read_all()
        elif event == "step":
            daemon.read(data.draw(st.integers(1, 10_000)))
        elif event == "crash":  # after the work was done and before it was stored
            daemon.read(data.draw(st.integers(1, 100_000)), commit=False)
            daemon.start()
        elif event == "restart":
            daemon.read(50_000)
            daemon.start()
    daemon.read_all(data.draw(st.sampled_from([1, 100, 1 << 20])))
    assert daemon.commands == expected
    assert len(expected) > 5


@pytest.mark.parametrize("name", FILES, ids=[Path(name).stem for name in FILES])
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_rewritten_under_the_reader_gives_nothing_twice(name: str, data: st.DataObject, tmp_path: Path) -> None:
    content = (FIXTURES / name).read_bytes()
    path = tmp_path / Path(name).name
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    daemon = Daemon(path, Strategy.PER_TOOL_USE)
    daemon.read_all()
    lines = content.splitlines(keepends=True)
    gone = data.draw(st.integers(0, len(lines) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(b"".join(lines[:gone] + lines[gone + 1 :]))
    else:
        (tmp_path / "new").write_bytes(content)
        os.replace(tmp_path / "new", path)
    daemon.read_all()
    keys = [key for one in daemon.commands if (key := getattr(one, "event_key", ""))]
    assert len(keys) == len(set(keys))
    prompts = [one for one in daemon.commands if type(one).__name__ == "RecordPrompt"]
    assert len(prompts) == len({one.key for one in prompts if hasattr(one, "key")})


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_the_parser_raise(line: bytes) -> None:
    parse_line(line)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "system", "attachment", "queue-operation", "progress"]) | JSON},
    optional={
        "message": JSON
        | st.fixed_dictionaries(
            {
                "content": JSON
                | st.lists(
                    st.fixed_dictionaries(
                        {"type": st.sampled_from(["text", "tool_use", "tool_result"])},
                        optional={
                            "id": JSON,
                            "name": JSON,
                            "input": JSON,
                            "text": JSON,
                            "tool_use_id": JSON,
                            "is_error": JSON,
                        },
                    ),
                    max_size=3,
                )
            },
            optional={"id": JSON, "usage": JSON, "stop_reason": JSON, "model": JSON},
        ),
        "subtype": st.sampled_from(["turn_duration", "compact_boundary"]) | JSON,
        "operation": st.sampled_from(["enqueue", "remove"]) | JSON,
        "attachment": st.fixed_dictionaries(
            {"type": st.just("queued_command")}, optional={"prompt": JSON, "origin": JSON}
        ),
        **dict.fromkeys(("uuid", "parentUuid", "timestamp", "cwd", "version"), JSON),
        **dict.fromkeys(("isMeta", "origin", "toolUseResult", "content"), JSON),
    },
)


@settings(max_examples=300, deadline=None)
@given(st.lists(FIELDS, max_size=4))
def test_no_objects_make_the_parser_or_the_machine_raise(written: list[dict[str, object]]) -> None:
    machine = SessionMachine(State("s"), lambda key: False, Settings(strategy=Strategy.PER_TOOL_USE))
    for line in written:
        for event in parse_line(json.dumps(line).encode()).events:
            machine.feed(event)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(machine.state), type=State) == machine.state
