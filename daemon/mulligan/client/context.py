"""What a command works with: options, the daemon, the terminal, and the one way to ask."""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from mulligan.client.arguments import Options, columns
from mulligan.client.connection import Connection, JsonObject, connect
from mulligan.client.render.amounts import wall_seconds
from mulligan.client.render.text import Palette, tilde, visible
from mulligan.errors import MulliganError, RefusedError
from mulligan.paths import home_of

#: How many lines of foreign reasons are shown before the rest is counted.
SHOWN = 20


class Context:
    """Options, streams and connection of one run of the client."""

    def __init__(
        self,
        options: Options,
        *,
        environ: Mapping[str, str] | None = None,
        out: TextIO | None = None,
        err: TextIO | None = None,
        now: Callable[[], float] = wall_seconds,
    ) -> None:
        self.options = options
        self.environ = os.environ if environ is None else environ
        self.out = sys.stdout if out is None else out
        self.err = sys.stderr if err is None else err
        self.now = now
        self.width = columns()
        self.palette = Palette(self._colour(self.out))
        self._connection: Connection | None = None

    def _colour(self, stream: TextIO) -> bool:
        if self.options.color != "auto":
            return self.options.color == "always"
        return stream.isatty() and not self.environ.get("NO_COLOR") and self.environ.get("TERM") != "dumb"

    # --- the daemon

    def connection(self) -> Connection:
        """The connection, made at the first use. Raises DaemonNotRunningError."""
        if self._connection is None:
            self._connection = connect(self.environ, self.options.socket)
        return self._connection

    def close(self) -> None:
        """Ends the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def agent_session(self) -> str | None:
        """The session of the agent that runs this command, as far as its environment says; it may have another now."""
        return self.environ.get("CLAUDE_CODE_SESSION_ID") or self.environ.get("MULLIGAN_SESSION") or None

    def call(self, method: str, **params: Any) -> JsonObject:
        """The result of a method, with progress on a terminal's stderr. `from_` stands for the parameter `from`."""
        if "from_" in params:
            params["from"] = params.pop("from_")
        if self.options.quiet or not self.err.isatty():
            return self.connection().call(method, params)
        from mulligan.client.render.progress import Progress  # noqa: PLC0415 - terminals only

        with Progress(self.err, columns(2)) as progress:
            return self.connection().call(method, params, progress.show)

    # --- what the arguments mean

    def directory(self) -> str:
        """The working directory. Raises MulliganError if it was deleted."""
        try:
            return os.getcwd()
        except FileNotFoundError:
            raise MulliganError("the working directory does not exist any more", hint="cd, or --project PATH") from None

    def absolute(self, path: str) -> str:
        """A path of the user as an absolute one, not following its last link."""
        return os.path.normpath(path if os.path.isabs(path) else os.path.join(self.directory(), path))

    def project(self, args: argparse.Namespace) -> str:
        """The absolute path that names the project: --project, else the working directory."""
        given = getattr(args, "project", None)
        return self.absolute(given) if given else self.directory()

    def file(self, args: argparse.Namespace, path: str) -> JsonObject:
        """The parameters that name one file and its project: --project, else the one that holds the file.

        With --project a relative path begins there, unless the working directory lies in that project.
        """
        project = self.project(args) if getattr(args, "project", None) else None
        if project is not None and not os.path.isabs(path):
            here = self.directory()
            path = os.path.join(here if here == project or here.startswith(project + os.sep) else project, path)
        return {"project": project or self.absolute(path), **self.paths([path])}

    def where(self, args: argparse.Namespace) -> JsonObject:
        """The parameters `project` and `session` of a command."""
        return {"project": self.project(args), "session": getattr(args, "session", None)}

    def paths(self, given: Sequence[str]) -> JsonObject:
        """The parameter that names paths: `paths`, or `paths_b64` if one of them is not UTF-8; none for no path."""
        absolute = [self.absolute(path) for path in given]
        if not absolute:
            return {}
        try:
            "".join(absolute).encode()
        except UnicodeEncodeError:
            return {"paths_b64": [base64.b64encode(os.fsencode(path)).decode() for path in absolute]}
        return {"paths": absolute}

    # --- what a person sees

    def line(self, text: str = "", style: str = "") -> None:
        """One line of our own text on stdout. Foreign parts of it were made visible by the caller."""
        self.out.write(self.palette.paint(text, style) + "\n")

    def lines(self, texts: Sequence[str]) -> None:
        """Several lines on stdout."""
        self.out.writelines(text + "\n" for text in texts)

    def note(self, text: str) -> None:
        """One line on stderr, unless quiet."""
        if not self.options.quiet:
            self.err.write(text + "\n")

    def short(self, path: str) -> str:
        """A path as a person reads it: ~ for home on a terminal, whole in a pipe; always harmless."""
        return visible(tilde(path, home_of(self.environ)) if self.out.isatty() else path)

    def emit(self, result: JsonObject, render: Callable[[JsonObject], None]) -> int:
        """Prints a result as JSON or by `render`; the exit status that it names, else 0."""
        if self.options.json:
            self.json(result)
        else:
            render(result)
        status = result.get("exit_status")
        return status if isinstance(status, int) and not isinstance(status, bool) else 0

    def json(self, result: JsonObject, texts: Mapping[str, str] | None = None) -> None:
        """One JSON object on one line of stdout. Escapes keep control characters of foreign text out.

        `texts` are more fields, whose values are JSON already.
        """
        whole = {"version": 1, **{key: value for key, value in result.items() if key != "version"}}
        self.out.write(json.dumps(whole, separators=(",", ":"))[:-1])
        for key, text in (texts or {}).items():
            self.out.writelines((f',"{key}":', text))
        self.out.write("}\n")

    def warnings(self, result: JsonObject) -> None:
        """The warnings of a result on stderr, foreign text made visible."""
        found = result.get("warnings") or []
        for warning in found[:SHOWN]:
            self.note(f"mulligan: {visible(_text_of(warning))}")
        if len(found) > SHOWN:
            self.note(f"mulligan: and {len(found) - SHOWN} more warnings")

    # --- asking

    def may_ask(self) -> bool:
        """Whether somebody can read a question and answer it."""
        return sys.stdin.isatty() and (self.out.isatty() or self.err.isatty())

    def ask(self, question: str) -> None:
        """Returns if the answer is yes. Raises RefusedError for every other one, and for none."""
        self.out.flush()
        stream = self.out if self.out.isatty() and not self.options.json else self.err
        stream.write(question + " [y/N] ")
        stream.flush()
        answer = sys.stdin.readline()
        if not answer:
            stream.write("\n")
        if answer.strip().lower() not in {"y", "yes"}:
            raise RefusedError("cancelled, nothing was changed")

    def confirmed(
        self,
        args: argparse.Namespace,
        plan: Callable[[], JsonObject],
        act: Callable[[], JsonObject],
        show: Callable[[JsonObject], None],
        again: str,
    ) -> JsonObject | None:
        """The result of `act` after --yes or an answer; None after --dry-run, whose plan was printed.

        `again` is the command that would do it without asking. Without a terminal and without --yes the plan is
        printed and RefusedError raised (exit 4).
        """
        dry = bool(getattr(args, "dry_run", False))
        if args.yes and not dry:
            return act()
        planned = plan()
        if dry or not self.may_ask():
            self.emit(planned, show)
            if dry:
                return None
            self.out.flush()
            raise RefusedError("not done: there is no terminal to ask on", hint=again)
        self._show_before_asking(planned, show)
        self.ask("Go on?")
        return act()

    def _show_before_asking(self, planned: JsonObject, show: Callable[[JsonObject], None]) -> None:
        """The plan where the person looks: on stderr if stdout goes elsewhere or is to be JSON."""
        out, palette = self.out, self.palette
        if self.options.json or not self.out.isatty():
            self.out, self.palette = self.err, Palette(self._colour(self.err))
        try:
            show(planned)
        finally:
            self.out, self.palette = out, palette


def _text_of(warning: Any) -> str:
    if isinstance(warning, dict):
        parts = [str(warning[key]) for key in ("path", "message", "reason") if warning.get(key)]
        return ": ".join(parts) or json.dumps(warning)
    return str(warning)
