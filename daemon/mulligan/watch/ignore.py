"""Which paths are left out: version control, what is derived, and what the project's ignore files say.

For a path that no directory above leaves out, the first of these that has an opinion decides: version control's own and
mulligan's own names, roots of other projects, paths that an agent's tool named (`force`); then `.mulliganignore` files
from the path's directory upwards, `include` and `exclude` of the configuration, `.gitignore` files from the path's
directory upwards to the top of the repository, `info/exclude` of the repository, the file that the user's own git
configuration names; then the names and tags of derived directories. Within one file the last matching line decides.
As in git, nothing below a directory that is left out can be taken in again by a pattern.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mulligan.model import RelPath
from mulligan.watch import derived
from mulligan.watch.derived import is_client_temporary
from mulligan.watch.hidden import BESIDE, DERIVED, FOREIGN, STAGE, VERSION_CONTROL, Hidden
from mulligan.watch.patterns import Pattern, PatternFile, read_regular
from mulligan.watch.repository import (
    Repository,
    Source,
    configuration_files,
    ignore_files,
    repository_above,
    repository_at,
)

__all__ = ["IgnoreRules", "is_client_temporary"]

_log = logging.getLogger(__name__)

_GITIGNORE, _OWN = b".gitignore", b".mulliganignore"
_IGNORE_FILES = frozenset((_GITIGNORE, _OWN, derived.CACHE_TAG, derived.VENV_TAG))
_SOURCES = (_GITIGNORE, _OWN, derived.GIT)
_MEMO_LIMIT = 20_000
#: Of a longer ignore file only the whole lines up to here count: half a line could leave out everything.
_SIZE_LIMIT = 1 << 20
_ROOT = RelPath(b"")

_Candidates = tuple[tuple[PatternFile, Pattern], ...]


@dataclass(slots=True)
class _Level:
    """The rules of a directory; shared with the directories below that have no ignore file of their own."""

    excluded: bool = False
    own: tuple[PatternFile, ...] = ()
    configured: tuple[PatternFile, ...] = ()
    git: tuple[PatternFile, ...] = ()
    memo: dict[bytes, _Candidates] = field(default_factory=dict)

    def candidates(self, name: bytes) -> _Candidates:
        """The patterns that may decide about an entry of this name, the deciding one first."""
        found = self.memo.get(name)
        if found is None:
            files = (*self.own, *self.configured, *self.git)
            found = tuple((file, pattern) for file in files for pattern in file.candidates(name))
            if len(self.memo) >= _MEMO_LIMIT:
                self.memo.clear()
            self.memo[name] = found
        return found


def _split(path: bytes) -> tuple[RelPath, bytes]:
    parent, _, name = path.rpartition(b"/")
    return RelPath(parent), name


class IgnoreRules:
    """The rules of one root. Read as they are needed and kept until `reload`; for one thread.

    `boundaries` are roots of other projects, absolute or relative; what does not lie below the root is passed over.
    `exclude` and `include` are patterns in the syntax of ignore files, from the root on; `include` takes in again.
    `environ` tells where the user's own git configuration is; without it, it counts for nothing.
    """

    def __init__(
        self,
        root: bytes,
        boundaries: Iterable[bytes] = (),
        *,
        exclude: Sequence[str] = (),
        include: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._root, self._environ = root, environ
        self.hidden = Hidden()
        self._levels: dict[RelPath, _Level] = {}
        self._excluded = _Level(excluded=True)
        self._files: dict[RelPath, tuple[PatternFile, ...]] = {}
        self._tags: dict[RelPath, str] = {}
        self._complaints: set[bytes] = set()
        self._forced: set[bytes] = set()
        self._passages: set[bytes] = set()
        self._outer: tuple[PatternFile, ...] = ()
        self._stamps: dict[bytes, tuple[int, ...]] = {}
        self._changing = b""
        self._boundaries: frozenset[bytes] = frozenset()
        self._include, self._excluded_by = list(include), list[str]()
        self._configured: tuple[PatternFile, ...] = ()
        self.set_excluded(exclude)
        self.set_boundaries(boundaries)

    # asking

    def judge(self, path: RelPath, is_dir: bool) -> bool:
        """Whether a path is left out; the root never is. Whether it exists does not matter."""
        return bool(self.why(path, is_dir))

    def why(self, path: RelPath, is_dir: bool) -> str:
        """What leaves a path out, in words; "" if nothing does."""
        if not path:
            return ""
        parent, name = _split(path)
        level = self._levels.get(parent) or self._level(parent)
        if not is_dir and not level.excluded and name != derived.GIT and not level.candidates(name):
            return ""
        return self._reason(level, parent, path, name, is_dir)

    def leaves_out(self, path: RelPath, is_dir: bool) -> bool:
        """`judge` for an entry that was just `listed`: it is counted if it is left out."""
        reason = self.why(path, is_dir)
        if reason:
            self.hidden.add(path.rpartition(b"/")[0], reason)
        return bool(reason)

    def is_foreign(self, path: RelPath) -> bool:
        """Whether a path is the root of another project or lies in one."""
        return any(path == root or path.startswith(root + b"/") for root in self._boundaries)

    def is_ignore_file(self, path: RelPath) -> bool:
        """Whether a change of this path may change what is left out below, or at, its directory."""
        return path.rpartition(b"/")[2] in _IGNORE_FILES

    # telling

    def listed(self, directory: RelPath, names: Collection[bytes]) -> None:
        """Spare the look for ignore files in a directory whose names were just read; its count is begun anew."""
        self.hidden.listed(directory, len(names))
        if directory and directory not in self._levels and not any(name in names for name in _SOURCES):
            parent, name = _split(directory)
            above = self._level(parent)
            out = above.excluded or self._left_out(above, parent, directory, name)
            self._levels[directory] = self._excluded if out else above

    def set_boundaries(self, boundaries: Iterable[bytes]) -> None:
        """Name the roots of other projects anew: they belong to those."""
        below = self._root.rstrip(b"/") + b"/"
        plain = (path.rstrip(b"/") for path in boundaries)
        relative = (path.removeprefix(below) if path.startswith(below) else path for path in plain)
        self._boundaries = frozenset(path for path in relative if path and not path.startswith(b"/"))
        self._levels.clear()

    def set_excluded(self, exclude: Sequence[str]) -> bool:
        """Leave out by other patterns than those given first. Whether they differ from those in effect."""
        if self._configured and list(exclude) == self._excluded_by:
            return False
        self._excluded_by = list(exclude)
        lines = [os.fsencode(pattern) for pattern in exclude]
        lines += [b"!" + os.fsencode(pattern) for pattern in self._include]
        configured = PatternFile(b"\n".join(lines), _ROOT, "configuration")
        before, self._configured = self._configured, (configured,) if configured else ()
        self._levels.clear()
        return before != self._configured

    def force(self, path: RelPath) -> bool:
        """Take a path in whatever the rules say, and with it the directories on the way to it, but nothing beside it.

        What lies in it, if it is a directory, is judged as before.

        False, and nothing is done, for what belongs to version control, to mulligan or to another project.
        """
        parts = path.split(b"/")
        above = [b"/".join(parts[:depth]) for depth in range(1, len(parts))]
        if not path or derived.is_stage(parts[0]) or derived.VCS_DIRECTORIES.intersection(parts):
            return False
        if self._boundaries.intersection((*above, path)):
            return False
        self._forced.add(path)
        self._passages.update(above)
        return True

    def snapshot(self) -> IgnoreRules:
        """The rules as they are now, to compare with after a `reload`."""
        other = copy.copy(self)
        other._levels, other._files, other._tags = dict(self._levels), dict(self._files), dict(self._tags)
        return other

    def changed_outside(self) -> bool:
        """Whether ignore rules that are read outside of the tree are others now; `reload` of the root takes them in.

        Costs a look at each of these files. Nothing tells of them, and a file that the configuration includes, or a
        repository that comes to be above the root, is noticed by `reload` alone.
        """
        known = self._stamps
        if all(_stamp(path) == stamp for path, stamp in known.items()):
            return False
        return _said(self._outer) != _said(self._repository(_ROOT))

    def changed_outside_since(self, moment: int) -> bool:
        """Whether an ignore file outside of the tree became what it is after a moment (wall clock).

        The user's git configuration counts as one. A repository's own does not, for it changes with every branch.
        """
        self._level(_ROOT)
        return any(stamp[-1] > moment for path, stamp in self._stamps.items() if stamp and path != self._changing)

    def reload(self, directory: RelPath) -> bool:
        """Read the ignore files of a directory again. Returns whether that can change what is left out."""
        files, tag = self._contents(directory), self._tags.get(directory)
        below = directory + b"/" if directory else b""
        tables: tuple[dict[RelPath, Any], ...] = (self._levels, self._files, self._tags)
        for table in tables:
            for path in [path for path in table if path == directory or path.startswith(below)]:
                del table[path]
        self._level(directory)
        if files != self._contents(directory):
            return True
        return tag is not None and tag != derived.tag_inside(self._absolute(directory))

    # the rules

    def _reason(
        self, level: _Level, parent: RelPath, path: bytes, name: bytes, is_dir: bool, *, inside: bool = False
    ) -> str:
        """What leaves a path out; with `inside`, what leaves out the contents of a directory."""
        if name == derived.GIT or (is_dir and name in derived.VCS_DIRECTORIES):
            return VERSION_CONTROL
        if not parent and derived.is_stage(name):
            return STAGE
        if is_dir and path in self._boundaries:
            return FOREIGN
        if not inside and (path in self._forced or (is_dir and path in self._passages)):
            return ""
        if level.excluded:
            return BESIDE
        for file, pattern in level.candidates(name):
            if pattern.only_directories and not is_dir:
                continue
            if pattern.whole is not None and not pattern.whole.match(file.within(path)):
                continue
            return "" if pattern.negated else f"{file.origin}: {pattern.line}"
        return self._derived(parent, path, name) if is_dir else ""

    def _derived(self, parent: RelPath, path: bytes, name: bytes) -> str:
        if name in derived.DERIVED_DIRECTORIES:
            return f"{DERIVED} by its name"
        directory = RelPath(path)
        tag = self._tags.get(directory)
        if tag is None:
            tag = derived.tag_inside(self._absolute(directory))
            self._tags[directory] = tag
        if not tag:
            tag = derived.manifest_beside(self._absolute(parent), name)
        return f"{DERIVED} by {tag}" if tag else ""

    def _absolute(self, directory: RelPath) -> bytes:
        return os.path.join(self._root, directory) if directory else self._root

    def _contents(self, directory: RelPath) -> list[tuple[str, bytes]]:
        return [(file.origin, file.data) for file in self._files.get(directory, ())]

    # levels

    def _level(self, directory: RelPath) -> _Level:
        """The rules of a directory; those of the directories above are made first, without recursion."""
        level = self._levels.get(directory)
        if level is not None:
            return level
        missing = [directory]
        while missing[-1]:
            parent, _ = _split(missing[-1])
            if parent in self._levels:
                break
            missing.append(parent)
        for each in reversed(missing):
            level = self._levels[each] = self._enter(each)
        assert level is not None
        return level

    def _enter(self, directory: RelPath) -> _Level:
        if not directory:
            above = _Level(configured=self._configured)
        else:
            parent, name = _split(directory)
            above = self._levels[parent]
            if above.excluded or self._left_out(above, parent, directory, name):
                return self._excluded
        own = self._read(directory, _OWN, directory + b"/" + _OWN if directory else _OWN)
        git = self._read(directory, _GITIGNORE, directory + b"/" + _GITIGNORE if directory else _GITIGNORE)
        if not directory:
            self._outer = self._repository(directory)
            git += self._outer
        elif os.access(os.path.join(self._absolute(directory), derived.GIT), os.F_OK):
            git += self._repository(directory)
        if own or git:
            self._files[directory] = own + git
            return _Level(own=own + above.own, configured=above.configured, git=git + above.git)
        return above

    def _left_out(self, above: _Level, parent: RelPath, directory: RelPath, name: bytes) -> bool:
        # a forced path and the way to it are taken in, and nothing beside or in them
        return bool(self._reason(above, parent, directory, name, True, inside=True))

    def _read(self, directory: RelPath, name: bytes, origin: bytes) -> tuple[PatternFile, ...]:
        path = os.path.join(self._absolute(directory), name)
        if not os.access(path, os.F_OK):
            return ()
        file = PatternFile(self._text(path), directory, os.fsdecode(origin))
        return (file,) if file else ()

    def _text(self, path: bytes, *, follow: bool = False) -> bytes:
        """The whole lines of an ignore file that is there; one that cannot be read says nothing, and is logged once."""
        data = read_regular(path, _SIZE_LIMIT + 1, follow=follow)
        if data is not None and len(data) <= _SIZE_LIMIT:
            return data
        if path not in self._complaints:
            self._complaints.add(path)
            problem = "is no regular file that can be read: it counts for nothing"
            if data is not None:
                problem = f"is too long: what comes after {_SIZE_LIMIT} bytes counts for nothing"
            _log.warning("%s %s", os.fsdecode(path), problem)
        return b"" if data is None else data[: data.rfind(b"\n", 0, _SIZE_LIMIT) + 1]

    # what git reads outside of the tree

    def _repository(self, directory: RelPath) -> tuple[PatternFile, ...]:
        """What applies to a directory in which a work tree begins; to the root also if it begins above."""
        absolute = self._absolute(directory)
        repository = repository_at(absolute)
        if not directory:
            repository = repository or repository_above(absolute)
            self._stamps = self._outside(repository)
        if repository is None:
            return ()
        sources = ignore_files(repository, absolute, self._environ)
        files = [PatternFile(self._source(each), directory, os.fsdecode(each.origin), each.way) for each in sources]
        if _leaves_out_the_root(files, os.path.relpath(absolute, repository.top)):
            return ()  # whoever protects a directory that git ignores wants what is in it
        return tuple(file for file in files if file)

    def _source(self, source: Source) -> bytes:
        return self._text(source.path, follow=source.follow) if os.access(source.path, os.F_OK) else b""

    def _outside(self, repository: Repository | None) -> dict[bytes, tuple[int, ...]]:
        """What stands now at the places outside of the tree that may say what is left out."""
        environ = self._environ
        if repository is None:
            paths = [os.path.join(self._root, derived.GIT)]
        else:
            paths = [source.path for source in ignore_files(repository, self._root, environ)]
            configuration = configuration_files(repository, environ) if environ is not None else [b""]
            paths += configuration
            self._changing = configuration[0]
        return {path: _stamp(path) for path in paths}


def _stamp(path: bytes) -> tuple[int, ...]:
    """(device, inode, size, mtime, ctime) of a file, or nothing."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _said(files: Iterable[PatternFile]) -> list[tuple[bytes, str, bytes]]:
    return [(file.way, file.origin, file.data) for file in files]


def _leaves_out_the_root(files: Sequence[PatternFile], relative: bytes) -> bool:
    """Whether git leaves out a directory of a work tree, or one above it, by the files that lie above it."""
    names = [] if relative == b"." else relative.split(b"/")
    for depth in range(1, len(names) + 1):
        for file in files:
            above = len(names) - file.way.count(b"/")
            if above >= depth:
                continue
            said = file.leaves_out(b"/".join(names[above:depth]))
            if said is not None:
                if said:
                    return True
                break
    return False
