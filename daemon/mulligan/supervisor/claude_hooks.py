"""Claude Code's hooks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mulligan.agents.claude_input import ClaudeInput, read_input
from mulligan.session.events import CallGuarded, ClientGone, Exact, PromptHeard
from mulligan.session.moments import digest_of
from mulligan.session.tools import ToolClass, classify

if TYPE_CHECKING:
    from mulligan.supervisor.hooks import Hooks


def deliver(hooks: Hooks, event: str, raw: str, deadline: int) -> str:
    """Take one input. Raises OddInputError for what is not used."""
    told = read_input(event, raw)
    match event:
        case "PreToolUse":
            _before_tool(hooks, told, deadline)
        case "UserPromptSubmit":
            _prompt(hooks, told, deadline)
        case "SessionEnd":
            _end(hooks, told)
        case "PreCompact":
            _compaction(hooks, told)
        case "SessionStart":
            return _start(hooks, told)
        case _:
            hooks.look(hooks.worker_of(told.cwd))
    return ""


def _before_tool(hooks: Hooks, told: ClaudeInput, deadline: int) -> None:
    """A tool runs as soon as this returns: everything until now is captured, and the call begins here."""
    worker = hooks.worker_of(told.cwd)

    def guarded(time: int, exact: Exact | None) -> None:
        if exact is None:
            hooks.count_unguarded()
        if told.tool_use_id:
            event = CallGuarded(tool=told.tool_use_id, name=told.tool_name, time=time, exact=exact)
            hooks.follower.hear(told.session_id, told.cwd, [event], agent=bool(told.agent_id))

    paths = () if classify(told.tool_name) is ToolClass.READ_ONLY else told.paths()
    hooks.guard(worker, paths, deadline, guarded)


def _prompt(hooks: Hooks, told: ClaudeInput, deadline: int) -> None:
    """A person's words are on their way to the model, unless somebody refuses them; their line bears no exact time."""
    worker = hooks.worker_of(told.cwd)

    def heard(time: int, exact: Exact | None) -> None:
        if exact is not None:
            event = PromptHeard(words=digest_of(told.prompt), time=time, exact=exact)
            hooks.follower.hear(told.session_id, told.cwd, [event], agent=bool(told.agent_id))

    hooks.guard(worker, (), deadline, heard)


def _compaction(hooks: Hooks, told: ClaudeInput) -> None:
    """The conversation is about to be replaced by a summary: what its task is outlives that."""
    worker = hooks.worker_of(told.cwd)
    hooks.look(worker)
    catalogue = worker.store.catalogue()
    checkpoint = catalogue.current(worker.project_id, told.session_id) or catalogue.current(worker.project_id)
    hooks.states.new_context(told.session_id)
    hooks.states.compacted(told.session_id, worker.root, checkpoint)


def _start(hooks: Hooks, told: ClaudeInput) -> str:
    """A context begins; behind a compaction it is told of the task. A context that goes on has been told."""
    hooks.follower.visit(told.cwd)
    text = hooks.states.injection(told.session_id) if told.source == "compact" else None
    if text is None:
        return ""
    answer = {"hookEventName": told.hook_event_name, "additionalContext": text}
    return json.dumps({"hookSpecificOutput": answer})


def _end(hooks: Hooks, told: ClaudeInput) -> None:
    """The session's client goes: none of its calls can be running."""
    hooks.look(hooks.worker_of(told.cwd))
    hooks.follower.hear(told.session_id, told.cwd, [ClientGone(hooks.wall())])
