"""What the names of the agent's tools say: which write nothing, which write one file, which may do anything."""

from __future__ import annotations

from enum import StrEnum


class ToolClass(StrEnum):
    """What a tool's call can own.

    `READ_ONLY`: nothing. `PATH`: the file that its input names. `WINDOW`: whatever changes while it runs. `AGENT`: as
    WINDOW, but it acts through calls of its own, which come first.
    """

    READ_ONLY = "read_only"
    PATH = "path"
    WINDOW = "window"
    AGENT = "agent"


_READ_ONLY_NAMES = """
    Read Glob Grep LS NotebookRead WebFetch WebSearch TodoWrite TodoRead ToolSearch TaskCreate TaskGet TaskList
    TaskUpdate TaskOutput TaskStop BashOutput KillShell KillBash AgentOutputTool AskUserQuestion ExitPlanMode
    EnterPlanMode ListMcpResources ListMcpResourcesTool ReadMcpResource ReadMcpResourceTool
"""
_READ_ONLY = frozenset(_READ_ONLY_NAMES.split())
_PATH = frozenset(("Write", "Edit", "MultiEdit", "NotebookEdit"))
_AGENT = frozenset(("Task", "Agent", "Workflow"))
_DESTRUCTIVE_WORDS = ("delete", "remove", "write", "edit", "create", "move")


def classify(name: str) -> ToolClass:
    """The class of a tool; an unknown one may do anything."""
    if name in _READ_ONLY:
        return ToolClass.READ_ONLY
    if name in _PATH:
        return ToolClass.PATH
    return ToolClass.AGENT if name in _AGENT else ToolClass.WINDOW


def destructive(name: str) -> bool:
    """Whether a tool is meant to change files: the editors, the shell, and foreign tools that say so in their name."""
    if name in _PATH or name == "Bash":
        return True
    lower = name.lower()
    return classify(name) is ToolClass.WINDOW and any(word in lower for word in _DESTRUCTIVE_WORDS)


_BUILT_IN_NAMES = """
    add-dir agents bashes branch bug clear compact config context continue copy cost doctor effort exit export fast
    feedback fork help hooks ide login logout mcp memory migrate-installer model output-style permissions plugin
    privacy-settings quit release-notes rename resume rewind sandbox status statusline tasks terminal-setup theme
    todos upgrade usage vim
"""
#: Slash commands of the client itself that never reach the model. The others show by what follows them.
BUILT_IN_COMMANDS = frozenset(_BUILT_IN_NAMES.split())
