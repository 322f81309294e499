"""OpenCode's hooks: it writes no transcript, so what its plugin tells is all there is.

So an input is kept first, in a transcript of our own, which is then read as any other; only then is it acknowledged.
What could not be kept is refused, and the plugin tells it again. So does it after a restart with whatever was not
acknowledged: events bear their own moments and ids, so late and twice do no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mulligan.agents.opencode_input import OpenCodeInput, events_of, read_input
from mulligan.session.events import CallGuarded, ClientGone, Exact
from mulligan.session.tools import ToolClass, classify

if TYPE_CHECKING:
    from mulligan.supervisor.hooks import Hooks


def deliver(hooks: Hooks, event: str, raw: str, deadline: int) -> str:
    """Take one input. Raises OddInputError for what is not used, and UnkeptError for what could not be kept."""
    told = read_input(event, raw)
    again = event == "PreToolUse" and not hooks.is_first(told.tool_use_id)
    hooks.kept.append(told.root, events_of(told))
    # what comes late was kept for us while we were away: nobody waits for the answer any more
    late = hooks.wall() - told.moment > hooks.patience
    match event:
        case "PreToolUse" if not late and not again:
            _before_tool(hooks, told, deadline)
        case "PreCompact" if not told.child:
            return _compaction(hooks, told, late=late)
        case "SessionStart":
            hooks.follower.visit(told.cwd)
        case "SessionEnd" if not told.child:
            hooks.follower.hear(told.root, told.cwd, [ClientGone(hooks.wall())])
    return ""


def _before_tool(hooks: Hooks, told: OpenCodeInput, deadline: int) -> None:
    """A tool runs as soon as this returns: everything until now is captured, and the call begins here."""
    worker = hooks.worker_of(told.cwd)

    def guarded(time: int, exact: Exact | None) -> None:
        if exact is None:
            hooks.count_unguarded()
        event = CallGuarded(tool=told.tool_use_id, name=told.tool_name, time=time, exact=exact)
        hooks.follower.hear(told.root, told.cwd, [event], agent=told.child)

    idle = classify(told.tool_name) is ToolClass.READ_ONLY
    hooks.guard(worker, () if idle else (*told.named, *told.written), deadline, guarded)


def _compaction(hooks: Hooks, told: OpenCodeInput, *, late: bool) -> str:
    """The text that carries the task state into the summary; a summary that is written already gets none."""
    worker = hooks.worker_of(told.cwd)
    hooks.states.compacted(told.root, worker.root)
    if late:
        return ""
    hooks.states.new_context(told.root)
    return hooks.states.injection(told.root) or ""
