"""The machine as scripts: lines in, commands out."""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.model import Tool
from mulligan.session.events import (
    ClientIdle,
    CloseCall,
    Condition,
    EndTurn,
    OpenCall,
    RecordPrompt,
    RecordUsage,
    Reread,
    Settings,
    Strategy,
    TakeCheckpoint,
    Tick,
)
from mulligan.session.machine import CALL_TIMEOUT
from mulligan.session.state import SILENCE, at_work
from support.transcripts import MILLISECOND, Feeder, Writer, at, lines, only, queue, taken, texts, turn

S = "s1"
PER_PROMPT = Settings(strategy=Strategy.PER_PROMPT, turn_end=False)
PER_TOOL = Settings(strategy=Strategy.PER_TOOL_USE, turn_end=False)


# -- strategies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Settings(strategy=Strategy.MANUAL), []),
        (Settings(strategy=Strategy.PER_PROMPT), [("prompt", "always"), ("turn_end", "tree_differs")]),
        (Settings(strategy=Strategy.PER_TOOL_USE), [("tool_use", "always"), ("turn_end", "tree_differs")]),
        (Settings(strategy=Strategy.SMART), [("tool_use", "tree_differs"), ("turn_end", "tree_differs")]),
        (Settings(strategy=Strategy.SMART, turn_end=False), [("tool_use", "tree_differs")]),
        (Settings(strategy=Strategy.PER_PROMPT, auto_checkpoint=False), []),
    ],
)
def test_what_each_strategy_takes(settings: Settings, expected: list[tuple[str, str]]) -> None:
    commands = lines(S, Feeder(settings), turn(Writer()))
    assert [(one.trigger, one.condition) for one in only(commands, TakeCheckpoint)] == expected
    assert [one.strategy for one in only(commands, TakeCheckpoint)] == [settings.strategy] * len(expected)
    assert texts(commands) == ["please"]  # recorded under each of them


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        ("Write", Condition.TREE_DIFFERS),
        ("Edit", Condition.TREE_DIFFERS),
        ("MultiEdit", Condition.TREE_DIFFERS),
        ("NotebookEdit", Condition.TREE_DIFFERS),
        ("Bash", Condition.TREE_DIFFERS),
        ("mcp__files__move_file", Condition.TREE_DIFFERS),
        ("mcp__files__DeleteFile", Condition.TREE_DIFFERS),
        ("mcp__mock__note", Condition.OWNS_AND_DIFFERS),
        ("Agent", Condition.OWNS_AND_DIFFERS),
        ("SomethingNew", Condition.OWNS_AND_DIFFERS),
        ("Read", None),
        ("TodoWrite", None),
        ("WebFetch", None),
    ],
)
def test_smart_looks_at_what_can_have_changed_files(name: str, condition: Condition | None) -> None:
    commands = lines(S, Feeder(Settings(turn_end=False)), turn(Writer(), name=name))
    assert [one.condition for one in only(commands, TakeCheckpoint)] == ([condition] if condition else [])


def test_settings_hold_from_the_next_event_on() -> None:
    feeder, write = Feeder(Settings(strategy=Strategy.MANUAL)), Writer()
    assert taken(feeder.line(S, write.user("a"))) == []
    feeder.machine(S).set_settings(PER_PROMPT)
    assert len(taken(feeder.line(S, write.user("b")))) == 1


def test_the_moments_are_the_lines_own() -> None:
    write = Writer()
    prompt, call, result, end = turn(write)
    feeder = Feeder(Settings(strategy=Strategy.PER_PROMPT))
    first = only(feeder.line(S, prompt), TakeCheckpoint)[0]
    assert (first.moment, first.message_uuid, first.event_key) == (at(100), prompt["uuid"], "prompt:" + prompt["uuid"])
    feeder.machine(S).set_settings(Settings(strategy=Strategy.PER_TOOL_USE))
    commands = lines(S, feeder, [call, result, end])
    opened, closed = only(commands, OpenCall)[0], only(commands, CloseCall)[0]
    assert (opened.start, closed.end) == (at(200), at(300))
    use, last = only(commands, TakeCheckpoint)
    assert (use.moment, use.event_key, use.tool) == (at(300) + MILLISECOND, "tool_use:t1", Tool("Write", "t1"))
    assert (last.moment, last.trigger) == (at(400) + MILLISECOND, "turn_end")


def test_a_checkpoint_bears_the_last_prompt_the_model_and_the_tokens() -> None:
    commands = lines(S, Feeder(PER_TOOL), turn(Writer()))
    (metadata,) = [one.metadata for one in only(commands, TakeCheckpoint)]
    assert (metadata.user_prompt, metadata.model_used) == ("please", "m-1")
    assert (metadata.input_tokens, metadata.output_tokens, metadata.total_tokens) == (10, 20, 30)


