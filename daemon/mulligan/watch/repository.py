"""Which files git takes ignore rules from besides those in a tree: above it, the repository's own, the user's own.

git is never run. Nothing is believed of a repository above a project that is not the user's own, as git does not: else
whoever may write to a directory above could hide everything.
"""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass

from dulwich.config import ConfigFile, StackedConfig

from mulligan.paths import home_of
from mulligan.watch.patterns import read_regular

log = logging.getLogger(__name__)
_GIT, _GITIGNORE = b".git", b".gitignore"
_EXCLUDE = b"info/exclude"
_SYSTEM_CONFIG = "/etc/gitconfig"
_CONFIG_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """An ignore file; `way` leads from its directory down to the one that it is asked for: empty, or ends with a slash.

    `follow`: it may be a symbolic link. git follows none in a work tree.
    """

    path: bytes
    origin: bytes
    way: bytes = b""
    follow: bool = True


@dataclass(frozen=True, slots=True)
class Repository:
    """The top of a work tree, the directory of its repository (the common one of linked work trees), and how deep."""

    top: bytes
    directory: bytes


def repository_at(directory: bytes) -> Repository | None:
    """The repository whose work tree begins in a directory (absolute)."""
    git = os.path.join(directory, _GIT)
    if not os.access(git, os.F_OK):
        return None
    if not os.path.isdir(git):
        git = _pointed_to(git)
    return Repository(directory, git) if git else None


def repository_above(root: bytes) -> Repository | None:
    """The repository of this user in whose work tree a directory lies below the top, on the same file system."""
    try:
        device = os.stat(root).st_dev
        directory = os.path.dirname(root)
        while os.stat(directory).st_dev == device:
            found = repository_at(directory)
            if found is not None and _is_repository(found.directory):
                return found if _is_own(found) else None
            if directory == os.path.dirname(directory):
                return None
            directory = os.path.dirname(directory)
    except OSError:
        return None
    return None


def ignore_files(repository: Repository, root: bytes, environ: Mapping[str, str] | None) -> list[Source]:
    """The sources for a directory in a work tree, the deciding one first; its own ignore file is not among them.

    `environ` tells where the user's configuration is; None: it is not looked for.
    """
    relative = os.path.relpath(root, repository.top)
    names = [] if relative == b"." else relative.split(b"/")
    found = []
    for depth in range(len(names) - 1, -1, -1):
        path = os.path.join(repository.top, *names[:depth], _GITIGNORE)
        found.append(Source(path, path, _way(names[depth:]), follow=False))
    way = _way(names)
    own = os.path.join(repository.directory, _EXCLUDE)
    found.append(Source(own, own if names else b".git/info/exclude", way))
    if environ is not None and (users := _excludes_file(repository, environ)):
        found.append(Source(users, users, way))
    return found


def configuration_files(repository: Repository, environ: Mapping[str, str]) -> list[bytes]:
    """The files in which `core.excludesFile` may stand, the deciding one first."""
    paths = [os.path.join(repository.directory, b"config")]
    if one := environ.get("GIT_CONFIG_GLOBAL"):
        paths.append(os.fsencode(one))
    else:
        home = os.fsencode(home_of(environ))
        paths += [os.path.join(home, b".gitconfig"), os.path.join(_config_home(environ), b"git/config")]
    if "GIT_CONFIG_NOSYSTEM" not in environ:
        paths.append(os.fsencode(environ.get("GIT_CONFIG_SYSTEM") or _SYSTEM_CONFIG))
    return paths


def _way(names: list[bytes]) -> bytes:
    return b"".join(name + b"/" for name in names)


def _config_home(environ: Mapping[str, str]) -> bytes:
    return os.fsencode(environ.get("XDG_CONFIG_HOME") or os.path.join(home_of(environ), ".config"))


def _excludes_file(repository: Repository, environ: Mapping[str, str]) -> bytes:
    """Where the user's own ignore file is; "" if it is said that there is none."""
    backends = [_read_config(path) for path in configuration_files(repository, environ)]
    try:
        named = StackedConfig([each for each in backends if each is not None]).get((b"core",), b"excludesfile")
    except KeyError:
        return os.path.join(_config_home(environ), b"git/ignore")
    if named == b"~" or named.startswith(b"~/"):
        named = os.fsencode(home_of(environ)) + named[1:]
    return os.path.join(repository.top, os.path.expanduser(named)) if named else b""


def _read_config(path: bytes) -> ConfigFile | None:
    """A configuration file with what it includes; None if there is none. One that is wrong says nothing."""

    def opened(included: str | bytes | os.PathLike[str]) -> io.BytesIO:
        data = read_regular(os.fsencode(included), _CONFIG_LIMIT, follow=True)
        if data is None:
            raise FileNotFoundError(included)
        return io.BytesIO(data)

    try:
        return ConfigFile.from_path(os.fsdecode(path), file_opener=opened)
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        log.warning("%s: %s: it is not asked for core.excludesFile", os.fsdecode(path), error)
        return None


def _pointed_to(pointer: bytes) -> bytes:
    """The repository that a `.git` file points to, the common one for a linked work tree; empty if it says nothing."""
    text = (read_regular(pointer, 8192) or b"").strip()
    if not text.startswith(b"gitdir:"):
        return b""
    directory = os.path.join(os.path.dirname(pointer), text.removeprefix(b"gitdir:").strip())
    common = (read_regular(os.path.join(directory, b"commondir"), 8192) or b"").strip()
    return os.path.normpath(os.path.join(directory, common)) if common else directory


def _is_repository(directory: bytes) -> bool:
    """What git looks for before it takes a directory for a repository."""
    head = os.path.lexists(os.path.join(directory, b"HEAD"))
    return head and all(os.path.isdir(os.path.join(directory, name)) for name in (b"objects", b"refs"))


def _is_own(repository: Repository) -> bool:
    places = (repository.top, os.path.join(repository.top, _GIT), repository.directory)
    return all(os.stat(place).st_uid == os.geteuid() for place in places)
