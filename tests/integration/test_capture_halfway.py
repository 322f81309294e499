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
import os, random, sqlite3, sys, time
path, go, mode, accounts, pages, pause = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
db = sqlite3.connect(path, isolation_level=None)
db.execute("pragma synchronous = off")
db.execute(f"pragma journal_mode = {mode}")
db.execute(f"pragma wal_autocheckpoint = {pages}")
db.execute("begin")
db.execute("create table account (n integer primary key, amount int, pad text)")
db.executemany("insert into account values (?, 100, ?)", [(n, "x" * 3000) for n in range(accounts)])
db.execute("create table transfers (count int)")
db.execute("insert into transfers values (0)")
db.execute("commit")
print("ready", flush=True)
while os.path.exists(go):
    giver, taker = random.sample(range(accounts), 2)
    db.execute("begin")
    db.execute("update account set amount = amount - 1 where n = ?", (giver,))
    db.execute("update account set amount = amount + 1 where n = ?", (taker,))
    db.execute("update transfers set count = count + 1")
    db.execute("commit")
    time.sleep(pause)
db.close()
"""


@pytest.mark.parametrize(
    ("mode", "accounts", "pages", "pause"),
    [("wal", 400, 8, 0.0005), ("wal", 20, 1000, 0.01), ("delete", 20, 0, 0.005), ("truncate", 20, 0, 0.005)],
)
def test_W7_an_sqlite_database_that_is_written_is_whole_or_flagged(
    daemon: DaemonFixture, project: Path, mode: str, accounts: int, pages: int, pause: float
) -> None:
    put(project, b"readme", b"a database\n")
    daemon.add(project)
    go = daemon.directory / "go"
    go.touch()
    words = [str(project / "app.db"), str(go), mode, str(accounts), str(pages), str(pause)]
    writer = subprocess.Popen([sys.executable, "-c", SQLITE, *words], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    try:
        assert writer.stdout.readline()
        made = [take(daemon, project) for _ in range(30)]
    finally:
        go.unlink()
        writer.wait(20)
        writer.stdout.close()
    last = daemon.until(lambda: (item := take(daemon, project))["complete"] and item, 20, "the flag does not clear")
    counts = []
    for item in [*made, last]:
        restore(daemon, project, item["id"])
        if item["complete"]:
            counts.append(_transfers(project / "app.db", accounts))
        else:
            assert b"app.db" in {raw(path) for path in item["incomplete_paths"]}
    print(f"whole: {len(counts)} of {len(made) + 1}")
    assert counts == sorted(counts) and counts[-1] > 0
    assert not any(path.endswith(b"-shm") for path in files_of(daemon, project, last["id"]))


TRANSFERS = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(*db.execute("pragma integrity_check").fetchone(), *db.execute("select sum(amount) from account").fetchone())
print(*db.execute("select count from transfers").fetchone())
"""


def _transfers(path: Path, accounts: int) -> int:
    """How many transfers the database has seen; it must be in one piece, and none of them half done."""
    said = subprocess.run([sys.executable, "-c", TRANSFERS, str(path)], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    state, count = said.stdout.splitlines()
    assert state == f"ok {100 * accounts}"
    return int(count)
