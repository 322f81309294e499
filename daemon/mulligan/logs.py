"""Where the daemon's log goes, and what may stand in it.

Under systemd each line goes to the journal with its priority; under launchd and by hand into `mulligand.log` in the
state directory, which is 0600 and rotated, by hand to stderr as well. Names, prompts and paths are foreign: control
characters are made visible, so that no line can pass for another. Contents of files are never logged; as a second line
of defence a message is cut at 2,000 characters. A log that cannot be written never stops the daemon.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import sys
import unicodedata
from collections.abc import Mapping
from typing import IO, Any, Literal

from mulligan.clock import NANOSECONDS, to_rfc3339
from mulligan.store.atomic import make_private_directory

LogFormat = Literal["text", "json"]
LOG_NAME = "mulligand.log"
MESSAGE_LIMIT = 2000
FILE_BYTES = 2 * 2**20
FILES_KEPT = 3
LAUNCHD_LABEL = "dev.mulligan.daemon"

#: syslog's numbers, which the journal reads at the beginning of a line.
_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (0, 7))
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def visible(text: str) -> str:
    r"""The text on one line, with what a terminal would act on or hide written as `\x1b`, `\n`, `\u202e`."""
    if text.isprintable():
        return text
    return "".join(
        _escaped(character) if unicodedata.category(character) in _INVISIBLE else character for character in text
    )


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return ascii(character)[1:-1]


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage()
    return visible(text if len(text) <= MESSAGE_LIMIT else text[:MESSAGE_LIMIT] + "…")


def _moment(record: logging.LogRecord) -> str:
    return to_rfc3339(int(record.created * NANOSECONDS))


class TextFormatter(logging.Formatter):
    """`time LEVEL logger: message`; in the journal, which has its own time, `<priority>logger: message`."""

    def __init__(self, *, journal: bool) -> None:
        super().__init__()
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        """One line, and one more for each line of a traceback."""
        lines = [f"{record.name}: {_message(record)}"]
        if record.exc_info:
            lines += [visible(line) for line in self.formatException(record.exc_info).splitlines()]
        if self._journal:
            priority = next(number for level, number in _PRIORITIES if record.levelno >= level)
            return "\n".join(f"<{priority}>{line}" for line in lines)
        return f"{_moment(record)} {record.levelname:<7} " + "\n    ".join(lines)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, error (the traceback) and the record's `data`."""

    def __init__(self, *, journal: bool) -> None:
        super().__init__()
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        if data := getattr(record, "data", None):
            line["data"] = data
        priority = next(number for level, number in _PRIORITIES if record.levelno >= level)
        return (f"<{priority}>" if self._journal else "") + json.dumps(line, default=lambda value: visible(str(value)))


class PrivateFileHandler(logging.handlers.RotatingFileHandler):
    """A rotating log that is 0600 from its creation on, and that loses lines rather than raise on a full disk."""

    def _open(self) -> Any:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

        return open(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=opener)

    def handleError(self, record: logging.LogRecord) -> None:
        """Drop the line: nobody could read a complaint about it."""


def under_journal(environ: Mapping[str, str], stream: IO[str]) -> bool:
    """Whether a stream is the journal's. The variable alone proves nothing: the children of services inherit it."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def set_up(
    level: str,
    form: LogFormat = "text",
    *,
    environ: Mapping[str, str],
    state_dir: str,
    stream: IO[str] | None = None,
) -> None:
    """Send the log of this process to its place, instead of wherever it went before; `level` as `set_level`."""
    stream = sys.stderr if stream is None else stream
    journal = under_journal(environ, stream)
    make = JsonFormatter if form == "json" else TextFormatter
    handlers: list[logging.Handler] = []
    unread = environ.get("XPC_SERVICE_NAME") == LAUNCHD_LABEL or environ.get("MULLIGAN_DETACHED")
    if not unread:  # a file that stderr goes to grows without end
        handlers.append(logging.StreamHandler(stream))
    trouble = None
    if not journal:
        try:
            make_private_directory(state_dir)
            handlers.append(
                PrivateFileHandler(
                    os.path.join(state_dir, LOG_NAME),
                    maxBytes=FILE_BYTES,
                    backupCount=FILES_KEPT,
                    encoding="utf-8",
                    errors="backslashreplace",
                )
            )
        except OSError as error:
            trouble = error
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.setFormatter(make(journal=journal))
        root.addHandler(handler)
    logging.raiseExceptions = False  # a full disk or a closed stderr is no reason to write more
    logging.captureWarnings(True)
    set_level(level)
    if trouble is not None:
        logging.getLogger(__name__).warning("no log file in %s: %s", state_dir, trouble.strerror)


def set_level(level: str) -> None:
    """How much is logged: debug, info, warning or error. Other people's packages are heard from `warning` on."""
    logging.getLogger().setLevel(max(_LEVELS[level], logging.WARNING))
    logging.getLogger("mulligan").setLevel(_LEVELS[level])
