"""Measure questions about the past beside git on the same history: history, blame, cat, diff, search.

    cd tests && ../.venv/bin/python -m benchmarks.bench_questions --files 1000 --checkpoints 100
    ... --files 100000 --checkpoints 1000 --base /some/ext4     what the goals are stated for

Every figure is a whole process, from its start to its end, as a person waits for it; the ratio of mulligan's to that of
`python -c "import argparse, json, socket"` stands behind it. Git gets the same trees, commit for checkpoint, in one
pack. Nothing is judged here.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.frame import SourceTree, Table, make_source_tree, middle, timed
from benchmarks.peers import Mulligan
from support.daemon import DaemonFixture

RARE = "quetzalcoatlite"
#: Files that the edits go to, so that a file has many versions.
_HOT = 100
_BARE = "import argparse, json, socket"
Say = Callable[[str], None]


class GitCopy:
    """A repository with the same history, made by one fast-import."""

    def __init__(self, root: Path, place: Path) -> None:
        self.root = root
        place.mkdir(parents=True)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(place), "GIT_DIR": str(place / "git")}
        self.environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_PAGER": "cat"}
        self.run("init", "-q")
        self._import = subprocess.Popen(
            ["git", "fast-import", "--quiet"], env=self.environment, stdin=subprocess.PIPE, cwd=place
        )
        self.commits = 0

    def commit(self, paths: Sequence[Path]) -> None:
        """One commit with the files as they are now."""
        stream = self._import.stdin
        assert stream is not None
        stream.write(b"commit refs/heads/main\ncommitter A <a@b.c> %d +0000\ndata 1\nx\n" % (10**9 + self.commits))
        for path in paths:
            data = path.read_bytes()
            name = os.fsencode(path.relative_to(self.root))
            stream.write(b"M 644 inline %b\ndata %d\n%b\n" % (name, len(data), data))
        self.commits += 1

    def finish(self) -> None:
        """Everything is in the repository."""
        assert self._import.stdin is not None
        self._import.stdin.close()
        if self._import.wait():
            raise RuntimeError("git fast-import failed")
        self.run("symbolic-ref", "HEAD", "refs/heads/main")

    def run(self, *words: str) -> bytes:
        """One command; its output."""
        return subprocess.run(["git", *words], env=self.environment, capture_output=True, check=True).stdout


def run(files: int, options: argparse.Namespace, say: Say) -> Table:
    """All measurements on one history."""
    daemon = DaemonFixture(config="max_project_files: 1000000\nbudget_bytes: 20 GiB\n", base=options.base)
    try:
        say(f"making a tree of {files:,} files")
        tree = make_source_tree(daemon.projects / "tree", files, ignored=0)
        daemon.start()
        daemon.call("project.add", project=tree.root)
        git = GitCopy(tree.root, daemon.directory / "git-copy")
        git.commit(tree.files)
        say(f"making {options.checkpoints:,} checkpoints")
        asked = make_history(daemon, git, tree, options.checkpoints)
        git.finish()
        table = Table(f"{files:,} files, {options.checkpoints:,} checkpoints", ["mulligan", "git"])
        say("building the search index")
        table.add("search index", "mulligan", timed(Mulligan(daemon, tree.root).index))
        size = (daemon.data_dir / "search.db").stat().st_size
        table.add("... bytes, to the text's", "mulligan", size / max(1, tree.size), "x")
        measure(table, daemon, git, tree.root, asked, options.rounds, say)
        return table
    finally:
        daemon.close()


def make_history(daemon: DaemonFixture, git: GitCopy, tree: SourceTree, count: int) -> str:
    """Checkpoints of one changed file each; the path that was changed most. A rare word comes and goes."""
    rng = random.Random(8)
    hot = SourceTree(tree.root, rng.sample(tree.files, min(_HOT, len(tree.files))))
    edited: dict[Path, int] = {}
    with daemon.connect(3600) as connection:
        for number in range(count):
            (path,) = hot.edit(1, rng)
            if number == count // 2:
                rare = path
                path.write_text(path.read_text(errors="replace") + f"\n{RARE} = 1\n")
            elif number == count * 3 // 4:
                rare.write_text(rare.read_text(errors="replace").replace(RARE, "common"))
                git.commit([path])
                path = rare
            edited[path] = edited.get(path, 0) + 1
            connection.call("checkpoint.create", project=str(tree.root), description=f"number {number}")
            git.commit([path])
    return str(max(edited, key=lambda path: edited[path]).relative_to(tree.root))


def measure(table: Table, daemon: DaemonFixture, git: GitCopy, root: Path, path: str, rounds: int, say: Say) -> None:
    """Each question to both, in turns."""
    last = daemon.call("checkpoint.list", project=root, limit=1)["checkpoints"][0]["ordinal"]
    far = max(2, last // 10)
    questions: dict[str, tuple[list[str], list[str]]] = {
        "history": (["history", path], ["log", "--follow", "--format=%h %ad", "--", path]),
        "cat": (["cat", f"{far}:{path}"], ["show", f"HEAD~{last - far}:{path}"]),
        "blame": (["blame", path], ["blame", "HEAD", "--", path]),
        "diff of neighbours": (["diff", str(last - 1), str(last)], ["diff", "HEAD~1", "HEAD"]),
        "diff of distant ones": (["diff", "2", str(last)], ["diff", f"HEAD~{last - 2}", "HEAD"]),
        "search of a rare word": (["search", RARE], ["log", "-S", RARE, "--oneline"]),
        "list": (["list", "--limit", "50"], ["log", "-50", "--format=%h %ad"]),
        "timeline": (["timeline"], ["log", "--graph", "--format=%h %ad"]),
        "timeline --json": (["timeline", "--json"], ["log", "--graph", "--format=%H %P %an %ad %s"]),
        "usage": (["usage"], ["count-objects", "-v"]),
    }
    bare: list[float] = []
    for name, (ours, theirs) in questions.items():
        say(name)
        for _ in range(rounds):
            bare.append(timed(_bare_python))
            table.add(name, "mulligan", timed(partial(_client, daemon, root, ours)))
            table.add(name, "git", timed(partial(git.run, *theirs)))
    for value in bare:
        table.add("a bare Python", "mulligan", value)
    for name in questions:
        table.add(f"{name}, to a bare Python", "mulligan", middle(table.rows[name]["mulligan"]) / middle(bare), "x")


def _bare_python() -> None:
    subprocess.run([sys.executable, "-c", _BARE], check=True)


def _client(daemon: DaemonFixture, root: Path, words: list[str]) -> None:
    command = str(Path(sys.executable).with_name("mulligan"))
    done = subprocess.run([command, *words], env=daemon.env, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout:
        raise RuntimeError(f"{words}: {done.returncode} {done.stderr}")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench_questions", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=300, help="size of the tree (300)")
    parser.add_argument("--checkpoints", type=int, default=30, help="length of the history (30)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each question is asked (5)")
    parser.add_argument("--base", default=tempfile.gettempdir(), help="directory for trees and stores; keep it short")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = parse(arguments)

    def say(text: str) -> None:
        print(f"  {text} …", file=sys.stderr, flush=True)

    lines: Iterator[str] = run(options.files, options, say).lines()
    for line in lines:
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
