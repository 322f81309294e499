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
#: OpenCode's own tools are lower case; tools of MCP servers bear the server's name before theirs.
_OPENCODE_READ_ONLY_NAMES = """
    read glob grep list webfetch websearch codesearch todowrite todoread question skill lsp invalid plan_enter plan_exit
"""
_READ_ONLY = frozenset((_READ_ONLY_NAMES + _OPENCODE_READ_ONLY_NAMES).split())
_PATH = frozenset(("Write", "Edit", "MultiEdit", "NotebookEdit", "write", "edit", "multiedit"))
_AGENT = frozenset(("Task", "Agent", "Workflow", "task", "subagent"))
_SHELL = frozenset(("Bash", "bash", "shell"))
#: They name their files in the text of a patch.
_PATCH = frozenset(("patch", "apply_patch"))
_DESTRUCTIVE_WORDS = ("delete", "remove", "write", "edit", "create", "move")


def classify(name: str) -> ToolClass:
    """The class of a tool; an unknown one may do anything."""
    if name in _READ_ONLY:
        return ToolClass.READ_ONLY
    if name in _PATH:
        return ToolClass.PATH
    return ToolClass.AGENT if name in _AGENT else ToolClass.WINDOW


def is_shell(name: str) -> bool:
    """Whether a tool runs the shell command that its input holds."""
    return name in _SHELL


def destructive(name: str) -> bool:
    """Whether a tool is meant to change files: the editors, the shell, and foreign tools that say so in their name."""
    if name in _PATH or name in _SHELL or name in _PATCH:
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
