"""The command `mulligan`: finds the named command, runs it, and turns every ending into an exit status.

Only the module of the named command is imported. Expected errors become two lines on stderr (what; next step) or one
JSON object; anything else is one line that points to the log. A reader that went away ends the run quietly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, TextIO

from mulligan.client.arguments import Command, Options, Parser, asks_for_json, leading, nearest, wrapped
from mulligan.client.context import Context
from mulligan.client.overview import names, text
from mulligan.client.render.text import visible
from mulligan.errors import MulliganError, UsageError

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line; the exit status of the contract. Raises nothing."""
    words = list(sys.argv[1:] if argv is None else argv)
    options = Options()
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    status: int | None = None
    try:
        status = _run(words, options)
        sys.stdout.flush()
    except MulliganError as error:
        status = error.exit_status
        _report(error, options.json or asks_for_json(words))
    except KeyboardInterrupt:
        status = INTERRUPTED
        sys.stderr.write("\n" if sys.stderr.isatty() else "")
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else 0
    except BrokenPipeError:
        status = _let_go(sys.stdout, status)
    except Exception as bug:  # noqa: BLE001 - the boundary: a person sees one line, never a traceback
        status = 1
        _report_bug(bug, options, options.json or asks_for_json(words))
    return _flushed(status)


def _open_closed_streams() -> None:
    """A stream that the caller closed is an empty one, and what is opened later does not get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the process lives


def _run(words: list[str], options: Options) -> int:
    rest = leading(words, options)
    if not rest:
        sys.stderr.write(text())
        return UsageError.exit_status
    name = rest.pop(0)
    if name in {"-h", "--help"} or (name == "help" and not rest):
        sys.stdout.write(text())
        return 0
    if name == "--version":
        return _version(options)
    if name == "help":
        name, rest = rest[0], [*rest[1:], "--help"]
    if name not in names():
        raise _unknown("option" if name.startswith("-") else "command", name, names(), "mulligan --help")
    actions, prog = commands_of(name), f"mulligan {name}"
    command = actions.get("")
    if command is None:
        rest = leading(rest, options)
        if rest and rest[0] == "--version":
            return _version(options)
        if not rest or rest[0] in {"-h", "--help"}:
            (sys.stdout if rest else sys.stderr).write(_group_help(prog, _module(name).SUMMARY, actions))
            return 0 if rest else UsageError.exit_status
        action = rest.pop(0)
        if action not in actions:
            raise _unknown("command", f"{name} {action}", [f"{name} {word}" for word in actions], f"{prog} --help")
        prog, command = f"{prog} {action}", actions[action]
    args = Parser(prog, command).read(rest)
    options.update(args)
    if getattr(args, "version", False):
        return _version(options)
    context = Context(options)
    try:
        return command.run(args, context)
    finally:
        context.close()


def _module(name: str) -> ModuleType:
    # The names come from a fixed table, so nothing of the command line is imported by its name.
    from importlib import import_module  # noqa: PLC0415

    return import_module(f"mulligan.client.commands.{name}")


def commands_of(name: str) -> dict[str, Command]:
    """The parts of a command by their names; a command without parts is its own, named ""."""
    module: Any = _module(name)
    if hasattr(module, "ACTIONS"):
        return dict(module.ACTIONS)
    return {"": Command(module.SUMMARY, module.EXAMPLES, module.configure, module.run)}


def _group_help(prog: str, summary: str, actions: dict[str, Command]) -> str:
    lines = [wrapped(summary), "", f"usage: {prog} COMMAND ...", "", "examples:"]
    examples = [example for command in actions.values() for example in command.examples[:1]]
    lines += [f"  {example}" for example in examples[:2]]
    lines += ["", "commands:"]
    width = max(11, *map(len, actions))
    lines += [wrapped(f"  {name:<{width}} {command.summary}", width + 3) for name, command in actions.items()]
    lines += ["", f"One of them in full: {prog} COMMAND --help"]
    return "\n".join(lines) + "\n"


def _version(options: Options) -> int:
    from mulligan import __version__  # noqa: PLC0415

    sys.stdout.write(
        f'{{"version":1,"mulligan":"{__version__}"}}\n' if options.json else f"mulligan {__version__}\n",
    )
    return 0


def _unknown(kind: str, word: str, known: list[str], otherwise: str) -> UsageError:
    near = nearest(word, known)
    hint = f"nearest: {', '.join(near)}.    {otherwise}" if near else otherwise
    return UsageError(f'no {kind} "{word}"', hint=hint, nearest=near)


def _report(error: MulliganError, as_json: bool) -> None:
    """An expected error on stderr: what, then the next step."""
    _quietly(sys.stdout)
    if as_json:
        import json  # noqa: PLC0415

        data = dict(error.data)
        code = data.pop("daemon_code", error.code)
        whole = {"version": 1, "error": {"code": code, "message": error.message, "hint": error.hint, "data": data}}
        lines = [json.dumps(whole, separators=(",", ":"), default=str)]
    else:
        lines = [f"mulligan: {visible(error.message)}"]
        lines += [f"  {visible(part)}" for part in (error.hint or _candidates(error)).split("\n") if part]
    sys.stderr.writelines(line + "\n" for line in lines)


def _candidates(error: MulliganError) -> str:
    """The next step of an error that only names what is near."""
    found = error.data.get("candidates") or error.data.get("nearest") or []
    if not isinstance(found, list) or not found:
        return ""
    words = [str(item.get("id", item)) if isinstance(item, dict) else str(item) for item in found[:5]]
    return "nearest: " + ", ".join(words)


def _report_bug(bug: Exception, options: Options, as_json: bool) -> None:
    kind = type(bug).__name__
    if options.verbose:
        import traceback  # noqa: PLC0415

        sys.stderr.write(visible("".join(traceback.format_exception(bug)), keep="\n"))
    _report(
        MulliganError(
            f"this should not have happened ({kind}: {bug})", hint="mulligan service logs, and the same again with -v"
        ),
        as_json,
    )


def _quietly(stream: TextIO) -> None:
    """What was printed before an error comes first, if anybody still reads it."""
    try:
        stream.flush()
    except OSError:
        _drop(stream)


def _let_go(stream: TextIO, status: int | None) -> int:
    """The reader of our output has what it wanted; what the command did counts, if it got that far."""
    _drop(stream)
    return 0 if status is None else status


def _drop(stream: TextIO) -> None:
    # What is still buffered would raise again when the interpreter ends.
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, stream.fileno())
    except (OSError, ValueError):
        pass
    finally:
        os.close(null)


def _flushed(status: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        _quietly(stream)
    return status


if __name__ == "__main__":
    sys.exit(main())
