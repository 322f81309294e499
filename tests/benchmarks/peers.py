"""The programs that are measured: mulligan through its socket, a shadow git repository, restic. One face for all.

A shadow repository is what agents' tools use today: git's directory outside the tree, `add -A` and `write-tree` for a
checkpoint. It does not sync what it writes; mulligan and restic do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from benchmarks.frame import disk_use
from support.daemon import Connection, DaemonFixture


class Peer(ABC):
    """A program that keeps a tree's states."""

    name: str

    @abstractmethod
    def first(self) -> None:
        """The first snapshot of a tree never seen."""

    @abstractmethod
    def checkpoint(self) -> str:
        """The tree as it is now; its name."""

    @abstractmethod
    def restore_all(self, state: str) -> None:
        """The whole tree, into the emptied directory."""

    def restore_in_place(self, state: str) -> None:
        """The whole tree, over one that hardly differs."""
        self.restore_all(state)

    @abstractmethod
    def restore_one(self, state: str, path: Path) -> None:
        """One file, in its place."""

    @abstractmethod
    def store(self) -> Path:
        """Where it keeps what it keeps."""

    def rescan(self) -> None:
        """Look at every file; a checkpoint does that for programs that do not watch."""
        self.checkpoint()

    def store_size(self) -> tuple[int, int]:
        """Bytes written and allocated."""
        return disk_use(self.store())


class Mulligan(Peer):
    """The daemon, over one connection, from the request's first byte to the reply's last."""

    name = "mulligan"

    def __init__(self, daemon: DaemonFixture, root: Path) -> None:
        self.daemon, self.root = daemon, root
        self.connection: Connection = daemon.connect(3600)

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.connection.call(method, project=str(self.root), **params)

    def first(self) -> None:
        self._call("project.add")

    def checkpoint(self) -> str:
        return str(self._call("checkpoint.create", description="measured")["checkpoint"]["id"])

    def restore_all(self, state: str) -> None:
        self._call("checkpoint.restore", id=state, confirmed=True)

    def restore_one(self, state: str, path: Path) -> None:
        self._call("checkpoint.restore", id=state, confirmed=True, paths=[str(path.relative_to(self.root))])

    def rescan(self) -> None:
        self._call("project.pause")
        self._call("project.resume")
        self._call("watch.sync")

    def notice(self) -> None:
        """Capture what happened, as it does before it is asked for anything."""
        self.connection.call("watch.sync")

    def index(self) -> None:
        """Wait until the search index has taken in what was captured."""
        while self._call("file.search", text="zzzz no such text")["index"]["pending"]:
            time.sleep(2)

    def store(self) -> Path:
        return self.daemon.data_dir

    def close(self) -> None:
        """End the connection; the daemon is its maker's."""
        self.connection.close()


class _Commands(Peer):
    """A program that is run anew each time, with an environment of its own."""

    def __init__(self, root: Path, place: Path) -> None:
        self.root, self.place = root, place
        place.mkdir(parents=True)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(place), "LC_ALL": "C"}

    def store(self) -> Path:
        return self.place

    def _run(self, *words: str, data: str | None = None) -> str:
        done = subprocess.run(
            words, cwd=self.root, env=self.environment, input=data, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stderr}")
        return done.stdout.strip()


class ShadowGit(_Commands):
    """Git with its directory outside the tree."""

    name = "git"

    def __init__(self, root: Path, place: Path) -> None:
        super().__init__(root, place)
        self.environment |= {"GIT_DIR": str(place / "git"), "GIT_WORK_TREE": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
        self._run("git", "init", "-q")

    def first(self) -> None:
        self.checkpoint()

    def checkpoint(self) -> str:
        self._run("git", "add", "-A")
        return self._run("git", "write-tree")

    def restore_all(self, state: str) -> None:
        self._run("git", "read-tree", state)
        self._run("git", "checkout-index", "-a", "-f")

    def restore_in_place(self, state: str) -> None:
        # Unlike read-tree, this keeps what the index knows of unchanged files, and writes the others alone.
        self._run("git", "checkout", "-q", state, "--", ".")

    def restore_one(self, state: str, path: Path) -> None:
        self._run("git", "checkout", "-q", state, "--", str(path.relative_to(self.root)))


class Restic(_Commands):
    """Restic with a local repository; ignored directories are left out, as the others do."""

    name = "restic"

    def __init__(self, root: Path, place: Path) -> None:
        super().__init__(root, place)
        self.environment |= {
            "RESTIC_REPOSITORY": str(place / "repository"),
            "RESTIC_PASSWORD": "measured",
            "RESTIC_CACHE_DIR": str(place / "cache"),
        }
        self._run("restic", "init", "-q")

    def first(self) -> None:
        self.checkpoint()

    def checkpoint(self) -> str:
        said = self._run("restic", "backup", "--exclude", "node_modules", str(self.root))
        return said.rpartition("snapshot ")[2].split()[0]

    def restore_all(self, state: str) -> None:
        self._run("restic", "restore", "-q", state, "--target", "/")

    def restore_one(self, state: str, path: Path) -> None:
        self._run("restic", "restore", "-q", state, "--target", "/", "--include", str(path))

    def store(self) -> Path:
        return self.place / "repository"


def missing_peers() -> list[str]:
    """Programs that are not here, each with the way to get it."""
    return [f"{name}: not installed (package `{name}`)" for name in ("git", "restic") if shutil.which(name) is None]