def test_hooks_after_the_last_word_are_looked_for_once_more() -> None:
    feeder, write = Feeder(), Writer()
    lines(S, feeder, turn(write))
    commands = feeder.line(S, write.line("system", subtype="stop_hook_summary"))
    assert [one.trigger for one in only(commands, TakeCheckpoint)] == ["turn_end"]
    assert only(commands, EndTurn) == []
    assert feeder.line(S, write.line("system", subtype="turn_duration")) == []
    assert feeder.event(S, ClientIdle("idle:1", at(9000))) == []


def test_a_turn_that_no_line_ends_is_ended_by_an_idle_client_or_the_next_prompt() -> None:
    for ending in ("idle", "prompt"):
        feeder, write = Feeder(), Writer()
        lines(S, feeder, turn(write)[:3])
        if ending == "idle":
            commands = feeder.event(S, ClientIdle("idle:1", at(5000)))
            assert only(commands, EndTurn)[0].moment == at(5000) + MILLISECOND
        else:
            commands = feeder.line(S, write.user("next"))
            assert only(commands, EndTurn)[0].moment == at(300) + MILLISECOND
        assert [trigger for trigger, _ in taken(commands)] == ["turn_end"]


def test_one_more_line_of_the_last_message_does_not_open_the_turn_again() -> None:
    feeder, write = Feeder(), Writer()
    lines(S, feeder, [write.user("a"), write.end("m1"), write.end("m1")])
    assert [trigger for trigger, _ in taken(feeder.line(S, write.user("b")))] == []


@pytest.mark.parametrize(
    ("length", "silence", "expected"),
    [(1, 0, True), (2, 0, True), (3, 0, True), (4, 0, False), (3, SILENCE, False), (2, SILENCE, True),
     (2, CALL_TIMEOUT, False)],
)  # fmt: skip
def test_a_session_is_at_work_from_a_prompt_to_the_last_word_or_a_long_silence(
    length: int, silence: int, expected: bool
) -> None:
    feeder = Feeder()
    lines(S, feeder, turn(Writer())[:length])
    assert at_work(feeder.machine(S).state, silence) is expected


def test_who_was_interrupted_is_not_at_work_and_who_goes_on_behind_the_last_word_is() -> None:
    feeder, write = Feeder(), Writer()
    lines(S, feeder, [write.user("a"), write.user([{"type": "text", "text": "[Request interrupted by user]"}])])
    assert not at_work(feeder.machine(S).state, 0)
    lines(S, feeder, [write.user("b"), write.end("m1"), write.call("t1", "Bash", "m2")])
    assert at_work(feeder.machine(S).state, 0)


def test_a_prompt_that_may_be_a_copy_is_work_until_it_is_known_to_be_one() -> None:
    feeder, write = Feeder(), Writer(version="1.0.90")
    feeder.line(S, write.user("a"))
    assert at_work(feeder.machine(S).state, 0)


# -- prompts ----------------------------------------------------------------------------------------------------------


def test_X1_results_and_notes_are_no_prompts() -> None:
    feeder, write = Feeder(PER_PROMPT), Writer()
    commands = lines(
        S,
        feeder,
        [
            write.user("This session is continued", isCompactSummary=True),
            write.user("note", isMeta=True),
            write.user("Do this", isSidechain=True, agentId="a1"),
            write.user([{"type": "text", "text": "[Request interrupted by user]"}]),
            write.result("t9", isSidechain=True, agentId="a1"),
        ],
    )
    assert (texts(commands), taken(commands)) == ([], [])


def test_X2_strings_and_lists_are_prompts() -> None:
    feeder, write = Feeder(PER_PROMPT), Writer()
    commands = lines(S, feeder, [write.user("a"), write.user([{"type": "text", "text": "b"}, {"type": "image"}])])
    assert texts(commands) == ["a", "b"]
    assert [one.ordinal for one in only(commands, RecordPrompt)] == [1, 2]


def test_a_queued_prompt_with_a_line_of_its_own_counts_once() -> None:
    feeder, write = Feeder(PER_PROMPT), Writer()
    commands = lines(S, feeder, [queue(write, "enqueue", content="hi"), queue(write, "dequeue"), write.user("hi")])
    assert texts(commands) == ["hi"]
    assert only(commands, RecordPrompt)[0].moment == at(300)


