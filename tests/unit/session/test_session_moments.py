"""What hooks told, as scripts: it refines what the lines lead to, in whatever order both come."""

from __future__ import annotations

import itertools

import pytest

from mulligan.session.events import (
    CallGuarded,
    Condition,
    Exact,
    GuardCall,
    OpenCall,
    PromptHeard,
    RecordPrompt,
    Settings,
    Strategy,
    TakeCheckpoint,
    Tick,
)
from mulligan.session.moments import digest_of
from mulligan.session.state import MOST_GUARDS, MOST_HEARD
from support.transcripts import MILLISECOND, Feeder, Writer, at, only

S = "s1"
SECOND = 1000 * MILLISECOND
_seqs = itertools.count(100)


def guarded(tool: str, moment: int, name: str = "Bash", *, exact: bool = True) -> CallGuarded:
    return CallGuarded(tool=tool, name=name, time=at(moment), exact=Exact(1, next(_seqs)) if exact else None)


def heard(text: str, moment: int) -> PromptHeard:
    return PromptHeard(words=digest_of(text), time=at(moment), exact=Exact(1, next(_seqs)))


def before(commands: list[object]) -> list[TakeCheckpoint]:
    return [one for one in only(commands, TakeCheckpoint) if one.event_key.startswith("before:")]


@pytest.mark.parametrize("hook_first", [True, False])
def test_a_call_is_guarded_whichever_comes_first(hook_first: bool) -> None:
    feeder, write = Feeder(), Writer()
    line, hook = write.call("t1", "Bash", input={"command": "x"}), guarded("t1", 5)
    commands = []
    if hook_first:
        assert feeder.machine(S).feed(hook) == []
        commands = feeder.line(S, line)
        assert [type(one) for one in commands if isinstance(one, OpenCall | GuardCall)] == [OpenCall, GuardCall]
    else:
        feeder.line(S, line)
        commands = feeder.machine(S).feed(hook)
    (guard,) = only(commands, GuardCall)
    assert (guard.tool, guard.start, guard.barrier) == ("t1", at(5), hook.exact.seq if hook.exact else 0)
    (made,) = before(commands)
    assert (made.trigger, made.condition, made.exact) == ("tool_use", Condition.TREE_DIFFERS, hook.exact)
    assert made.tool is not None and (made.tool.name, made.tool.id) == ("Bash", "t1")
    assert feeder.machine(S).state.guards == {}
    assert feeder.machine(S).feed(hook) == only(commands, GuardCall), "told again, nothing is taken again"


@pytest.mark.parametrize(
    ("settings", "name", "expected"),
    [
        (Settings(strategy=Strategy.SMART), "Bash", 1),
        (Settings(strategy=Strategy.SMART), "Read", 0),
        (Settings(strategy=Strategy.PER_TOOL_USE), "Read", 1),
        (Settings(strategy=Strategy.PER_PROMPT), "Bash", 0),
        (Settings(strategy=Strategy.MANUAL), "Bash", 0),
        (Settings(auto_checkpoint=False), "Bash", 0),
    ],
)
def test_which_strategies_keep_the_tree_before_a_call(settings: Settings, name: str, expected: int) -> None:
    feeder, write = Feeder(settings), Writer()
    feeder.machine(S).feed(guarded("t1", 5, name))
    commands = feeder.line(S, write.call("t1", name))
    assert len(before(commands)) == expected
    assert len(only(commands, GuardCall)) == 1


def test_a_hook_that_could_not_wait_is_recorded_and_no_more() -> None:
    feeder, write = Feeder(), Writer()
    feeder.machine(S).feed(guarded("t1", 5, exact=False))
    commands = feeder.line(S, write.call("t1", "Bash"))
    assert [one.barrier for one in only(commands, GuardCall)] == [0]
    assert before(commands) == []


def test_what_ran_before_is_waited_for() -> None:
    feeder, write = Feeder(), Writer()
    calls = [write.call(f"t{number}", "Bash") for number in (1, 2)]
    feeder.line(S, calls[0])
    feeder.machine(S).feed(guarded("t2", 10_000))
    assert before(feeder.line(S, calls[1])) == []
    commands = feeder.line(S, write.result("t1"))
    assert [one.event_key for one in only(commands, TakeCheckpoint)] == ["tool_use:t1", "before:t2"]


def test_of_calls_side_by_side_the_first_is_judged_first() -> None:
    feeder, write = Feeder(), Writer()
    feeder.machine(S).feed(guarded("t2", 20_001))
    feeder.machine(S).feed(guarded("t1", 20_000))
    assert before(feeder.line(S, write.call("t2", "Bash"))) == []
    commands = feeder.line(S, write.call("t1", "Bash"))
    assert [one.event_key for one in before(commands)] == ["before:t1"]
    commands = feeder.line(S, write.result("t1"))
    assert [one.event_key for one in before(commands)] == ["before:t2"]


def test_a_long_call_beside_it_and_a_missing_line_are_not_waited_for() -> None:
    feeder, write = Feeder(), Writer()
    feeder.line(S, write.call("t1", "Bash"))
    feeder.machine(S).feed(guarded("t2", 10_000))
    assert feeder.machine(S).feed(Tick(at(10_000) + SECOND)) == []
    (made,) = before(feeder.machine(S).feed(Tick(at(10_000) + 3 * SECOND)))
    assert made.event_key == "before:t2"
    commands = feeder.line(S, write.call("t2", "Bash"))
    assert (len(only(commands, GuardCall)), before(commands)) == (1, [])
    assert feeder.machine(S).state.guards == {}


def test_a_prompt_takes_the_moment_of_its_hook() -> None:
    feeder, write = Feeder(Settings(strategy=Strategy.PER_PROMPT)), Writer()
    machine = feeder.machine(S)
    for told in (heard("refused", 1), heard("go", 2), heard("again", 3)):
        machine.feed(told)
    (recorded,) = only(commands := feeder.line(S, write.user("go \n")), RecordPrompt)
    assert recorded.moment == at(2)
    (made,) = only(commands, TakeCheckpoint)
    assert (made.moment, made.exact is not None) == (at(2), True)
    (recorded,) = only(commands := feeder.line(S, write.user("refused")), RecordPrompt)
    assert recorded.moment != at(1)
    assert [one.exact for one in only(commands, TakeCheckpoint) if one.trigger == "prompt"] == [None]
    assert len(machine.state.heard) == 1


def test_a_prompt_of_long_ago_is_another_one() -> None:
    feeder, write = Feeder(), Writer()
    feeder.machine(S).feed(heard("go", -3_600_000))
    (recorded,) = only(feeder.line(S, write.user("go")), RecordPrompt)
    assert recorded.moment != at(-3_600_000)


def test_it_is_bounded() -> None:
    feeder = Feeder()
    for number in range(200):
        feeder.machine(S).feed(guarded(f"t{number}", number))
        feeder.machine(S).feed(heard(f"p{number}", number))
    state = feeder.machine(S).state
    assert len(state.guards) == MOST_GUARDS and len(state.heard) == MOST_HEARD
