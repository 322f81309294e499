"""Which programs a command line really runs: what stands behind `sudo`, `env`, `xargs`, `bash -c` and their like.

Pure, and never more than a look at words: what a script or a makefile runs in turn is not seen.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mulligan.session.shell import Command, read

#: Commands in one another (`bash -c "bash -c …"`) are read to this depth.
_DEEPEST = 4
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=")
_KEYWORDS = frozenset(("then", "do", "else", "elif", "if", "while", "until", "!", "{", "coproc"))
_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "ash", "fish"))
#: Program that runs the one behind it → (its options that take a value, how many words of its own come first).
_RUNNERS: dict[str, tuple[str, int]] = {
    "sudo": ("-u -g -h -p -C -T -U -r -t -D -R --user --group --host --prompt --chdir", 0),
    "doas": ("-u -C", 0),
    "env": ("-u -C -S --unset --chdir", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p --class --classdata", 0),
    "timeout": ("-s -k --signal --kill-after", 1),
    "gtimeout": ("-s -k --signal --kill-after", 1),
    "time": ("-f -o --format --output", 0),
    "stdbuf": ("-i -o -e --input --output --error", 0),
    "xargs": ("-n -I -P -L -d -a -s -E --max-args --max-procs --max-lines --delimiter --arg-file --replace", 0),
    "watch": ("-n --interval", 0),
    "flock": ("-w -E --timeout --conflict-exit-code", 1),
    "exec": ("-a", 0),
    "strace": ("-o -e -p -s", 0),
    "npx": ("-p --package -c --call", 0),
    "bunx": ("", 0),
    "uvx": ("--from --with --python", 0),
    "direnv": ("", 2),
    "op": ("--env-file --account", 1),
    "doppler": ("-p -c --project --config", 1),
    "aws-vault": ("", 2),
    "dotenv": ("-e -f", 0),
    **dict.fromkeys(("nohup", "setsid", "command", "builtin", "unbuffer", "chronic", "caffeinate", "busybox"), ("", 0)),
}
#: Package managers that run what is installed: `poetry run alembic upgrade head`.
_RUN_WORDS = {
    "poetry": ("run",), "uv": ("run",), "pdm": ("run",), "hatch": ("run",), "rye": ("run",), "pipenv": ("run",),
    "pipx": ("run",), "bundle": ("exec",), "npm": ("exec", "x"), "pnpm": ("exec", "dlx"), "yarn": ("exec", "dlx"),
    "mise": ("exec", "x"), "conda": ("run",),
}  # fmt: skip
_RUN_OPTIONS = "-n -p --name --prefix --with --python --package --group --extra --env-file"


class Run(NamedTuple):
    """A program with its words, without what started it, the files behind `>` and the here documents that it reads.

    Without words it is a redirection alone, as in `> file`.
    """

    words: list[str]
    written: list[str]
    documents: list[str]


def programs(text: str, depth: int = 0) -> tuple[list[Run], bool]:
    """(what a command line runs, as far as its words tell; whether all of it could be read)."""
    script = read(text)
    found: list[Run] = []
    whole = script.whole
    for command in script.commands:
        for run in _peeled(command):
            inner = list(_scripts(run)) if run.words else []
            found.append(run._replace(words=[]) if inner else run)
            for each in inner:
                if depth >= _DEEPEST:
                    whole = False
                    continue
                more, readable = programs(each, depth + 1)
                found += more
                whole = whole and readable
    return found, whole


def program_name(word: str) -> str:
    """`/usr/bin/git` and `./gradlew` by their last part."""
    return posixpath.basename(word)


def _peeled(command: Command) -> Iterator[Run]:
    """The command without assignments, keywords and runners; `find -exec` runs one more for each."""
    words = command.words
    while words:
        head = program_name(words[0])
        if head in _KEYWORDS or _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif head in _RUNNERS:
            if head == "command" and words[1:2] and words[1] in ("-v", "-V"):
                return
            if head in ("flock", "npx") and ("-c" in words or "--call" in words):
                break
            options, own = _RUNNERS[head]
            words = _behind_options(words[1:], options, own)
        elif head in _RUN_WORDS and words[1:2] and words[1] in _RUN_WORDS[head]:
            words = _behind_options(words[2:], _RUN_OPTIONS, 0)
        elif head.startswith(("python", "pypy")) and "-m" in words[1:4]:
            words = words[words.index("-m") + 1 :]
        else:
            break
    if words and program_name(words[0]) == "find":
        yield from _executed(words)
    yield Run(words, command.written, command.documents)


def _behind_options(words: Sequence[str], options: str, own: int) -> list[str]:
    """What stands behind options, their values and some words; `--` ends the options."""
    rest, valued = list(words), options.split()
    while rest and (rest[0].startswith("-") or own):
        word = rest.pop(0)
        if word == "--":
            return rest[own:]
        if not word.startswith("-"):
            own -= 1
        elif word in valued and rest:
            rest.pop(0)
    return rest


def _executed(words: Sequence[str]) -> Iterator[Run]:
    start = 0
    for place, word in enumerate([*words, ";"]):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            start = place + 1
        elif word in (";", "+") and start:
            yield Run(list(words[start:place]), [], [])
            start = 0


def _scripts(run: Run) -> Iterator[str]:
    """The texts that a program reads as a shell's: of `bash -c`, `eval`, `su -c`, and of a shell's input."""
    head, rest = program_name(run.words[0]), run.words[1:]
    if head == "eval":
        yield " ".join(rest)
    elif head in _SHELLS or head in ("su", "flock", "npx", "script"):
        for place, word in enumerate(rest[:-1]):
            if word == "--call" or (word.startswith("-") and not word.startswith("--") and word.endswith("c")):
                yield rest[place + 1]
                return
        if head in _SHELLS and all(word.startswith("-") for word in rest):
            yield from run.documents