def test_a_queued_prompt_taken_into_the_turn_counts_once_by_its_attachment() -> None:
    feeder, write = Feeder(PER_PROMPT), Writer()
    attachment = {"type": "queued_command", "prompt": "hi", "origin": {"kind": "human"}}
    commands = lines(
        S,
        feeder,
        [
            write.user("go"),
            write.call("t1", "Bash"),
            queue(write, "enqueue", content="hi"),
            queue(write, "remove", reason="absorbed_mid_turn"),
            write.line("attachment", attachment=attachment),
        ],
    )
    assert texts(commands) == ["go", "hi"]
    assert only(commands, CloseCall) == []  # the turn goes on, and so does its call
    assert only(commands, EndTurn) == []


def test_a_queued_prompt_without_any_line_counts_when_it_is_heard() -> None:
    feeder, write = Feeder(PER_PROMPT), Writer()
    removed = [queue(write, "enqueue", content="hi"), queue(write, "remove")]
    commands = lines(S, feeder, removed)
    assert texts(commands) == ["hi"]
    assert only(commands, RecordPrompt)[0].moment == at(200)
    late = write.line("attachment", attachment={"type": "queued_command", "prompt": "hi"})
    assert texts(feeder.line(S, late)) == []  # the same words, by a client that writes both
    feeder.event(S, Reread())
    assert texts(lines(S, feeder, [*removed, late])) == []
    other = Feeder(PER_PROMPT)
    other.catalogue = feeder.catalogue
    assert texts(other.line("fork", late)) == []


@pytest.mark.parametrize(
    "operations",
    [
        [("enqueue", {"content": "hi"}), ("popAll", {}), ("remove", {})],
        [("enqueue", {"content": "<task-notification>x</task-notification>"}), ("remove", {})],
        [("enqueue", {"content": "/compact"}), ("remove", {})],
        [("enqueue", {"content": "hi"}), ("dequeue", {})],
        [("remove", {}), ("dequeue", {}), ("popAll", {})],
    ],
)
def test_queue_lines_that_are_nobodys_prompt(operations: list[tuple[str, dict[str, Any]]]) -> None:
    feeder, write = Feeder(PER_PROMPT), Writer()
    assert lines(S, feeder, [queue(write, name, **more) for name, more in operations]) == []


def command_line(write: Writer, name: str, **more: Any) -> dict[str, Any]:
    return write.user(f"<command-name>{name}</command-name>\n<command-args>x</command-args>", **more)


def test_a_custom_command_is_a_prompt_at_its_own_moment() -> None:
    for expanded in (True, False):
        feeder, write = Feeder(PER_PROMPT), Writer()
        command = command_line(write, "/mine")
        assert feeder.line(S, command) == []
        follows = write.user("Do x", isMeta=True, parentUuid=command["uuid"]) if expanded else write.end("m1")
        commands = feeder.line(S, follows)
        assert texts(commands) == ["/mine x"]
        assert taken(commands) == [("prompt", "prompt:" + command["uuid"])]
        assert only(commands, TakeCheckpoint)[0].moment == at(100)


def test_a_built_in_command_is_no_prompt() -> None:
    write = Writer()
    caveat = write.user("Caveat: The messages below were generated", isMeta=True)
    for script in (
        [command_line(write, "/compact"), write.end("m1")],
        [
            command_line(write, "/new-one"),
            write.user("<local-command-stdout>x</local-command-stdout>"),
            write.end("m2"),
        ],
        [command_line(write, "/new-two"), write.line("system", subtype="local_command"), write.end("m3")],
        [caveat, command_line(write, "/new-three", parentUuid=caveat["uuid"]), write.end("m4")],
    ):
        assert texts(lines(S, Feeder(PER_PROMPT), script)) == []


# -- once, although seen twice ----------------------------------------------------------------------------------------


def test_X3_tokens_of_a_message_count_once() -> None:
    feeder, write = Feeder(), Writer()
    text = {"type": "text", "text": "x"}
    commands = lines(
        S,
        feeder,
        [
            write.assistant("m1", text, output=3),
            write.assistant("m2", text, output=5),
            write.assistant("m1", text, output=37),
            write.assistant("m1", text, output=37),
            write.assistant("m1", text, output=4),
        ],
    )
    assert feeder.machine(S).metadata().output_tokens == 42
    assert feeder.machine(S).metadata().input_tokens == 20
    assert [(one.message, one.tokens.output) for one in only(commands, RecordUsage)] == [
        ("m1", 3),
        ("m2", 5),
        ("m1", 37),
    ]


def test_X3_a_fork_brings_old_ids_and_takes_nothing() -> None:
    feeder, write = Feeder(Settings(strategy=Strategy.PER_TOOL_USE)), Writer()
    history = turn(write)
    lines(S, feeder, history)
    fork = Writer("s2")
    fork.now = write.now
    copies = [{**line, "sessionId": "s2"} for line in history]
    assert lines("s2", feeder, copies) == []
    commands = lines("s2", feeder, turn(fork, "t2"))
    assert [trigger for trigger, _ in taken(commands)] == ["tool_use", "turn_end"]
    assert only(commands, RecordPrompt)[0].ordinal == 1


