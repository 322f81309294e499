"""Tool calls, their windows, and what the machine keeps of them."""

from __future__ import annotations

from typing import Any

import msgspec

from mulligan.model import Tool
from mulligan.session.events import (
    CaptureHint,
    ClientGone,
    CloseCall,
    Condition,
    EndBackground,
    EndTurn,
    Note,
    OpenCall,
    Settings,
    Strategy,
    TakeCheckpoint,
    Tick,
)
from mulligan.session.machine import CALL_TIMEOUT
from mulligan.session.state import MOST_CALLS, MOST_KEYS, MOST_QUEUED, State
from mulligan.session.tools import ToolClass
from support.transcripts import Feeder, Writer, at, lines, only, queue, taken, texts, turn

S = "s1"
PER_PROMPT = Settings(strategy=Strategy.PER_PROMPT, turn_end=False)
PER_TOOL = Settings(strategy=Strategy.PER_TOOL_USE, turn_end=False)


def test_X7_a_call_without_a_result_is_closed_by_what_comes_next() -> None:
    for closing, reason in (
        (lambda write: write.user("next"), "prompt"),
        (lambda write: write.end("m9"), "turn_end"),
        (lambda write: write.user([{"type": "text", "text": "[Request interrupted by user]"}]), "interrupted"),
    ):
        feeder, write = Feeder(PER_TOOL), Writer()
        lines(S, feeder, [write.user("a"), write.call("t1", "Bash")])
        commands = feeder.line(S, closing(write))
        assert [(one.tool, one.reason) for one in only(commands, CloseCall)] == [("t1", reason)]
        assert taken(commands) == []
        late = feeder.line(S, write.result("t1"))
        assert [(one.tool, one.reason) for one in only(late, CloseCall)] == [("t1", "result")]
        assert taken(late) == [("tool_use", "tool_use:t1")]


def test_X7_a_call_without_a_result_is_closed_by_time_or_the_clients_end() -> None:
    feeder, write = Feeder(PER_TOOL), Writer()
    feeder.line(S, write.call("t1", "Bash"))
    assert feeder.event(S, Tick(at(100) + CALL_TIMEOUT)) == []
    commands = feeder.event(S, Tick(at(101) + CALL_TIMEOUT))
    assert [one.reason for one in only(commands, CloseCall)] == ["timeout"]
    assert feeder.event(S, Tick(at(200) + CALL_TIMEOUT)) == []
    feeder.line(S, write.call("t2", "Bash", isSidechain=True))
    assert [one.reason for one in only(feeder.event(S, ClientGone(at(900))), CloseCall)] == ["client_gone"]


def test_X7_a_failed_edit_is_taken_by_smart_only_if_the_tree_differs() -> None:
    feeder, write = Feeder(), Writer()
    lines(S, feeder, [write.user("a"), write.call("t1", "Edit")])
    commands = feeder.line(S, write.result("t1", is_error=True, told="Error: no"))
    (one,) = only(commands, TakeCheckpoint)
    assert (one.condition, one.tool) == (Condition.TREE_DIFFERS, Tool("Edit", "t1", True))
    assert only(commands, CloseCall)[0].is_error


def test_X7_parallel_calls_each_have_their_window() -> None:
    feeder, write = Feeder(PER_TOOL), Writer()
    commands = lines(
        S,
        feeder,
        [
            write.user("a"),
            write.call("t1", "Write", "m1", input={"file_path": "/p/1"}),
            write.call("t2", "Bash", "m1"),
            write.result("t2"),
            write.result("t1"),
        ],
    )
    assert [(one.tool, one.start, one.paths) for one in only(commands, OpenCall)] == [
        ("t1", at(200), (b"/p/1",)),
        ("t2", at(300), ()),
    ]
    assert [(one.tool, one.end) for one in only(commands, CloseCall)] == [("t2", at(400)), ("t1", at(500))]
    assert taken(commands) == [("tool_use", "tool_use:t2"), ("tool_use", "tool_use:t1")]


def test_X7_a_background_shell_goes_on_until_it_is_said_to_have_ended() -> None:
    feeder, write = Feeder(PER_TOOL), Writer()
    lines(S, feeder, [write.user("a"), write.call("t1", "Bash")])
    closed = only(feeder.line(S, write.result("t1", told={"stdout": "", "backgroundTaskId": "b"})), CloseCall)
    assert closed[0].background
    text = "<task-notification>\n<tool-use-id>t1</tool-use-id>\n</task-notification>"
    ended = [queue(write, "enqueue", content=text), queue(write, "dequeue"), write.user(text)]
    assert [(one.tool, one.end) for one in only(lines(S, feeder, ended), EndBackground)] == [("t1", at(400))]


