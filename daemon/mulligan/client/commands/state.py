"""`mulligan state`: what a session is doing, what is done, next and blocked; kept for whoever goes on."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, NoReturn

from mulligan.client.arguments import Command, asking_options, project_option
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.client.render.amounts import counted
from mulligan.client.render.state import head_line, snapshots_table, state_lines, summary
from mulligan.client.render.text import shown_path, visible, word
from mulligan.errors import UsageError

SUMMARY = "Keeps what a session is doing: title, goal, steps, next, blockers, decisions; and brings it back."
#: More than a message may have; a state has a smaller limit of its own.
_MOST_BYTES = 900_000
#: More than a number of 64 bits has; and what a fraction becomes that has no room in so many.
_DIGITS, _INFINITE = 21, (float("inf"), float("-inf"))


def _which(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which")
    project_option(group)
    group.add_argument(
        "--session",
        metavar="ID",
        help="the session, or a unique prefix (default: the agent's own, else the active one)",
    )


def _where(args: argparse.Namespace, context: Context) -> JsonObject:
    """The parameters that say whose state is meant: what was typed, else what the agent's environment says."""
    found: JsonObject = {"project": context.project(args), "session": args.session}
    if args.session == "":  # such as an unset variable's: not to be taken for another's
        raise UsageError("--session without an id", hint="mulligan session list")
    if args.session is not None:
        return found
    if agent := context.environ.get("CLAUDE_CODE_SESSION_ID"):
        pid = context.environ.get("CLAUDE_PID", "")
        return {**found, "agent_session": agent, "agent_pid": int(pid) if pid.isdecimal() and len(pid) < 10 else None}
    return {**found, "own_session": context.environ.get("MULLIGAN_SESSION") or None}


def _read(text: str) -> dict[str, Any]:
    """The object that was given as JSON, on the command line or by `-`. Raises UsageError."""
    try:
        if text == "-":
            text = sys.stdin.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise _too_large()
        value = json.loads(text, parse_constant=_no_number, parse_int=_whole_number, parse_float=_number)
        size = len(json.dumps(value, ensure_ascii=False).encode())
    except UnicodeError:
        raise UsageError("the state is not valid UTF-8", hint="give it as JSON in UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the state is not JSON: {error}", hint="""such as '{"title": "Fix the login"}'""") from None
    if not isinstance(value, dict):
        raise UsageError("the state is not an object", hint="""such as '{"title": "Fix the login"}'""")
    if size > _MOST_BYTES:
        raise _too_large()
    return value


def _too_large() -> UsageError:
    return UsageError("the state is larger than a state may be", hint="keep long texts in files and name these")


def _whole_number(text: str) -> int:
    if len(text) > _DIGITS or not -(2**63) <= int(text) < 2**64:
        raise _too_long(text)
    return int(text)


def _number(text: str) -> float:
    if float(text) in _INFINITE:
        raise _too_long(text)
    return float(text)


