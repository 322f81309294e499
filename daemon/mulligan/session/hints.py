"""Which files a shell command names as its victims, as well as a look at its words can tell.

A hint and nothing more: these files are captured before anything else, ignored ones too. What a command really changed
is said by the file system alone, so neither a miss nor a false find does any harm.
"""

from __future__ import annotations

import posixpath
import shlex
from itertools import pairwise

_LAST_IS_WRITTEN = frozenset(("cp", "install", "ln", "rsync"))
_ALL_ARE_WRITTEN = frozenset(("rm", "rmdir", "unlink", "shred", "mv", "truncate", "tee", "touch", "chmod", "chown"))
_WRAPPERS = frozenset(("sudo", "env", "command", "nohup", "time", "nice", "exec", "builtin", "then", "do", "else", "!"))
_ENDS = frozenset((";", "&", "&&", "||", "|", "|&", "(", ")", "\n", ";;", "&|"))
_MOST = 64
_LONGEST = 20_000


def written_paths(command: str, cwd: str) -> tuple[bytes, ...]:
    """Absolute paths that `rm mv cp sed -i truncate >` and their like name in a command run in `cwd`; at most 64."""
    found: dict[bytes, None] = {}
    where = cwd
    for words in _commands(command[:_LONGEST]):
        names, rest = _redirections(words)
        while rest and (rest[0] in _WRAPPERS or ("=" in rest[0] and not rest[0].startswith("-"))):
            rest = rest[1:]
        if rest and rest[0] == "cd" and len(rest) == 2:
            where = posixpath.normpath(posixpath.join(where, rest[1]))
        for name in names + _victims(rest):
            path = posixpath.normpath(posixpath.join(where, name))
            if path.startswith("/") and not any(letter in name for letter in "\0*?[$`{"):
                found[b"/" + path.lstrip("/").encode(errors="replace")] = None
    return tuple(found)[:_MOST]


def _commands(command: str) -> list[list[str]]:
    """The simple commands of a line, as words; nothing if its quoting cannot be understood."""
    lexer = shlex.shlex(command.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word in _ENDS:
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError:
        pass  # an open quote: what came before it still counts
    return commands


def _redirections(words: list[str]) -> tuple[list[str], list[str]]:
    """The files behind `>`, and the words without them."""
    names: list[str] = []
    rest: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        if word in (">", ">>", ">|", "&>", "&>>", ">&") and position + 1 < len(words):
            target = words[position + 1]
            if not (word == ">&" and (target.isdigit() or target == "-")) and not target.startswith("/dev/"):
                names.append(target)
            position += 1
            if rest and rest[-1].isdigit():
                rest.pop()
        else:
            rest.append(word)
        position += 1
    return names, rest


def _victims(words: list[str]) -> list[str]:
    if not words:
        return []
    tool = posixpath.basename(words[0])
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
