"""`mulligan config`: the configuration file: where it is, whether it is right, what it comes to.

YAML is the daemon's: it reads and checks the file as a process of its own, so that the client stays light.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from mulligan.client.arguments import Command
from mulligan.client.connection import JsonObject
from mulligan.client.context import Context
from mulligan.errors import ConfigError, MulliganError
from mulligan.paths import places

SUMMARY = "Checks and shows the configuration; the file is optional, every key has a default."


def _file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="another file than the one that is in effect")


def _place(args: argparse.Namespace, context: Context) -> str:
    given = getattr(args, "file", None)
    return context.absolute(given) if given else places(context.environ).config_file


def _daemon(flag: str, args: argparse.Namespace, context: Context) -> str:
    """What `mulligand FLAG` prints. Raises ConfigError with its words (exit 78)."""
    command = [sys.executable, "-m", "mulligan.supervisor.main", flag]
    if args.file:
        command += ["--config", context.absolute(args.file)]
    done = subprocess.run(
        command,
        env=dict(context.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return done.stdout
    said = [line for line in done.stderr.splitlines() if line.strip()]
    first = next((index for index, line in enumerate(said) if line.startswith("mulligand: ")), max(0, len(said) - 1))
    message = said[first].removeprefix("mulligand: ") if said else f"mulligand {flag} ended with {done.returncode}"
    hint = "\n".join(line.strip() for line in said[first + 1 :] if line.startswith("  "))
    if done.returncode == ConfigError.exit_status:
        raise ConfigError(message, hint=hint or "mulligan config show --default", path=_place(args, context))
    raise MulliganError(message, hint=hint or "mulligan doctor")


def check(args: argparse.Namespace, context: Context) -> int:
    """Checks the file; exit 78 if it is wrong, with file, line and key."""
    _daemon("--check-config", args, context)
    path = _place(args, context)
    exists = os.path.isfile(path)

    def render(_: JsonObject) -> None:
        shown = context.short(path)
        context.line(f"{shown} is right" if exists else f"{shown} does not exist: the defaults hold", "safe")

    return context.emit({"path": path, "exists": exists, "valid": True}, render)


def _configure_show(parser: argparse.ArgumentParser) -> None:
    _file(parser)
    parser.add_argument_group("what").add_argument(
        "--default", action="store_true", help="the annotated file with all defaults, to begin with"
    )


def show(args: argparse.Namespace, context: Context) -> int:
    """Prints what is in effect, or the shipped default, as YAML."""
    if args.default:
        from mulligan import resources  # noqa: PLC0415 - only here

        text, path = resources.read(resources.DEFAULT_CONFIG), str(resources.find(resources.DEFAULT_CONFIG))
    else:
        text, path = _daemon("--show-config", args, context), _place(args, context)
    return context.emit({"path": path, "yaml": text}, lambda _: context.lines(text.splitlines()))


def path(args: argparse.Namespace, context: Context) -> int:
    """Prints where the file is looked for."""
    place = _place(args, context)
    exists = os.path.isfile(place)
    return context.emit({"path": place, "exists": exists}, lambda _: context.line(context.short(place)))


def _nothing(_parser: argparse.ArgumentParser) -> None:
    pass


ACTIONS = {
    "check": Command(
        "Checks the file, and names file, line and key of what is wrong.",
        ("mulligan config check", "mulligan config check ./config.yaml"),
        _file,
        check,
    ),
    "show": Command(
        "Prints the configuration in effect, or the annotated default.",
        ("mulligan config show", 'mulligan config show --default > "$(mulligan config path)"'),
        _configure_show,
        show,
    ),
    "path": Command(
        "Prints where the configuration file is looked for.",
        ("mulligan config path", '$EDITOR "$(mulligan config path)"'),
        _nothing,
        path,
    ),
}
