"""Expected errors: each class carries its code, its exit status and the next step.

A `MulliganError` is something a person can act on. Anything else that is raised is a bug and is caught only at the
request and the task boundary. Standard library only: the client imports this module.
"""

from __future__ import annotations

from typing import Any, ClassVar


class MulliganError(Exception):
    """An expected failure: message (what, where, why), hint (the next step), data for programs.

    `code` is stable and part of the protocol; `exit_status` is what the client ends with (contract, exit codes).
    """

    code: ClassVar[str] = "failed"
    exit_status: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "", **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data = data


class UsageError(MulliganError):
    """The words of the request do not fit."""

    code = "usage"
    exit_status = 2


class AmbiguousError(UsageError):
    """A name fits more than one thing; `data["candidates"]` lists them."""

    code = "ambiguous"


class PartialError(MulliganError):
    """Part was done; everything that was not is named."""

    code = "partial"
    exit_status = 3


class RefusedError(MulliganError):
    """Not done, on purpose: it needs a confirmation, or it would do harm."""

    code = "refused"
    exit_status = 4


class ReadOnlyError(RefusedError):
    """The store or the state database can be read and not written."""

    code = "read_only"


class NotFoundError(MulliganError):
    """The thing named does not exist; `data["nearest"]` lists what is near."""

    code = "not_found"
    exit_status = 5


class ConflictError(MulliganError):
    """Changes collide; nothing was written."""

    code = "conflict"
    exit_status = 6


class DaemonNotRunningError(MulliganError):
    """No daemon answers."""

    code = "not_running"
    exit_status = 7


class BusyError(MulliganError):
    """Another operation of the same project is under way."""

    code = "busy"
    exit_status = 8


class IntegrityError(MulliganError):
    """Stored bytes are missing or are not what their hash says."""

    code = "integrity"
    exit_status = 9


class LockedError(MulliganError):
    """Another daemon holds the data directory (EX_TEMPFAIL)."""

    code = "locked"
    exit_status = 75


class ConfigError(MulliganError):
    """The configuration cannot be used (EX_CONFIG); the message names file, line and key."""

    code = "config"
    exit_status = 78


class NewerFormatError(MulliganError):
    """The store was written by a newer version (EX_CONFIG)."""

    code = "newer_format"
    exit_status = 78
