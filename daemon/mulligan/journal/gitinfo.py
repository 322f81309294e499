"""What git would say of a project (commit and branch), read from its files.

Git is never run, because even ``git status`` writes the index. Every read is bounded, follows git's own rules for
worktrees and packed references, and answers None where a repository cannot be read this way (reftable, damage).
"""

from __future__ import annotations

import os
import re
import stat

from mulligan.model import Git

_SMALL = 4096
#: A repository with more packed references than fit here is told without its commit.
_PACKED_LIMIT = 32 << 20
_DEPTH = 5
_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_HEADS = b"refs/heads/"


def read_git(root: str | bytes) -> Git | None:
    """Commit and branch of the repository that holds `root`: its own ``.git`` or that of the nearest parent.

    A detached HEAD has no branch, a branch without a commit no head. Raises nothing.
    """
    found = git_directory(os.fsencode(os.path.abspath(root)))
    if found is None:
        return None
    _, directory = found
    head = _read(os.path.join(directory, b"HEAD"))
    if head is None:
        return None
    head = head.strip()
    if _COMMIT.match(head):
        return Git(head=head.decode())
    name = _reference(head)
    if name is None or name == b"refs/heads/.invalid":
        return None
    branch = name.removeprefix(_HEADS).decode(errors="replace")
    return Git(head=_resolve(directory, name), branch=branch)


def git_directory(root: bytes) -> tuple[bytes, bytes] | None:
    """(top of the working tree, git's own directory of it) of the repository that holds an absolute path."""
    while True:
        place = os.path.join(root, b".git")
        try:
            mode = os.stat(place).st_mode
        except OSError:
            mode = 0
        if stat.S_ISDIR(mode):
            return root, place
        if stat.S_ISREG(mode):
            linked = _linked(root, place)
            return None if linked is None else (root, linked)
        parent = os.path.dirname(root)
        if parent == root:
            return None
        root = parent


def _linked(root: bytes, place: bytes) -> bytes | None:
    """Where the ``.git`` file of a worktree or a submodule points to."""
    text = _read(place)
    if text is None or not text.startswith(b"gitdir:"):
        return None
    return os.path.join(root, text.removeprefix(b"gitdir:").strip(b" \r\n"))


def common_directory(directory: bytes) -> bytes:
    """Branches and objects of a worktree lie in the repository that it belongs to."""
    text = _read(os.path.join(directory, b"commondir"))
    return directory if text is None else os.path.join(directory, text.strip())


def _reference(text: bytes) -> bytes | None:
    """The name that a symbolic reference holds, if it is one that can only lead into ``refs/``."""
    if not text.startswith(b"ref:"):
        return None
    name = text.removeprefix(b"ref:").strip()
    parts = name.split(b"/")
    if parts[0] != b"refs" or len(parts) < 2 or b"\0" in name or any(part in (b"", b".", b"..") for part in parts):
        return None
    return name


def _resolve(directory: bytes, name: bytes) -> str:
    common = common_directory(directory)
    for _ in range(_DEPTH):
        text = _read(os.path.join(directory, name)) or _read(os.path.join(common, name))
        if text is None:
            return _packed(common, name)
        text = text.strip()
        if _COMMIT.match(text):
            return text.decode()
        following = _reference(text)
        if following is None:
            return ""
        name = following
    return ""


def _packed(common: bytes, name: bytes) -> str:
    data = _read(os.path.join(common, b"packed-refs"), _PACKED_LIMIT) or b""
    at = data.find(b" " + name + b"\n")
    if at < 0:
        return ""
    commit = data[:at].rpartition(b"\n")[2]
    return commit.decode() if _COMMIT.match(commit) else ""


def _read(path: bytes, limit: int = _SMALL) -> bytes | None:
    """A regular file of at most `limit` bytes; None for anything else. Never waits on a FIFO."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode) or state.st_size > limit:
            return None
        data = os.read(fd, limit + 1)
    except OSError:
        return None
    finally:
        os.close(fd)
    return data if len(data) <= limit else None
