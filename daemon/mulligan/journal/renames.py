"""Which deleted file lives on under another name: by its hash first, then by the text that is shared. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import msgspec

from mulligan.journal.lines import split_lines
from mulligan.model import Entry, Kind, RelPath

#: At most this many deleted × added pairs are compared by their text; beyond it only equal contents are renames.
PAIR_LIMIT = 40_000
#: Larger files are renames only if their contents are equal.
SIZE_LIMIT = 1 << 20
#: Bytes read in one search.
READ_LIMIT = 64 << 20
LEAST_SIMILARITY = 50
_CHUNK = 256

Side = tuple[RelPath, Entry]


class Rename(msgspec.Struct, frozen=True):
    """`old` became `new`; `similarity` in per cent, rounded down, 100 only if the contents are equal."""

    old: RelPath
    new: RelPath
    similarity: int


def find_renames(deleted: Sequence[Side], added: Sequence[Side], read: Callable[[bytes], bytes]) -> list[Rename]:
    """Pairs of a deleted and an added file, each path in one pair at most. Empty files say nothing and are left out."""
    sources = [(path, entry) for path, entry in deleted if entry.kind is Kind.FILE and entry.size]
    targets = [(path, entry) for path, entry in added if entry.kind is Kind.FILE and entry.size]
    found = _equal(sources, targets)
    gone = {rename.old for rename in found}
    come = {rename.new for rename in found}
    sources = [side for side in sources if side[0] not in gone and side[1].size <= SIZE_LIMIT]
    targets = [side for side in targets if side[0] not in come and side[1].size <= SIZE_LIMIT]
    if sources and targets and len(sources) * len(targets) <= PAIR_LIMIT:
        found += _similar(sources, targets, read)
    return found


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _equal(sources: list[Side], targets: list[Side]) -> list[Rename]:
    """Equal contents: the same base name first, then in the order of paths."""
    by_hash: defaultdict[bytes, list[RelPath]] = defaultdict(list)
    for path, entry in sorted(sources, reverse=True):
        by_hash[entry.hash].append(path)
    found = []
    rest = []
    for path, entry in sorted(targets):
        candidates = by_hash.get(entry.hash, [])
        twin = next((old for old in reversed(candidates) if _name(old) == _name(path)), None)
        if twin is not None:
            candidates.remove(twin)
            found.append(Rename(twin, path, 100))
        elif candidates:
            rest.append((path, entry))
    for path, entry in rest:
        if candidates := by_hash[entry.hash]:
            found.append(Rename(candidates.pop(), path, 100))
    return found


def _similar(sources: list[Side], targets: list[Side], read: Callable[[bytes], bytes]) -> list[Rename]:
    chunks: dict[bytes, Counter[bytes]] = {}
    budget = READ_LIMIT

    def chunks_of(entry: Entry) -> Counter[bytes] | None:
        nonlocal budget
        if entry.hash not in chunks:
            if entry.size > budget:
                return None
            budget -= entry.size
            chunks[entry.hash] = _chunks(read(entry.hash))
        return chunks[entry.hash]

    scored = []
    for old_path, old in sources:
        for new_path, new in targets:
            small, large = sorted((old.size, new.size))
            if small * 100 < large * LEAST_SIMILARITY:
                continue
            a, b = chunks_of(old), chunks_of(new)
            if a is None or b is None:
                continue
            score = min(99, _shared(a, b) * 100 // large)
            if score >= LEAST_SIMILARITY:
                scored.append((-score, _name(old_path) != _name(new_path), new_path, old_path))
    found: list[Rename] = []
    used: set[tuple[str, RelPath]] = set()
    for negative, _, new_path, old_path in sorted(scored):
        if ("old", old_path) not in used and ("new", new_path) not in used:
            used |= {("old", old_path), ("new", new_path)}
            found.append(Rename(old_path, new_path, -negative))
    return found


def _chunks(data: bytes) -> Counter[bytes]:
    """The text as a bag of lines; a line without end, as of minified or binary files, in pieces."""
    bag: Counter[bytes] = Counter()
    for line in split_lines(data):
        if len(line) <= _CHUNK:
            bag[line] += 1
        else:
            bag.update(line[at : at + _CHUNK] for at in range(0, len(line), _CHUNK))
    return bag


def _shared(a: Counter[bytes], b: Counter[bytes]) -> int:
    """Bytes that stand in both bags."""
    if len(a) > len(b):
        a, b = b, a
    return sum(len(chunk) * min(count, b[chunk]) for chunk, count in a.items() if chunk in b)
