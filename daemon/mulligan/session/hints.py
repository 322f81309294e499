"""Which files a shell command names as its victims, as well as a look at its words can tell.

A hint and nothing more: these files are captured before anything else, ignored ones too. What a command really changed
is said by the file system alone, so neither a miss nor a false find does any harm.
"""

from __future__ import annotations

import posixpath
from itertools import pairwise

from mulligan.session.programs import program_name, programs

_LAST_IS_WRITTEN = frozenset(("cp", "install", "ln", "rsync"))
_ALL_ARE_WRITTEN = frozenset(("rm", "rmdir", "unlink", "shred", "mv", "truncate", "tee", "touch", "chmod", "chown"))
_MOST = 64
_LONGEST = 20_000


def written_paths(command: str, cwd: str) -> tuple[bytes, ...]:
    """Absolute paths that `rm mv cp sed -i truncate >` and their like name in a command run in `cwd`; at most 64."""
    found: dict[bytes, None] = {}
    where = cwd
    for run in programs(command[:_LONGEST])[0]:
        if len(run.words) == 2 and run.words[0] == "cd":
            where = posixpath.normpath(posixpath.join(where, run.words[1]))
        files = [name for name in run.written if not name.startswith("/dev/")]
        for name in files + _victims(run.words):
            path = posixpath.normpath(posixpath.join(where, name))
            if path.startswith("/") and not any(letter in name for letter in "\0*?[$`{"):
                found[b"/" + path.lstrip("/").encode(errors="replace")] = None
    return tuple(found)[:_MOST]


def _victims(words: list[str]) -> list[str]:
    if not words:
        return []
    tool = program_name(words[0])
    plain = [word for word in words[1:] if not word.startswith("-")]
    options = [word for word in words[1:] if word.startswith("-")]
    if tool == "git" and plain[:1] == ["rm"]:
        return plain[1:]
    if tool == "sed":
        in_place = any(word.startswith(("-i", "--in-place")) for word in options)
        scripted = any(word.startswith(("-e", "-f", "--expression", "--file")) for word in options)
        scripts = {word for option, word in pairwise(words) if option in ("-e", "-f", "--expression", "--file")}
        files = [word for word in plain if word not in scripts] if scripted else plain[1:]
        return files if in_place else []
    if tool == "dd":
        return [word.removeprefix("of=") for word in plain if word.startswith("of=")]
    if tool in _LAST_IS_WRITTEN:
        return plain[-1:] if len(plain) > 1 else []
    return plain if tool in _ALL_ARE_WRITTEN else []
