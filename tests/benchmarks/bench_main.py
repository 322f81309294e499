"""Measure mulligan, a shadow git repository and restic side by side, on one tree, in one run.

    cd tests && ../.venv/bin/python -m benchmarks.bench_main --files 1000 --files 10000
    ... --files 100000 --idle 300 --base /some/ext4     what the goals are stated for

The base is best a file system with a journal on which nothing else goes on (see `frame.set_aside`).

The programs take turns on the same changes; a change is made immediately before each turn of mulligan, so its time
holds the capture, too. Figures are medians; ratios say how many times mulligan's value goes into the other's.
Nothing is judged here. The same as a test, with 1,000 files: ``pytest -m bench``.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.frame import SourceTree, Table, make_source_tree, middle, percentile, set_aside, settle_disk, timed
from benchmarks.peers import Mulligan, Peer, Restic, ShadowGit, missing_peers
from support.daemon import Connection, DaemonFixture

Say = Callable[[str], None]


def run(files: int, options: argparse.Namespace, say: Say) -> Table:
    """All measurements on one size of tree."""
    missing = {line.partition(":")[0] for line in missing_peers()}
    daemon = DaemonFixture(config="max_project_files: 1000000\n", base=options.base)
    try:
        say(f"making a tree of {files:,} files")
        tree = make_source_tree(daemon.projects / "tree", files, ignored=max(12, files // 3))
        daemon.start()
        ours = Mulligan(daemon, tree.root)
        places = daemon.directory / "peers"
        peers: list[Peer] = [ours]
        if "git" not in missing:
            peers.append(ShadowGit(tree.root, places / "git"))
        if "restic" not in missing and not options.no_restic:
            peers.append(Restic(tree.root, places / "restic"))
        table = Table(f"{files:,} files, {tree.size / 1e6:,.1f} MB", [peer.name for peer in peers])
        measure_first(table, peers, say)
        measure_checkpoints(table, peers, tree, options.rounds, say)
        measure_growth(table, peers, tree, options.edits, say)
        measure_restores(table, peers, tree, options.restores, say)
        measure_capture(table, daemon, tree, options.saves, say)
        measure_beside_baseline(table, ours, daemon, tree, files, say)
        measure_idle(table, daemon, options.idle, say)
        ours.close()
        return table
    finally:
        daemon.close()


def measure_first(table: Table, peers: list[Peer], say: Say) -> None:
    """Each program sees the tree for the first time; the page cache is warm for all, and the disk has nothing to do."""
    say("first snapshots")
    for peer in peers:
        settle_disk()
        table.add("first snapshot", peer.name, timed(peer.first))
        apparent, allocated = peer.store_size()
        table.add("store after the first", peer.name, apparent, "kB")
        table.add("... allocated on disk", peer.name, allocated, "kB")
    for peer in peers:
        if isinstance(peer, Mulligan):
            say("the search index, which is built in the background")
            table.add("search index", peer.name, timed(peer.index))
            before = table.rows["... allocated on disk"][peer.name][-1]
            table.add("... allocated for the index", peer.name, peer.store_size()[1] - before, "kB")


def measure_checkpoints(table: Table, peers: list[Peer], tree: SourceTree, rounds: int, say: Say) -> None:
    """Checkpoints after no, one and a hundred changes, and a look at every file."""
    rng = random.Random(2)
    say("checkpoints")
    for changes in (0, 1, min(100, len(tree.files))):
        for _ in range(rounds):
            tree.edit(changes, rng)
            for peer in peers:
                table.add(f"checkpoint, {changes} changed", peer.name, timed(peer.checkpoint))
    say("rescans")
    for _ in range(max(3, rounds // 5)):
        for peer in peers:
            table.add("rescan", peer.name, timed(peer.rescan))


def measure_growth(table: Table, peers: list[Peer], tree: SourceTree, edits: int, say: Say) -> None:
    """What a checkpoint of one small edit adds to the store, on average over many."""
    rng = random.Random(3)
    say("growth")
    edited = SourceTree(tree.root, rng.sample(tree.files, min(20, len(tree.files))))
    settle_index(peers)
    before = {peer.name: peer.store_size() for peer in peers}
    for turn in range(edits):
        edited.edit(1, rng)
        for peer in peers:
            if not isinstance(peer, Restic) or turn < 10:
                peer.checkpoint()
    settle_index(peers)
    for peer in peers:
        made = min(edits, 10) if isinstance(peer, Restic) else edits
        after = peer.store_size()
        table.add("growth per small edit", peer.name, (after[0] - before[peer.name][0]) / made, "kB")
        table.add("... allocated for an edit", peer.name, (after[1] - before[peer.name][1]) / made, "kB")


def settle_index(peers: list[Peer]) -> None:
    """What the search index takes belongs to the edits that it is about, and to no others."""
    for peer in peers:
        if isinstance(peer, Mulligan):
            peer.index()


def measure_restores(table: Table, peers: list[Peer], tree: SourceTree, rounds: int, say: Say) -> None:
    """Everything into an empty directory, one changed file in a full one, and one file named.

    That the directory was emptied a program that watches has captured before it is asked: that has a row of its own.
    """
    rng = random.Random(4)
    say("restores")
    aside = tree.root.parent / "aside"
    states = {peer.name: peer.checkpoint() for peer in peers}
    for turn in range(rounds):
        for peer in peers:
            set_aside(tree.root, aside / f"{turn}{peer.name}")
            if isinstance(peer, Mulligan):
                table.add("noticing that all is gone", peer.name, timed(peer.notice))
            settle_disk()
            table.add("restore all", peer.name, timed(partial(peer.restore_all, states[peer.name])))
            missing = [path for path in tree.files if not path.exists()]
            if missing:
                raise RuntimeError(f"{peer.name} left out {len(missing)} files, the first is {missing[0]}")
    for peer in peers:
        if isinstance(peer, Mulligan):
            table.add("noticing that all is back", peer.name, timed(peer.notice))
    for _ in range(max(3, rounds)):
        for peer in peers:
            if not isinstance(peer, Restic):
                tree.edit(1, rng)
                work = timed(partial(peer.restore_in_place, states[peer.name]))
                table.add("restore all, one file differs", peer.name, work)
            (path,) = tree.edit(1, rng)
            work = timed(partial(peer.restore_one, states[peer.name], path))
            table.add("restore one file", peer.name, work)


def measure_capture(table: Table, daemon: DaemonFixture, tree: SourceTree, saves: int, say: Say) -> None:
    """From the close of a written file until the daemon says that it is captured."""
    rng = random.Random(5)
    say("capture latency")
    daemon.call("watch.sync")
    seconds = []
    for _ in range(saves):
        time.sleep(0.03)
        # A save is captured once or twice (truncated, closed): a new subscription knows nothing of the last one.
        daemon.call("watch.sync")
        with daemon.connect(10) as events:
            events.call("events.subscribe", topics=["capture"])
            tree.edit(1, rng)
            seconds.append(timed(partial(_capture_event, events, tree.root)))
    table.add("capture latency p50", "mulligan", middle(seconds))
    table.add("capture latency p99", "mulligan", percentile(seconds, 99))


def _capture_event(events: Connection, root: Path) -> None:
    while True:
        message = events.read()
        params = message.get("params") or {}
        if message.get("method") == "event" and str(root) in str(params):
            return


def measure_beside_baseline(
    table: Table, ours: Mulligan, daemon: DaemonFixture, tree: SourceTree, files: int, say: Say
) -> None:
    """Checkpoints of one change while the daemon takes the baseline of another project."""
    rng = random.Random(6)
    say("checkpoints beside another baseline")
    other = make_source_tree(daemon.projects / "other", files, ignored=12, seed=7)
    adding = threading.Thread(target=_add, args=(daemon, other.root))
    adding.start()
    while adding.is_alive():
        tree.edit(1, rng)
        value = timed(ours.checkpoint)
        if adding.is_alive():
            table.add("checkpoint beside another baseline", "mulligan", value)
        time.sleep(0.02)
    adding.join()
    daemon.call("project.remove", project=other.root)


def _add(daemon: DaemonFixture, root: Path) -> None:
    with daemon.connect(3600) as connection:
        connection.call("project.add", project=str(root))


def measure_idle(table: Table, daemon: DaemonFixture, seconds: float, say: Say) -> None:
    """Memory and processor of the daemon when nothing happens, scaled to an hour."""
    say(f"idle for {seconds:.0f} s")
    time.sleep(2)
    before = _cpu_seconds(daemon.pid)
    time.sleep(seconds)
    used = _cpu_seconds(daemon.pid) - before
    table.add("idle CPU, s per hour", "mulligan", used * 3600 / seconds, "s")
    table.add("idle memory", "mulligan", _resident_bytes(daemon.pid), "kB")


def _cpu_seconds(pid: int) -> float:
    """Time on a processor of all threads, from the scheduler, in nanoseconds' steps."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench_main", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, action="append", help="size of a tree; again for another one (1000)")
    parser.add_argument("--rounds", type=int, default=15, help="checkpoints of each kind (15)")
    parser.add_argument("--edits", type=int, default=50, help="small edits for the growth (50)")
    parser.add_argument("--restores", type=int, default=3, help="restores of everything (3)")
    parser.add_argument("--saves", type=int, default=200, help="saves for the capture latency (200)")
    parser.add_argument("--idle", type=float, default=20, help="seconds of idleness (20; 300 for the goals)")
    parser.add_argument("--base", default=tempfile.gettempdir(), help="directory for trees and stores; keep it short")
    parser.add_argument("--no-restic", action="store_true", help="leave restic out: it is slow on large trees")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure each size and print its table."""
    options = parse(arguments)

    def say(text: str) -> None:
        print(f"  {text} …", file=sys.stderr, flush=True)

    for line in missing_peers():
        print(line)
    for files in options.files or [1000]:
        for line in run(files, options, say).lines():
            print(line, flush=True)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
