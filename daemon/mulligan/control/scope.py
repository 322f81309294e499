"""Paths of a request: from what a person typed to paths of a project, and which of many they cover."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from dataclasses import dataclass

from mulligan.control.objects import show_path
from mulligan.control.services import Call
from mulligan.errors import NotFoundError, UsageError
from mulligan.journal.pathspec import compile_pattern, is_pattern
from mulligan.model import RelPath, covers
from mulligan.project.registry import is_inside
from mulligan.project.worker import ProjectWorker
from mulligan.store.catalogue import join_path
from mulligan.store.questions import paths_below


@dataclass(frozen=True, slots=True)
class Chosen:
    """The paths that a request names: what each word means, and all of them; without words everything."""

    words: dict[bytes, frozenset[bytes]]
    paths: frozenset[bytes]

    def named(self) -> list[bytes]:
        """The words that are no patterns."""
        return [word for word, paths in self.words.items() if paths == {word}]


def chosen_paths(call: Call, worker: ProjectWorker, paths: Sequence[str], paths_b64: Sequence[str] = ()) -> Chosen:
    """Paths of the project from absolute or root-relative ones; "" is the whole tree.

    What is no path that is or was there may be a pattern (see `journal/pathspec.py`), which means every path that the
    journal knows and that matches; for that the project is looked at. Raises UsageError for what is outside, and
    NotFoundError for a pattern that nothing matches.
    """
    words = _relative_paths(worker, paths, paths_b64)
    if any(map(is_pattern, words)):
        call.look(worker)
    found = {word: _matching(worker, word) if is_pattern(word) else frozenset((word,)) for word in words}
    return Chosen(found, frozenset().union(*found.values()))


def _matching(worker: ProjectWorker, word: bytes) -> frozenset[bytes]:
    """The path itself if there is one, else what matches the pattern, without what is below others of it."""
    catalogue, project = worker.store.catalogue(), worker.project_id
    if catalogue.live(project, word) or os.path.lexists(os.path.join(worker.root, word)):
        return frozenset((word,))
    directory, rest = b"", word
    while b"/" in rest:  # where somebody stands is no pattern, whatever is in its name
        name, _, behind = rest.partition(b"/")
        if catalogue.live(project, join_path(directory, name)) is None:
            break
        directory, rest = join_path(directory, name), behind
    matches = compile_pattern(rest, directory).match
    found = {path for path in paths_below(catalogue, project, directory) if matches(path)}
    if not found:
        raise NotFoundError(f"no path in this project matches {show_path(word)}", hint="mulligan show @ lists what is")
    return frozenset(path for path in found if not covers(found, path.rpartition(b"/")[0]))


def _relative_paths(worker: ProjectWorker, paths: Sequence[str], paths_b64: Sequence[str]) -> list[bytes]:
    try:
        raw = [os.fsencode(path) for path in paths] + [base64.b64decode(path, validate=True) for path in paths_b64]
    except (binascii.Error, ValueError) as error:
        raise UsageError(f"a path is not valid: {error}", hint="paths_b64 is base64 of the path's bytes") from error
    return [relative_path(worker.root, path) for path in raw]


def one_path(worker: ProjectWorker, path: str, paths: Sequence[str], paths_b64: Sequence[str]) -> RelPath:
    """The one path of a request, however it was given. Raises UsageError for none, several and the root itself."""
    found = _relative_paths(worker, [*([path] if path else []), *paths], paths_b64)
    if len(found) != 1 or not found[0]:
        raise UsageError("this takes one path in the project", hint="give one PATH")
    return RelPath(found[0])


def relative_path(root: bytes, path: bytes) -> bytes:
    """One path below a root, by its grammar alone: links are not followed. Raises UsageError if it is outside."""
    shown = path.decode("utf-8", "replace")
    if b"\0" in path:
        raise UsageError("a path holds a zero byte", hint="give a path inside the project")
    whole = os.path.normpath(os.path.join(root, path))
    if not is_inside(whole, root):
        # the person's path may go through a link to the root
        parent, name = os.path.split(whole)
        whole = os.path.join(os.path.realpath(parent), name)
    if not is_inside(whole, root):
        raise UsageError(
            f"{shown} is outside of {root.decode('utf-8', 'replace')}", hint="give a path inside the project"
        )
    return whole[len(root) :].lstrip(b"/")
