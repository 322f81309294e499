"""Files that are captured while somebody writes them: a version that mixes two is flagged, and the flag goes away."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from support.daemon import DaemonFixture
from support.stored import contents, files_of, raw, restore, rows, take
from support.trees import put


def _sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


# W7: while it is being written

GENERATIONS = """
import os, sys, time
path, steps, pause, close = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "close"
fd = os.open(path, os.O_RDWR)
print("ready", flush=True)
size = os.fstat(fd).st_size
step = size // steps
generation = 1
while os.path.exists(path + ".go"):
    generation = generation % 250 + 1
    for number in range(steps):
        os.pwrite(fd, bytes([generation]) * step, number * step)
        time.sleep(pause)
    if close:
        os.close(fd)
        fd = os.open(path, os.O_RDWR)
os.close(fd)
"""


@pytest.mark.parametrize(
    ("size", "steps", "pause", "close"), [(8 << 20, 64, 0.0005, "close"), (64 << 10, 4, 0.02, "close")]
)
def test_W7_a_version_that_mixes_generations_is_flagged(
    daemon: DaemonFixture, project: Path, size: int, steps: int, pause: float, close: str
) -> None:
    put(project, b"big", b"\1" * size)
    daemon.add(project)
    put(daemon.directory, b"go", b"")
    go = project / "big.go"
    put(project, b".gitignore", b"big.go\n")
    go.touch()
    writer = subprocess.Popen(
        [sys.executable, "-c", GENERATIONS, str(project / "big"), str(steps), str(pause), close],
        stdout=subprocess.PIPE,
    )
    assert writer.stdout is not None
    try:
        assert writer.stdout.readline()
        made = [take(daemon, project) for _ in range(25)]
    finally:
        go.unlink()
        writer.wait(20)
        writer.stdout.close()
    assert any(not item["complete"] for item in made) or size < 1 << 20
    last = daemon.until(lambda: (item := take(daemon, project))["complete"] and item, 20, "the flag does not clear")
    big = files_of(daemon, project, last["id"])[b"big"]
    assert bytes.fromhex(big["hash"]) == _sha((project / "big").read_bytes())
    daemon.until(lambda: rows(daemon, b"big")[-1][4] & 3 == 0, 5, "the last version is never proven")
    store, catalogue = contents(daemon)
    try:
        mixed = 0
        for item in made:
            found = files_of(daemon, project, item["id"])[b"big"]
            if len(set(store.read(bytes.fromhex(found["hash"])))) > 1:
                mixed += 1
                told = [raw(path) for path in item["incomplete_paths"]]
                assert b"big" in told or found.get("torn") or found.get("unproven"), found
    finally:
        store.close()
        catalogue.close()
    assert mixed, "nothing was caught half way: the test shows nothing"


SQLITE = """
import sqlite3, sys, time, os
path = sys.argv[1]
db = sqlite3.connect(path, isolation_level=None)
db.execute("pragma journal_mode = wal")
db.execute("pragma wal_autocheckpoint = 8")
db.execute("create table if not exists t (n integer primary key, half int, pad text)")
print("ready", flush=True)
n = 0
while os.path.exists(sys.argv[2]):
    n += 1
    db.execute("begin")
    for half in (0, 1):
        db.execute("insert into t (half, pad) values (?, ?)", (half, "x" * 500))
    db.execute("commit")
    time.sleep(0.001)
db.close()
"""


def test_W7_an_sqlite_database_in_wal_mode_is_whole_or_flagged(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"readme", b"a database\n")
    daemon.add(project)
    go = daemon.directory / "go"
    go.touch()
    writer = subprocess.Popen([sys.executable, "-c", SQLITE, str(project / "app.db"), str(go)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    try:
        assert writer.stdout.readline()
        made = [take(daemon, project) for _ in range(20)]
    finally:
        go.unlink()
        writer.wait(20)
        writer.stdout.close()
    last = daemon.until(lambda: (item := take(daemon, project))["complete"] and item, 20, "the flag does not clear")
    whole = 0
    for item in [*made, last]:
        restore(daemon, project, item["id"])
        if item["complete"]:
            whole += 1
            assert _rows_of_halves(project / "app.db") is not None, item["ordinal"]
    assert whole >= 1
    assert not any(path.endswith(b"-shm") for path in files_of(daemon, project, last["id"]))


def _rows_of_halves(path: Path) -> int | None:
    """How many rows the database holds, None if it is not in one piece."""
    code = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]);"
        "print(*db.execute('pragma integrity_check').fetchone(),"
        "*db.execute('select count(*), sum(half) from t').fetchone())"
    )
    said = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    if said.returncode or not said.stdout.startswith("ok "):
        return None
    count, half = (int(word) for word in said.stdout.split()[1:])
    return count if count == 2 * half else None
