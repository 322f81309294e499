"""`mulligan completion`: a script for bash, zsh or fish that completes commands, their parts and their options."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import Parser
from mulligan.client.context import Context
from mulligan.client.overview import GROUPS, names

SUMMARY = "Prints a script that completes mulligan's commands and options in your shell."
EXAMPLES = ('eval "$(mulligan completion bash)"', "mulligan completion fish > ~/.config/fish/completions/mulligan.fish")
_GLOBAL = ("--json", "--socket", "--color", "--quiet", "--verbose", "--help", "--version")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


def words() -> dict[str, list[str]]:
    """`command` or `command action` → what may follow it; "" → what may come first."""
    from mulligan.client.main import commands_of  # noqa: PLC0415 - main imports this module by name

    found = {"": [*names(), *_GLOBAL]}
    for name in names():
        parts = commands_of(name)
        if "" not in parts:
            found[name] = [*parts, *_GLOBAL]
        for action, command in parts.items():
            parser = Parser(name, command)
            options = sorted(option for option in parser._option_string_actions if option.startswith("--"))
            found[f"{name} {action}".strip()] = options
    return found


def run(args: argparse.Namespace, context: Context) -> int:
    """Prints the script."""
    script = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell]()
    return context.emit({"shell": args.shell, "script": script}, lambda _: context.lines(script.splitlines()))


def _cases() -> list[str]:
    return [f'    "{key}") words="{" ".join(following)}" ;;' for key, following in words().items()]


def _bash() -> str:
    lines = [
        "_mulligan() {",
        '  local current="${COMP_WORDS[COMP_CWORD]}" path="" word words count=0',
        '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        '    case "$word" in -*) continue ;; esac',
        '    if [ $count -lt 2 ]; then path="${path:+$path }$word"; count=$((count+1)); fi',
        "  done",
        '  words="$(_mulligan_words "$path")"',
        '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
        '  [[ "$current" == -* || ${#COMPREPLY[@]} -gt 0 || -z "$path" ]] || COMPREPLY=($(compgen -f -- "$current"))',
        "}",
        *_words_function(),
        "complete -o filenames -F _mulligan mulligan",
    ]
    return "\n".join(lines) + "\n"


def _words_function() -> list[str]:
    """A function of sh that prints what may follow a command; an unknown second word counts as an argument."""
    return [
        "_mulligan_words() {",
        '  local words=""',
        '  case "$1" in',
        *_cases(),
        '    *" "*) _mulligan_words "${1%% *}"; return ;;',
        "  esac",
        '  printf "%s\\n" "$words"',
        "}",
    ]


def _zsh() -> str:
    lines = [
        "#compdef mulligan",
        *_words_function(),
        "_mulligan() {",
        "  local -a before; before=(${${words[2,CURRENT-1]}:#-*})",
        '  local found="$(_mulligan_words "${(j: :)before[1,2]}")"',
        "  compadd -- ${=found}",
        "  (( ${#before} )) && _files",
        "}",
        "compdef _mulligan mulligan",
    ]
    return "\n".join(lines) + "\n"


def _fish() -> str:
    known = words()
    lines = []
    for group in GROUPS.values():
        for name, summary in group.items():
            lines.append(f"complete -c mulligan -n __fish_use_subcommand -f -a {name} -d {_quoted(summary)}")
    for key, following in known.items():
        if not key:
            continue
        condition = " && ".join(f"__fish_seen_subcommand_from {word}" for word in key.split())
        for word in following:
            given = f"-l {word[2:]}" if word.startswith("--") else f"-f -a {word}"
            lines.append(f"complete -c mulligan -n {_quoted(condition)} {given}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
