"""The table of commands: what `mulligan --help` prints, and what a mistyped word is compared with."""

from __future__ import annotations

#: Purpose → command → what it does. The one list of the commands that exist.
GROUPS: dict[str, dict[str, str]] = {
    "look": {
        "status": "whether this project is protected, and how the daemon is",
        "list": "checkpoints, newest first",
        "timeline": "checkpoints of a session as a tree",
        "show": "everything about one checkpoint",
        "diff": "what differs between two checkpoints, or now",
        "watch": "what happens, live",
    },
    "ask": {
        "history": "the versions of a file, and who made them",
        "blame": "line by line: which prompt brought it",
        "cat": "a file as it was",
        "search": "when a text appeared and vanished",
    },
    "save": {
        "checkpoint": "make a checkpoint now",
        "describe": "give a checkpoint a text",
        "pin": "keep a checkpoint for good",
        "unpin": "let retention have it again",
        "delete": "take a checkpoint out of the timeline",
        "cleanup": "forget old checkpoints",
        "state": "what a session is doing, kept beside its files",
    },
    "go back": {
        "restore": "make files what they were at a checkpoint",
        "revert": "take out what a prompt, a call or a session changed",
        "undo": "take the last restore or revert back",
        "redo": "do it again after all",
        "fork": "go on from a checkpoint in a directory of its own",
        "rescue": "bring back what vanished or was emptied",
    },
    "set up": {
        "project": "which directories are protected",
        "session": "the agents' sessions",
        "settings": "when checkpoints are taken",
        "config": "the configuration file",
    },
    "agents": {
        "integrate": "hooks, commands and a status line for your agent",
        "statusline": "one line for the agent's status line",
        "hook": "what an agent's hook runs",
    },
    "daemon": {
        "start": "start the daemon",
        "stop": "stop the daemon",
        "restart": "stop and start it",
        "service": "let the system start it",
        "doctor": "try everything out and say what is wrong",
        "verify": "read what is stored and compare; heal it",
        "drill": "prove that checkpoints can be restored",
        "purge": "erase every captured version of a file",
        "gc": "free what nothing needs any more",
        "store": "make a damaged catalogue anew",
        "usage": "what takes disk space, and how long the budget lasts",
        "completion": "completion for your shell",
    },
}

OPTIONS = (
    ("--json", "one JSON object on stdout; errors as JSON on stderr"),
    ("--socket PATH", "the daemon's socket"),
    ("--color WHEN", "auto, always or never"),
    ("-q, -v", "say less, say more"),
    ("-h, --version", "this text, the version"),
)


def names() -> list[str]:
    """All commands, in the order of the help."""
    return [name for group in GROUPS.values() for name in group]


def text() -> str:
    """The top-level help."""
    lines = [
        "mulligan keeps every state of a project's files, and brings any of them back.",
        "",
        "usage: mulligan [--json] [--socket PATH] [--color WHEN] [-q|-v] COMMAND ...",
        "",
        "examples:",
        "  mulligan status                     is this directory protected?",
        "  mulligan restore 10m                files as they were ten minutes ago",
    ]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:<12} {summary}" for name, summary in commands.items()]
    lines += ["", "options, before or after the command:"]
    lines += [f"  {option:<15} {meaning}" for option, meaning in OPTIONS]
    lines += ["", "One command in full: mulligan COMMAND --help"]
    return "\n".join(lines) + "\n"