def test_a_result_before_its_call_is_taken_and_the_window_mended() -> None:
    feeder, write = Feeder(PER_TOOL), Writer()
    call = write.call("t1", "Bash")
    commands = feeder.line(S, write.result("t1", told={"oldString": "x", "filePath": "/p/a"}))
    assert [(one.name, one.start) for one in only(commands, OpenCall)] == [("Edit", at(200))]
    assert taken(commands) == [("tool_use", "tool_use:t1")]
    assert only(commands, Note)
    mended = feeder.line(S, call)
    assert [(one.name, one.start) for one in only(mended, OpenCall)] == [("Bash", at(100))]
    assert taken(mended) == []


def test_a_subagents_calls_are_its_parents_and_outlive_the_turn() -> None:
    feeder, write = Feeder(PER_TOOL), Writer()
    agent: dict[str, Any] = {"isSidechain": True, "agentId": "a1"}
    lines(S, feeder, [write.user("a"), write.call("t0", "Agent"), write.result("t0", told={"isAsync": True})])
    commands = lines(
        S,
        feeder,
        [
            write.user("sub job", **agent),
            write.call("t1", "Bash", **agent),
            write.end("m1"),
            write.user("next"),
            write.result("t1", **agent),
        ],
    )
    assert texts(commands) == ["next"]
    assert [(one.tool, one.agent, one.session) for one in only(commands, OpenCall)] == [("t1", True, S)]
    assert [(one.tool, one.reason) for one in only(commands, CloseCall)] == [("t1", "result")]
    assert taken(commands) == [("tool_use", "tool_use:t1")]


def test_a_subagents_model_and_last_word_are_not_the_sessions() -> None:
    feeder, write = Feeder(), Writer()
    lines(S, feeder, [write.user("a"), write.end("m1"), write.user("b")])
    done = write.assistant("m2", stop="end_turn", isSidechain=True, agentId="a1", model="small")
    assert only(feeder.line(S, done), EndTurn) == []
    assert feeder.machine(S).metadata().model_used == "m-1"
    assert feeder.machine(S).metadata().output_tokens == 40


def test_files_that_a_call_names_are_to_be_looked_at() -> None:
    feeder, write = Feeder(PER_TOOL), Writer()
    command = "rm -f .env && echo x > out/log"
    for line, paths in (
        (write.call("t1", "Write", input={"file_path": "/p/a"}), (b"/p/a",)),
        (write.call("t2", "Bash", input={"command": command}), (b"/p/.env", b"/p/out/log")),
        (write.call("t3", "Read", input={"file_path": "/p/a"}), None),
        (write.result("t2", told={"bashEditDiff": {"changedFiles": ["/p/c"]}}), (b"/p/c",)),
    ):
        hints = [one.paths for one in only(feeder.line(S, line), CaptureHint)]
        assert hints == ([paths] if paths else [])
    assert only(feeder.commands, OpenCall)[1].paths == ()  # a shell's names are no claim
    assert [one.tool_class for one in only(feeder.commands, OpenCall)] == [
        ToolClass.PATH,
        ToolClass.WINDOW,
        ToolClass.READ_ONLY,
    ]


def test_X9_the_session_is_the_files_and_its_directory_the_lines() -> None:
    write = Writer("claimed", cwd="/home/a.b/my-project_x y")
    commands = lines("stem", Feeder(PER_TOOL), turn(write, name="Edit"))
    assert {one.session for one in only(commands, OpenCall)} == {"stem"}
    relative = write.call("t2", "Write", input={"file_path": "é/f"})
    (opened,) = only(Feeder(PER_TOOL).line("stem", relative), OpenCall)
    assert opened.paths == ("/home/a.b/my-project_x y/é/f".encode(),)


def test_a_line_without_a_time_is_about_now() -> None:
    write = Writer()
    script = [{key: value for key, value in line.items() if key != "timestamp"} for line in turn(write)]
    commands = lines(S, Feeder(Settings(strategy=Strategy.PER_TOOL_USE)), script)
    assert [one.moment for one in only(commands, TakeCheckpoint)] == [None, None]


def test_the_state_is_bounded_and_survives_as_bytes() -> None:
    feeder, write = Feeder(PER_TOOL), Writer()
    for number in range(400):
        lines(
            S, feeder, [write.user(f"{number}"), write.call(f"t{number}", "Bash"), queue(write, "enqueue", content="q")]
        )
    state = feeder.machine(S).state
    assert len(state.keys) == MOST_KEYS
    assert len(state.calls) == MOST_CALLS
    assert len(state.queue) == MOST_QUEUED
    data = msgspec.msgpack.encode(state)
    assert len(data) < 100_000
    assert msgspec.msgpack.decode(data, type=State) == state