def test_X3_a_branch_is_known_for_a_copy_although_its_origin_is_not() -> None:
    history = [{**line, "forkedFrom": {"sessionId": "gone"}} for line in turn(Writer())]
    assert lines(S, Feeder(PER_TOOL), history) == []


def old_copy(history: list[dict[str, Any]], write: Writer, apart: int = 0) -> list[dict[str, Any]]:
    """What 1.0.60 writes when it resumes: new line ids, new times, the same message and tool ids."""
    copies = []
    write.line("x")
    for number, line in enumerate(history):
        write.now += apart - 100 if number else 0
        stamp = write.line("x")["timestamp"]
        copy = {**line, "uuid": f"{write.session}-c{number}", "timestamp": stamp, "sessionId": write.session}
        copies.append(copy)
    return copies


@pytest.mark.parametrize("apart", [0, 5])
def test_X3_a_resume_under_new_ids_takes_nothing(apart: int) -> None:
    write = Writer(version="1.0.60")
    feeder = Feeder(Settings(strategy=Strategy.PER_PROMPT))
    history = turn(write)
    lines(S, feeder, history)
    again = Writer("s2", version="1.0.60")
    again.now = write.now + 50
    commands = lines("s2", feeder, old_copy(history, again, apart))
    again.now += 100
    own = again.count + 1
    commands += lines("s2", feeder, turn(again, "t2"))
    assert texts(commands) == ["please"]
    assert taken(commands)[0] == ("prompt", f"prompt:s2-u{own}")
    assert [one.tool for one in only(commands, OpenCall)] == ["t2"]
    assert feeder.machine("s2").metadata().output_tokens == 40


def test_X3_a_resume_of_what_nobody_saw_is_known_by_its_one_time() -> None:
    write = Writer("s2", version="1.0.60")
    copies = old_copy(turn(Writer(version="1.0.60")), write)
    commands = lines("s2", Feeder(PER_PROMPT), [*copies, *turn(write, "t2")])
    assert texts(commands) == ["please"]
    assert [one.tool for one in only(commands, OpenCall)] == ["t2"]


def test_an_old_clients_prompt_waits_for_a_reply_or_two_ticks() -> None:
    feeder, write = Feeder(PER_PROMPT), Writer(version="1.0.128")
    assert feeder.line(S, write.user("a")) == []
    assert texts(feeder.line(S, write.end("m1"))) == ["a"]
    assert feeder.line(S, write.user("b")) == []
    assert feeder.event(S, Tick(at(900))) == []
    commands = feeder.event(S, Tick(at(1000)))
    assert only(commands, TakeCheckpoint)[0].moment == at(300)


def test_X5_a_file_read_again_takes_nothing_twice() -> None:
    feeder, write = Feeder(Settings(strategy=Strategy.PER_TOOL_USE)), Writer()
    history = [queue(write, "enqueue", content="please"), queue(write, "dequeue"), *turn(write)]
    lines(S, feeder, history)
    before = feeder.machine(S).metadata()
    feeder.event(S, Reread())
    assert lines(S, feeder, history) == []
    assert feeder.machine(S).metadata() == before
    assert [trigger for trigger, _ in taken(lines(S, feeder, turn(write, "t2")))] == ["tool_use", "turn_end"]


def test_X6_parents_are_not_followed() -> None:
    feeder, write = Feeder(PER_PROMPT), Writer()
    commands = lines(
        S,
        feeder,
        [
            write.user("a", parentUuid="nobody"),
            write.user("b", parentUuid="s1-u2"),
            write.user("c", parentUuid="s1-u4"),
            write.user("d", parentUuid="s1-u3"),
            write.user("e", parentUuid=7),
            write.line("from-the-future"),
        ],
    )
    assert texts(commands) == ["a", "b", "c", "d", "e"]
    assert feeder.faults == ["unknown type"]


def test_the_past_causes_nothing_but_a_call_that_reaches_into_the_present() -> None:
    write = Writer()
    feeder = Feeder(Settings(strategy=Strategy.PER_TOOL_USE), since=at(450))
    old = [*turn(write), write.user("long"), write.call("t2", "Bash"), write.result("t2")]
    old[4]["timestamp"] = old[3]["timestamp"]
    old[5]["timestamp"] = old[3]["timestamp"]
    commands = lines(S, feeder, old)
    assert [(type(one).__name__) for one in commands] == ["OpenCall", "CloseCall", "TakeCheckpoint"]
    assert only(commands, OpenCall)[0].start == at(400)
