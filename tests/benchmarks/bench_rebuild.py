"""Measure snapshots of the catalogue, and making it anew, on a store with one large project.

    cd tests && ../.venv/bin/python -m benchmarks.bench_rebuild --files 1000 --files 100000

A catalogue is made anew three times: while the daemon answers (and a checkpoint is taken again and again beside it), at
a start from the snapshot, and at a start from the first batch. Nothing is judged here.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from pathlib import Path

from benchmarks.frame import make_source_tree, percentile, timed
from mulligan.store.snapshot import snapshot_path, snapshots
from mulligan.store.store import Store
from support.daemon import Connection, DaemonFixture
from support.storing import forget_catalogue


def run(files: int, base: str) -> None:
    """All measurements on one size of tree."""
    daemon = DaemonFixture(config="max_project_files: 1000000\n", base=base)
    try:
        tree = make_source_tree(daemon.projects / "tree", files, ignored=0)
        daemon.start()
        daemon.add(tree.root)
        rng = random.Random(1)
        for _ in range(100):
            tree.edit(5, rng)
            daemon.call("checkpoint.create", project=tree.root)
        daemon.stop()
        size = os.path.getsize(daemon.data_dir / "catalogue.db")
        print(f"{files:,} files, {tree.size / 1e6:,.0f} MB, catalogue {size / 1e6:,.1f} MB")
        _snapshot(daemon)
        daemon.start()
        daemon.until(lambda: daemon._watching(tree.root), 120)
        _beside_checkpoints(daemon, tree.root)
        daemon.stop()
        _starts(daemon.data_dir)
    finally:
        daemon.close()


def _snapshot(daemon: DaemonFixture) -> None:
    store = Store(str(daemon.data_dir))
    try:
        seconds = timed(store.snapshot)
        size = os.path.getsize(snapshot_path(store.pool, store.log.batch))
    finally:
        store.close()
    print(f"  snapshot              {seconds:6.2f} s, {size / 1e6:.1f} MB")


def _beside_checkpoints(daemon: DaemonFixture, root: Path) -> None:
    took: list[float] = []
    stop = threading.Event()

    def take() -> None:
        with Connection(str(daemon.socket)) as connection:
            while not stop.is_set():
                took.append(timed(lambda: connection.call("checkpoint.create", project=str(root))))
                time.sleep(0.02)

    thread = threading.Thread(target=take)
    thread.start()
    try:
        time.sleep(1)
        alone = list(took)
        took.clear()
        seconds = timed(lambda: daemon.call("store.rebuild"))
    finally:
        stop.set()
        thread.join()
    print(f"  rebuild while it runs {seconds:6.2f} s", end="")
    print(f"; checkpoints beside it p50 {_ms(took, 50)}, p99 {_ms(took, 99)}, max {_ms(took, 100)}", end="")
    print(f" (alone p50 {_ms(alone, 50)}, max {_ms(alone, 100)})")


def _ms(values: list[float], per_cent: float) -> str:
    return f"{percentile(values, per_cent) * 1000:.0f} ms"


def _starts(directory: Path) -> None:
    for words in ("snapshot", "first batch"):
        if words == "first batch":
            pool = str(directory / "content_pool")
            for batch in snapshots(pool):
                os.unlink(snapshot_path(pool, batch))
        forget_catalogue(directory)
        print(f"  a start from the {words:12}{timed(lambda: Store(str(directory)).close()):6.2f} s")


def main(words: list[str]) -> int:
    """Measure each size that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, action="append")
    parser.add_argument("--base", default="/tmp", help="where everything lies")
    options = parser.parse_args(words)
    for files in options.files or [1000]:
        run(files, options.base)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
