"""What every measurement needs: trees to measure on, a stopwatch, sizes on disk, and a table.

A tree is made of text that is on this machine anyway (Python's own library), with the sizes that source files have:
log-normal, 4 KB in the middle. Beside it stands a `node_modules` that is ignored, as in life.
"""

from __future__ import annotations

import math
import os
import random
import statistics
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_NAMES = ("api", "core", "lib", "model", "parse", "src", "test", "view")
_SUFFIXES = ("c", "go", "json", "md", "py", "rs", "ts")
_LARGEST = 512 * 1024
_CORPUS = 24 << 20


def corpus() -> bytes:
    """Real text, always the same on one machine."""
    parts, size = [], 0
    for directory, below, names in os.walk(sysconfig.get_paths()["stdlib"]):
        below.sort()
        for name in sorted(names):
            if name.endswith((".py", ".txt", ".h")):
                data = Path(directory, name).read_bytes()
                parts.append(data)
                size += len(data)
        if size > _CORPUS:
            break
    return b"".join(parts)


@dataclass
class SourceTree:
    """A tree on disk and the files in it that may be edited."""

    root: Path
    files: list[Path] = field(default_factory=list)
    size: int = 0

    def edit(self, count: int, rng: random.Random) -> list[Path]:
        """Change a line in each of `count` files, in place, as an editor or an agent does."""
        chosen = rng.sample(self.files, count)
        for path in chosen:
            lines = path.read_bytes().split(b"\n")
            lines[rng.randrange(len(lines))] = b"edited %d" % rng.getrandbits(60)
            path.write_bytes(b"\n".join(lines))
        return chosen


def make_source_tree(root: Path, files: int, ignored: int, seed: int = 1) -> SourceTree:
    """`files` text files, about ten to a directory, and `ignored` ones below `node_modules`."""
    rng = random.Random(seed)
    text = corpus()
    tree = SourceTree(root)
    directories = [root]
    root.mkdir(parents=True)
    for number in range(max(1, files // 10)):
        above = rng.choice(directories)
        if len(above.relative_to(root).parts) >= 6:
            above = root
        directories.append(above / f"{rng.choice(_NAMES)}{number}")
        directories[-1].mkdir()
    for number in range(files):
        path = rng.choice(directories) / f"f{number}.{rng.choice(_SUFFIXES)}"
        tree.size += _fill(path, text, rng, number, 4096)
        tree.files.append(path)
    for number in range(ignored):
        path = root / "node_modules" / f"package{number // 12}" / "dist" / f"m{number % 12}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        _fill(path, text, rng, number, 2048)
    (root / ".gitignore").write_text("node_modules/\n")
    return tree


def _fill(path: Path, text: bytes, rng: random.Random, number: int, middle: int) -> int:
    size = min(int(rng.lognormvariate(math.log(middle), 1.2)), _LARGEST)
    start = text.find(b"\n", rng.randrange(len(text) - _LARGEST - 1)) + 1
    data = b"file %d %d\n" % (number, rng.getrandbits(64)) + text[start : start + size]
    path.write_bytes(data)
    return len(data)


def timed(work: Callable[[], object]) -> float:
    """Seconds of the wall clock."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def disk_use(directory: Path) -> tuple[int, int]:
    """Bytes written and bytes allocated below a directory, hard links once."""
    apparent = allocated = 0
    seen: set[tuple[int, int]] = set()
    for path in _all_below(directory):
        state = path.lstat()
        if (state.st_dev, state.st_ino) not in seen:
            seen.add((state.st_dev, state.st_ino))
            apparent += state.st_size
            allocated += state.st_blocks * 512
    return apparent, allocated


def _all_below(directory: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(directory):
        for name in names:
            yield Path(parent, name)


def set_aside(root: Path, aside: Path) -> None:
    """Empty the tree by moving its entries away.

    After a mass deletion an ext4 *without a journal* makes new files slowly for five minutes, since it passes over each
    inode that was just deleted (50,000 files: 43 s instead of 0.5 s); with a journal it does not.
    """
    aside.mkdir(parents=True)
    for entry in list(root.iterdir()):
        entry.rename(aside / entry.name)


def settle_disk() -> None:
    """Have everything written: what one program left unwritten is not for the next one to wait for."""
    os.sync()


def middle(values: list[float]) -> float:
    """The median; NaN of nothing."""
    return statistics.median(values) if values else math.nan


def percentile(values: list[float], per_cent: float) -> float:
    """The value that `per_cent` of the values do not exceed; NaN of nothing."""
    if not values:
        return math.nan
    return sorted(values)[min(len(values) - 1, math.ceil(len(values) * per_cent / 100) - 1)]


@dataclass
class Table:
    """Rows of one size of tree: what was measured, and each program's values."""

    title: str
    programs: list[str]
    rows: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)

    def add(self, row: str, program: str, value: float, unit: str = "ms") -> None:
        """One more value of a row; "ms" rows are given in seconds, "kB" rows in bytes."""
        self.units[row] = unit
        self.rows.setdefault(row, {}).setdefault(program, []).append(value)

    def lines(self) -> Iterator[str]:
        """The table as text: medians side by side, and how many times the others' the first one's value goes into."""
        first, *others = self.programs
        head = f"{self.title:38}" + "".join(f"{name:>14}" for name in self.programs)
        yield head + "".join(f"{'vs ' + name:>12}" for name in others)
        for row, values in self.rows.items():
            medians = {name: middle(values.get(name, [])) for name in self.programs}
            cells = "".join(f"{self._shown(medians[name], self.units[row]):>14}" for name in self.programs)
            ratios = "".join(f"{_ratio(medians[name], medians[first]):>12}" for name in others)
            count = len(values.get(first, []))
            yield f"{row:38}{cells}{ratios}   n={count}"

    @staticmethod
    def _shown(value: float, unit: str) -> str:
        if math.isnan(value):
            return "-"
        scaled = value * 1000 if unit == "ms" else value / 1000 if unit == "kB" else value
        return f"{scaled:,.2f} {unit}" if scaled < 100 else f"{scaled:,.0f} {unit}"


def _ratio(theirs: float, ours: float) -> str:
    return "-" if math.isnan(theirs) or math.isnan(ours) or ours == 0 else f"{theirs / ours:,.1f}x"