def _too_long(number: str) -> UsageError:
    return UsageError(f"the state holds a number of more than 64 bits: {number[:40]}", hint="give it as text")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _configure_save(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("state", metavar="JSON", help="an object, merged into what is there; null deletes; - reads it")
    group = parser.add_argument_group("how")
    group.add_argument("--snapshot", metavar="NAME", help="keep the result under a name as well")
    _which(parser)


def save(args: argparse.Namespace, context: Context) -> int:
    """Merges and says what was saved."""
    result = context.call("state.save", state=_read(args.state), snapshot=args.snapshot, **_where(args, context))

    def render(found: JsonObject) -> None:
        session = visible(str(found.get("session_id") or ""))[:8]
        title = visible(str((found.get("state") or {}).get("title") or ""))
        did = "saved" if found.get("changed") else "unchanged"
        context.line(f"{did}: session {session}" + (f", {title}" if title else ""), "safe")
        if snapshot := found.get("snapshot"):
            context.line(f"snapshot: {visible(str(snapshot.get('name')))}")

    return context.emit(result, render)


def load(args: argparse.Namespace, context: Context) -> int:
    """Shows the whole state."""
    result = context.call("state.load", **_where(args, context))
    return context.emit(result, lambda found: _whole(found, context))


def _whole(result: JsonObject, context: Context) -> None:
    context.line(head_line(result, context), "dim")
    context.lines(state_lines(result.get("state") or {}, context))


def status(args: argparse.Namespace, context: Context) -> int:
    """Shows what there is, in two lines."""
    result = context.call("state.status", **_where(args, context))

    def render(found: JsonObject) -> None:
        context.line(head_line(found, context), "dim")
        if found.get("exists"):
            context.line(f"{summary(found)}, {counted(int(found.get('snapshots') or 0), 'snapshot')}")

    return context.emit(result, render)


def _configure_clear(parser: argparse.ArgumentParser) -> None:
    asking_options(parser.add_argument_group("how"))
    _which(parser)


def clear(args: argparse.Namespace, context: Context) -> int:
    """Shows what would go, asks, deletes."""
    where = _where(args, context)

    def plan(result: JsonObject) -> None:
        session = visible(str(result.get("session_id") or ""))[:8]
        title = visible(str(result.get("title") or ("untitled" if result.get("exists") else "no state")))
        snapshots = counted(int(result.get("snapshots") or 0), "snapshot")
        context.line(f"session {session}: {title}, {snapshots} to be deleted for good", "look")

    def done(result: JsonObject) -> None:
        session = visible(str(result.get("session_id") or ""))[:8]
        snapshots = counted(int(result.get("snapshots") or 0), "snapshot")
        context.line(f"cleared: session {session}, {snapshots}" if result.get("cleared") else "nothing to clear")

    result = context.confirmed(
        args,
        lambda: context.call("state.clear", **where, dry_run=True),
        lambda: context.call("state.clear", **where, confirmed=True),
        plan,
        "mulligan state clear --yes" + (f" --session {word(args.session)}" if args.session else ""),
    )
    return 0 if result is None else context.emit(result, done)


def _configure_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument_group("how").add_argument("--limit", metavar="N", type=int, help="only the newest so many")
    _which(parser)


def list_(args: argparse.Namespace, context: Context) -> int:
    """Lists snapshots, newest first."""
    if args.limit is not None and args.limit < 0:
        raise UsageError("--limit takes a number of 0 and more", hint="mulligan state list --help")
    result = context.call("state.list", limit=args.limit, **_where(args, context))

    def render(found: JsonObject) -> None:
        snapshots = found.get("snapshots") or []
        if snapshots:
            context.lines(snapshots_table(snapshots, context))
        else:
            context.note("no snapshots: mulligan state save --snapshot NAME makes one")

    return context.emit(result, render)


def _configure_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the snapshot, as `mulligan state list` names it")
    _which(parser)


def load_snapshot(args: argparse.Namespace, context: Context) -> int:
    """Shows one snapshot."""
    result = context.call("state.load_snapshot", name=args.name, **_where(args, context))

    def render(found: JsonObject) -> None:
        context.line(f"{visible(str(found.get('name')))} ({str(found.get('kind')).replace('_', '-')})", "dim")
        context.lines(state_lines(found.get("state") or {}, context))

    return context.emit(result, render)


def restore_snapshot(args: argparse.Namespace, context: Context) -> int:
    """Makes one the state, and names the way back."""
    result = context.call("state.restore_snapshot", name=args.name, **_where(args, context))

    def render(found: JsonObject) -> None:
        context.line(f"the state is {visible(str(found.get('name')))} again", "safe")
        if found.get("undo"):
            session = f" --session {word(args.session)}" if args.session else ""
            context.line(f"what it was: mulligan state restore-snapshot {word(str(found['undo']))}{session}", "dim")

    return context.emit(result, render)


def _configure_backup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file that does not exist yet")


def backup(args: argparse.Namespace, context: Context) -> int:
    """Copies the states of all sessions into a file."""
    result = context.call("state.backup", path=context.absolute(args.file))

    def render(found: JsonObject) -> None:
        from mulligan.client.render.amounts import size  # noqa: PLC0415 - not for JSON

        context.line(
            f"backed up: {context.short(str(found.get('path')))}, {size(int(found.get('bytes') or 0))}", "safe"
        )

    return context.emit(result, render)


def _configure_handoff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument_group("how").add_argument("--print", action="store_true", help="print the text, not its path")
    _which(parser)


def handoff(args: argparse.Namespace, context: Context) -> int:
    """Says where the file is; with `--print` what is in it."""
    result = context.call("state.handoff", **_where(args, context))

    def render(found: JsonObject) -> None:
        if args.print:
            context.lines([visible(line) for line in str(found.get("text") or "").splitlines()])
        else:
            context.line(context.short(shown_path(found)))

    return context.emit(result, render)


def _configure_migrate(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how")
    group.add_argument("--adopt", action="store_true", help="merge it into the session's state")
    group.add_argument("--namespace", metavar="NAME", help="which one, as the report names it")
    _which(parser)


def migrate(args: argparse.Namespace, context: Context) -> int:
    """Tells what was found; with `--adopt` takes it over."""
    if args.namespace is not None and not args.adopt:
        raise UsageError("--namespace says what to adopt", hint="add --adopt")
    where = _where(args, context)
    result = context.call("state.migrate", adopt=args.adopt or None, namespace=args.namespace, **where)

    def render(found: JsonObject) -> None:
        for each in found.get("legacy") or []:
            by = f", in session {visible(str(each['adopted_by']))[:8]}" if each.get("adopted_by") else ""
            title = visible(str(each.get("title") or "without a title"))
            context.line(f"{visible(str(each.get('namespace')))}  {title}, {visible(str(each.get('status')))}{by}")
        for each in found.get("foreign") or []:
            context.line(f"left alone: {context.short(shown_path(each))}: {visible(str(each.get('reason')))}", "look")
        if found.get("adopted"):
            session = visible(str(found.get("session_id") or ""))[:8]
            context.line(f"merged into the state of session {session}", "safe")
            if found.get("undo"):
                context.line(f"what it was: mulligan state restore-snapshot {word(str(found['undo']))}", "dim")
        elif not found.get("legacy"):
            context.note("nothing of an older program was imported for this project")
        elif not any(each.get("adopted_by") for each in found["legacy"]):
            context.note("mulligan state migrate --adopt merges it into the session's state")

    return context.emit(result, render)


ACTIONS = {
    "save": Command(
        "Merges fields into a session's task state; what is not named stays, and null deletes.",
        ("""mulligan state save '{"title": "Fix the login", "next": "write the test"}'""",
         """mulligan state save --snapshot before-refactoring '{"status": "blocked"}'"""),
        _configure_save,
        save,
    ),
    "load": Command(
        "Shows a session's whole task state.",
        ("mulligan state load", "mulligan state load --session 3f2a --json"),
        _which,
        load,
    ),
    "status": Command(
        "Shows whether there is a task state, when it was saved, and how far it is.",
        ("mulligan state status", "mulligan state status --json"),
        _which,
        status,
    ),
    "clear": Command(
        "Deletes a session's task state with its snapshots, and no other session's; asks.",
        ("mulligan state clear", "mulligan state clear --session 3f2a --yes"),
        _configure_clear,
        clear,
    ),
    "list": Command(
        "Lists a session's snapshots, newest first.",
        ("mulligan state list", "mulligan state list --limit 5 --json"),
        _configure_list,
        list_,
    ),
    "load-snapshot": Command(
        "Shows one snapshot, and changes nothing.",
        ("mulligan state load-snapshot before-refactoring", "mulligan state load-snapshot before-refactoring --json"),
        _configure_name,
        load_snapshot,
    ),
    "restore-snapshot": Command(
        "Makes a snapshot the task state; what it was is kept as a snapshot that leads back.",
        ("mulligan state restore-snapshot before-refactoring", "mulligan state restore-snapshot first --session 3f2a"),
        _configure_name,
        restore_snapshot,
    ),
    "migrate": Command(
        "Tells what checkpoint-orchestrator 1.x left in the project; --adopt merges that into a session's state.",
        ("mulligan state migrate", "mulligan state migrate --adopt --session 3f2a"),
        _configure_migrate,
        migrate,
    ),
    "handoff": Command(
        "Writes what the next one has to know into a file: state, commands, files, failures; secrets are taken out.",
        ("mulligan state handoff", "mulligan state handoff --print --session 3f2a"),
        _configure_handoff,
        handoff,
    ),
    "backup": Command(
        "Copies the task states of all sessions, and the settings, into one file while they are in use.",
        ("mulligan state backup ~/mulligan-state.db", "mulligan state backup /backup/state.db --json"),
        _configure_backup,
        backup,
    ),
}  # fmt: skip
