"""Adopting projects: a directory in which an agent works is protected without being asked for, if it may be."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from mulligan.config import Config
from mulligan.errors import MulliganError
from mulligan.paths import nearest
from mulligan.project.registry import Registry
from mulligan.project.worker import ProjectWorker

log = logging.getLogger(__name__)
_VCS = (".git", ".hg", ".svn", ".jj")
_MISSING = "the directory does not exist"


def too_big(root: str, max_files: int, max_bytes: int) -> str:
    """Why a directory without version control is too big to be adopted; "" if it is not. Counts no further."""
    files = size = 0
    stack = [root]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        files += 1
                        size += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
        if files > max_files:
            return f"it has no version control and more than {max_files} files"
        if size > max_bytes:
            return f"it has no version control and more than {max_bytes} bytes"
    return ""


class Adoption:
    """Decides about directories, each once, and says once why one is not adopted."""

    def __init__(self, registry: Registry, config: Callable[[], Config]) -> None:
        self._registry, self._config = registry, config
        self._refused: dict[str, str] = {}

    def adopt(self, cwd: str) -> tuple[ProjectWorker | None, str]:
        """(the worker of the project around a directory, "") or (None, why there is none)."""
        reason = self._refused.get(cwd)
        if reason is None or (reason == _MISSING and os.path.isdir(cwd)):
            worker, found = self._try(cwd)
            if worker is not None:
                self._refused.pop(cwd, None)
                return worker, ""
            if found != reason:
                log.info("%s is not protected: %s", cwd, found)
            reason = self._refused[cwd] = found
        return None, reason

    def reason(self, cwd: str) -> str:
        """Why a directory was not adopted; "" if nobody asked."""
        return self._refused.get(cwd, "" if os.path.isdir(cwd) else _MISSING)

    def forget(self) -> None:
        """Judge everything again: the configuration or the projects have changed."""
        self._refused.clear()

    def _try(self, cwd: str) -> tuple[ProjectWorker | None, str]:
        config = self._config()
        if not os.path.isdir(cwd):
            return None, _MISSING
        real = os.path.realpath(cwd)
        root = nearest(real, _VCS)
        if root != real and self._registry.refuse(os.fsencode(root)):
            root = real  # a home directory under version control holds projects that are not
        raw = os.fsencode(root)
        if not config.auto_add:
            return None, "auto_add is off"
        if self._registry.excluded(raw):
            return None, "it is excluded"
        if reason := self._registry.refuse(raw):
            return None, reason
        has_vcs = any(os.path.exists(os.path.join(root, name)) for name in _VCS)
        if not has_vcs and (reason := too_big(root, config.max_project_files, config.max_project_bytes)):
            return None, reason
        try:
            return self._registry.add(root), ""
        except MulliganError as error:
            return None, error.message
