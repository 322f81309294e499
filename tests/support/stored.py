"""What the store says, through the daemon and beside it: checkpoints, their trees, and the rows of the journal."""

from __future__ import annotations

import base64
import sqlite3
from pathlib import Path
from typing import Any

from mulligan.store.catalogue import Catalogue, connect
from mulligan.store.contents import Contents
from support.daemon import DaemonFixture
from support.trees import Snapshot, difference, snapshot

KINDS = {"file": "file", "directory": "dir", "symlink": "link"}


def take(daemon: DaemonFixture, project: Path, text: str = "") -> dict[str, Any]:
    """A checkpoint by hand."""
    made: dict[str, Any] = daemon.call("checkpoint.create", project=project, description=text)["checkpoint"]
    return made


def restore(daemon: DaemonFixture, project: Path, name: str, **options: Any) -> dict[str, Any]:
    """A confirmed restore; gives the whole answer."""
    return daemon.call("checkpoint.restore", project=project, id=name, confirmed=True, **options)


def status(daemon: DaemonFixture, project: Path) -> dict[str, Any]:
    """The project's part of `daemon.status`."""
    projects = daemon.call("daemon.status")["projects"]
    return next(dict(item) for item in projects if item["path"] == str(project))


def raw(item: dict[str, Any], name: str = "path") -> bytes:
    """A path of an answer as bytes."""
    coded = item.get(f"{name}_b64")
    return base64.b64decode(coded) if coded else item[name].encode()


def files_of(daemon: DaemonFixture, project: Path, name: str) -> dict[bytes, dict[str, Any]]:
    """`checkpoint.show`: every entry that the checkpoint knows of, the absent and the unknown too."""
    files = daemon.call("checkpoint.show", project=project, id=name)["files"]
    return {raw(item, "file_path"): item for item in files}


def tree_of(daemon: DaemonFixture, project: Path, name: str) -> Snapshot:
    """The tree of a checkpoint in the form of a snapshot of the disk."""
    tree: Snapshot = {}
    for path, item in files_of(daemon, project, name).items():
        if item["kind"] in KINDS:
            value = bytes.fromhex(item["hash"] or "") or item.get("target", "").encode()
            tree[path] = (KINDS[item["kind"]], item["permissions"] or 0, value)
    return tree


def assert_stored(daemon: DaemonFixture, project: Path, *ignored: bytes) -> dict[str, Any]:
    """After a barrier the store holds exactly what is on disk, but for ignored prefixes; gives the checkpoint.

    Nothing may be running in the tree.
    """
    made = take(daemon, project)
    disk = {path: entry for path, entry in snapshot(project).items() if not path.startswith(ignored or (b"\0",))}
    wrong = difference(disk, tree_of(daemon, project, made["id"]))
    assert not wrong, "\n".join(wrong[:20])
    return made


def reader(daemon: DaemonFixture) -> Catalogue:
    """The catalogue, read beside the daemon; to be closed."""
    return Catalogue(connect(str(daemon.data_dir / "catalogue.db")))


def contents(daemon: DaemonFixture) -> tuple[Contents, Catalogue]:
    """Stored contents and the catalogue, read beside the daemon; both are to be closed."""
    catalogue = reader(daemon)
    return Contents(str(daemon.data_dir / "content_pool"), lambda: catalogue), catalogue


def rows(daemon: DaemonFixture, path: bytes) -> list[tuple[Any, ...]]:
    """(seq, kind, hash, reason, flags, call, grade) of every row of a path, oldest first."""
    directory, _, name = path.rpartition(b"/")
    connection = sqlite3.connect(f"file:{daemon.data_dir}/catalogue.db?mode=ro", uri=True)
    try:
        return connection.execute(
            "select r.seq, r.kind, r.hash, r.reason, r.flags, r.call, r.grade from row r join path p on p.id = r.path"
            " where p.dir = ? and p.name = ? order by r.seq",
            (directory, name),
        ).fetchall()
    finally:
        connection.close()
