"""What an installation will do, as a list that can be shown before it is done.

Standard library only: the client imports this package.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from mulligan.errors import MulliganError

#: systemctl waits for READY, which may wait for a recovery; this is a net below, not a limit to reach.
COMMAND_SECONDS = 700


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that is to exist; made 0700 if it is missing."""

    path: str


@dataclass(frozen=True, slots=True)
class File:
    """A file with its whole content; replaced as a whole, never seen half-written."""

    path: str
    content: bytes
    mode: int = 0o600


@dataclass(frozen=True, slots=True)
class Removal:
    """A file that is not to exist."""

    path: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run. With `may_fail` its failure is no reason to stop (taking out what is only half there)."""

    argv: tuple[str, ...]
    may_fail: bool = False

    def __str__(self) -> str:
        return shlex.join(self.argv)


Step = Directory | File | Removal | Command


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in their order, and notes for the person."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[File, ...]:
        """The files that will be written."""
        return tuple(step for step in self.steps if isinstance(step, File))

    @property
    def removals(self) -> tuple[str, ...]:
        """The files that will go."""
        return tuple(step.path for step in self.steps if isinstance(step, Removal))

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands that will run."""
        return tuple(step for step in self.steps if isinstance(step, Command))

    def render(self) -> str:
        """The plan as text: files in full, everything in its order; what `--dry-run` prints."""
        parts = []
        for step in self.steps:
            match step:
                case Directory(path):
                    parts.append(f"# directory {path} (0700 if it is made)\n")
                case File(path, content, mode):
                    parts.append(f"# file {path} ({mode:04o})\n{content.decode('utf-8', 'replace')}\n")
                case Removal(path):
                    parts.append(f"# remove {path}\n")
                case Command():
                    parts.append(f"$ {step}\n")
        return "".join(parts) + "".join(f"# {note}\n" for note in self.notes)


class CommandError(MulliganError):
    """A command of the service manager failed; the message holds what it said."""


def apply(plan: Plan, environ: Mapping[str, str]) -> None:
    """Do the steps, stopping at the first that fails; doing a plan twice is the same as once.

    Raises CommandError, and OSError where a file cannot be written.
    """
    for step in plan.steps:
        match step:
            case Directory(path):
                _make_directory(path)
            case File():
                _write(step)
            case Removal(path):
                try:
                    os.unlink(path)
                except FileNotFoundError:
                    pass
            case Command():
                _run(step, environ)


def _make_directory(path: str) -> None:
    if not os.path.isdir(path):
        _make_directory(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass


def _write(file: File) -> None:
    _make_directory(os.path.dirname(file.path))
    temporary = f"{file.path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, file.mode)
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, file.mode)  # whatever the umask
        stream.write(file.content)
        stream.flush()
        os.fsync(descriptor)
    os.replace(temporary, file.path)


def _run(command: Command, environ: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            command.argv, env=dict(environ), capture_output=True, text=True, errors="replace", timeout=COMMAND_SECONDS,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        said = (done.stderr or done.stdout).strip()
        reason = said.splitlines()[0] if said else f"exit status {done.returncode}"
        failed = done.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as error:
        failed, reason = True, str(error)
    if failed and not command.may_fail:
        raise CommandError(
            f"`{command}` failed: {reason}", hint="look at: mulligan service logs", command=list(command.argv)
        )
