"""Paths of a request: from what a person typed to paths of a project, and which of many they cover."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence

from mulligan.errors import UsageError
from mulligan.model import RelPath
from mulligan.project.registry import is_inside
from mulligan.project.worker import ProjectWorker


def relative_paths(worker: ProjectWorker, paths: Sequence[str], paths_b64: Sequence[str] = ()) -> list[bytes]:
    """Paths of the project from absolute or root-relative ones; "" is the whole tree. Raises UsageError for others."""
    try:
        raw = [os.fsencode(path) for path in paths] + [base64.b64decode(path, validate=True) for path in paths_b64]
    except (binascii.Error, ValueError) as error:
        raise UsageError(f"a path is not valid: {error}", hint="paths_b64 is base64 of the path's bytes") from error
    return [relative_path(worker.root, path) for path in raw]


def one_path(worker: ProjectWorker, path: str, paths: Sequence[str], paths_b64: Sequence[str]) -> RelPath:
    """The one path of a request, however it was given. Raises UsageError for none, several and the root itself."""
    found = relative_paths(worker, [*([path] if path else []), *paths], paths_b64)
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
