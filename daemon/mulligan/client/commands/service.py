"""`mulligan service`: the daemon as the system's to start."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from typing import Any

from mulligan.client.arguments import Command
from mulligan.client.context import Context
from mulligan.client.launch import answering, start, stop
from mulligan.client.render.text import visible
from mulligan.errors import DaemonNotRunningError, MulliganError, NotFoundError, RefusedError
from mulligan.paths import places
from mulligan.service import platform
from mulligan.service.plan import Plan

SUMMARY = "Lets systemd or launchd start the daemon, keep it running and hold its log."


def _plan_object(plan: Plan, dry_run: bool) -> dict[str, Any]:
    return {
        "files": [
            {"path": file.path, "mode": f"{file.mode:04o}", "content": file.content.decode("utf-8", "replace")}
            for file in plan.files
        ],
        "removals": list(plan.removals),
        "commands": [list(command.argv) for command in plan.commands],
        "notes": list(plan.notes),
        "dry_run": dry_run,
    }


def _show_plan(plan: Plan, context: Context) -> None:
    context.lines([visible(line, keep="\t") for line in plan.render().splitlines()])


def _configure_install(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how")
    group.add_argument("--linger", action="store_true", help="start at boot and stay after the last logout")
    group.add_argument("--dry-run", action="store_true", help="print the files and commands and change nothing")


def install(args: argparse.Namespace, context: Context) -> int:
    """Installs and starts the service; a daemon that was started by hand makes room for it."""
    where = places(context.environ)
    executable = platform.find_executable(context.environ)
    if args.dry_run:
        plan = platform.plan_install(where, context.environ, executable, linger=args.linger)
        return context.emit(_plan_object(plan, True), lambda _: _show_plan(plan, context))
    _require_manager(context)
    if not platform.is_installed(context.environ):
        stop(context)
    plan = platform.install(where, context.environ, executable, linger=args.linger)
    start(context)

    def render(_: dict[str, Any]) -> None:
        for file in plan.files:
            context.line(f"installed {context.short(file.path)}")
        for note in plan.notes:
            context.note(f"mulligan: {visible(note)}")
        context.line("the daemon runs and will be started by the system.    mulligan service status", "safe")

    return context.emit(_plan_object(plan, False), render)


def _require_manager(context: Context) -> None:
    """Raises RefusedError before anything is stopped for a service that cannot be."""
    from mulligan.service import systemd  # noqa: PLC0415

    if platform.kind() == "systemd":
        systemd.user_manager(context.environ)


def _configure_uninstall(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how")
    group.add_argument("--dry-run", action="store_true", help="print what would go and change nothing")
    group.add_argument("--purge", action="store_true", help="erase the data too: everything that was ever captured")
    group.add_argument("-y", "--yes", action="store_true", help="do it without asking")


def uninstall(args: argparse.Namespace, context: Context) -> int:
    """Takes the service out; data stay, and where they are is said, unless they are to be erased."""
    where = places(context.environ)
    doomed = [path for path in (where.data_dir, where.state_dir, where.state_db) if os.path.lexists(path)]
    plan = platform.plan_uninstall(context.environ)

    def planned() -> dict[str, Any]:
        return {**_plan_object(plan, True), "data": doomed, "purge": args.purge}

    def show(_: dict[str, Any]) -> None:
        _show_plan(plan, context)
        for path in doomed:
            context.line(
                f"# {'erase' if args.purge else 'keep'} {context.short(path)}", "loss" if args.purge else "dim"
            )

    def act() -> dict[str, Any]:
        installed = platform.is_installed(context.environ)
        platform.uninstall(where, context.environ)
        stop(context)
        if args.purge:
            _erase(doomed)
        return {**_plan_object(plan, False), "was_installed": installed, "data": doomed, "purge": args.purge}

    def done(result: dict[str, Any]) -> None:
        context.line("the service is gone" if result["was_installed"] else "there was no service")
        for path in doomed:
            context.line(f"{'erased' if args.purge else 'kept'} {context.short(path)}")

    if args.dry_run:
        context.emit(planned(), show)
        return 0
    result = (
        context.confirmed(args, planned, act, show, "mulligan service uninstall --purge --yes") if args.purge else act()
    )
    return 0 if result is None else context.emit(result, done)


def _erase(paths: list[str]) -> None:
    """Removes what mulligan made, and nothing that is a link to somewhere else."""
    for path in paths:
        if os.path.islink(path):
            raise RefusedError(f"{path} is a link", hint="erase what it points to yourself")
    for path in paths:
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            for name in (path, path + "-wal", path + "-shm"):
                if os.path.lexists(name):
                    os.unlink(name)


def _nothing(_parser: argparse.ArgumentParser) -> None:
    pass


def status(_args: argparse.Namespace, context: Context) -> int:
    """What the service manager says; exit 7 if the service is installed and the daemon does not run."""
    installed, hello = platform.is_installed(context.environ), answering(context)
    said = ""
    if installed and not context.options.json:
        said = _output(platform.command("status"), context)
    result = {"installed": installed, "running": hello is not None, "version": (hello or {}).get("version")}
    if context.options.json:
        context.json({"installed": installed, "running": hello is not None, "daemon_version": result["version"]})
    elif installed:
        context.lines([visible(line, keep="\t") for line in said.splitlines()])
    else:
        running = "; a daemon runs without it" if hello else ""
        context.line(f"no service is installed{running}.    mulligan service install")
    return DaemonNotRunningError.exit_status if installed and hello is None else 0


def _output(command: tuple[str, ...], context: Context) -> str:
    try:
        done = subprocess.run(
            command,
            env=platform.command_environ(context.environ),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise MulliganError(f"{command[0]}: {error.strerror}", hint="mulligan status") from None
    return done.stdout or done.stderr


def _configure_logs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which")
    group.add_argument("-f", "--follow", action="store_true", help="go on with new lines until Ctrl-C")
    group.add_argument("-n", "--lines", metavar="N", type=int, default=200, help="the last N lines (default: 200)")


def logs(args: argparse.Namespace, context: Context) -> int:
    """Shows the log: the journal's under systemd, else the daemon's own file."""
    if platform.is_installed(context.environ):
        command = platform.logs_command(places(context.environ), follow=args.follow, lines=args.lines)
    else:
        path = os.path.join(places(context.environ).state_dir, "mulligand.log")
        if not os.path.isfile(path):
            raise NotFoundError(f"there is no log at {path}", hint="mulligan start")
        command = ("tail", "-n", str(args.lines), *(("-F",) if args.follow else ()), path)
    context.out.flush()
    try:
        process = subprocess.Popen(
            command,
            env=platform.command_environ(context.environ),
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise MulliganError(f"{command[0]}: {error.strerror}", hint="mulligan status") from None
    with process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                text = visible(line.rstrip("\n"), keep="\t")
                if context.options.json:
                    context.json({"line": text})
                else:
                    context.line(text)
                if args.follow:
                    context.out.flush()
        finally:
            process.terminate()
    return 0


ACTIONS = {
    "install": Command(
        "Installs the service for this user, starts it, and starts it again at every login.",
        ("mulligan service install", "mulligan service install --linger --dry-run"),
        _configure_install,
        install,
    ),
    "uninstall": Command(
        "Takes the service out and stops the daemon; what was captured stays.",
        ("mulligan service uninstall", "mulligan service uninstall --purge"),
        _configure_uninstall,
        uninstall,
    ),
    "status": Command(
        "Shows what the service manager says about it.",
        ("mulligan service status", "mulligan service status --json"),
        _nothing,
        status,
    ),
    "logs": Command(
        "Shows the daemon's log.",
        ("mulligan service logs -n 50", "mulligan service logs -f"),
        _configure_logs,
        logs,
    ),
}
