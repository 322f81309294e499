"""What opcode's timelines say, and the trees that its checkpoints meant. Pure.

opcode (https://github.com/winfunc/opcode) keeps a tree of checkpoints for each session. Its first checkpoint names
every file, later ones mostly those that changed since; so a checkpoint's tree is its parent's with its own files laid
over it. What cannot be known is unknown with a reason, never guessed and never absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mulligan.model import Entry, Flag, Kind, Metadata

#: A checkpoint that holds at least so much of its parent's tree unchanged (and two files) named every file there was.
_WHOLE = 0.5
EMPTY = "opcode stored it empty: it was no UTF-8 text"
GHOST = "opcode's cleanup removed the checkpoint before it"
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}\Z")


def is_id(text: object) -> bool:
    """Whether something is fit to be the id of a checkpoint or a session of opcode's."""
    return isinstance(text, str) and _ID.match(text) is not None


@dataclass(frozen=True, slots=True)
class Ref:
    """A file as a checkpoint refers to it; `path` is as opcode wrote it."""

    path: str
    hash: str = ""
    deleted: bool = False
    mode: int = 0o644
    size: int = 0


@dataclass(slots=True)
class Node:
    """A checkpoint. A ghost is in the timeline alone: opcode removed what it held.

    `expected` is how many refs it had, `hashes` what they named, as the timeline has it; `faults` are of its tree,
    `notes` of all else.
    """

    id: str
    parent: str = ""
    timestamp: int = 0
    description: str = ""
    message_index: int = 0
    refs: list[Ref] = field(default_factory=list)
    expected: int = 0
    ghost: bool = False
    metadata: Metadata = field(default_factory=Metadata)
    hashes: frozenset[str] = frozenset()
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Held:
    """What opcode holds of a file: an entry of ours, flags of its row, what was repaired, and the ref that finds it."""

    entry: Entry
    flags: int = 0
    repaired: str = ""
    ref: Ref | None = None


@dataclass(slots=True)
class Rebuilt:
    """A checkpoint with its whole tree.

    `parent` is the nearest one that is still there. `incomplete` says what no path of the tree can say; `notes` are
    repairs and what lies outside of the project.
    """

    node: Node
    parent: str
    tree: dict[bytes, Held]
    incomplete: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def rebuild(nodes: dict[str, Node], root: str, held: Callable[[Ref], Held | None]) -> list[Rebuilt]:
    """The checkpoints that are there with their trees, parents before children, else in the order of their times.

    `held` gives what there is of a file, and None for one that is not to be brought back.
    """
    made: dict[str, Rebuilt] = {}
    for node in sorted(nodes.values(), key=lambda node: (len(_ancestors(nodes, node.id)), node.timestamp, node.id)):
        if not node.ghost:
            made[node.id] = _rebuilt(nodes, node, root, held, made)
    return _in_time(made)


def _in_time(made: dict[str, Rebuilt]) -> list[Rebuilt]:
    """By time, but no child before its parent: clocks are set back."""
    ordered: dict[str, Rebuilt] = {}
    for one in sorted(made.values(), key=lambda one: (one.node.timestamp, one.node.id)):
        line = [one]
        while line[-1].parent and line[-1].parent not in ordered:
            line.append(made[line[-1].parent])
        ordered |= {each.node.id: each for each in reversed(line)}
    return list(ordered.values())


def _ancestors(nodes: dict[str, Node], name: str) -> list[str]:
    """The ids above a checkpoint, the nearest first; a parent that nobody knows ends it, and so does a circle."""
    found: list[str] = []
    node = nodes.get(name)
    while node is not None and node.parent in nodes and node.parent not in found and node.parent != name:
        found.append(node.parent)
        node = nodes[node.parent]
    return found


def _rebuilt(
    nodes: dict[str, Node], node: Node, root: str, held: Callable[[Ref], Held | None], made: dict[str, Rebuilt]
) -> Rebuilt:
    above = _ancestors(nodes, node.id)
    parent = next((name for name in above if name in made), "")
    ghosts = [nodes[name] for name in (above[: above.index(parent)] if parent else above)]
    one = Rebuilt(node, parent, {}, list(node.faults), list(node.notes))
    own = dict(_own(one, root, held))
    carried = dict(made[parent].tree) if parent else {}
    if (missing := node.expected - len(node.refs)) > 0:
        one.incomplete.append(
            f"{missing} of its files are lost: opcode wrote those over each other whose names differ by / and _ alone"
        )
        own |= _overwritten(own, carried)
    unknown = list(made[parent].incomplete) if parent else []
    if not parent and node.parent and (ghosts or node.parent not in nodes):
        unknown.append(f"{GHOST}, so files that did not change since then are not known")
    if _is_whole(own, carried, ghosts, [nodes[name] for name in above] if unknown else []):
        if gone := carried.keys() - own.keys():
            one.notes.append(f"{len(gone)} deleted files that opcode did not record: this checkpoint named every other")
        carried = {}
    else:
        one.incomplete += unknown
        if ghosts:  # what may have changed in between is not what it was before
            carried = {path: Held(Entry(Kind.UNKNOWN, reason=GHOST)) for path in carried}
        elif same := len(carried.keys() - own.keys()):
            one.notes.append(f"{same} unchanged files are its parent's")
    _lay_over(carried, own)
    one.tree = {path: what for path, what in carried.items() if what.entry.kind != Kind.ABSENT}
    return one


def _own(one: Rebuilt, root: str, held: Callable[[Ref], Held | None]) -> Iterator[tuple[bytes, Held]]:
    """The files that a checkpoint names itself, by their paths in the project."""
    for ref in one.node.refs:
        path = relative(ref.path, root)
        what = Held(Entry(Kind.ABSENT)) if ref.deleted else held(ref)
        if path is None or what is None:
            one.notes.append(f"{ref.path}: not a path of the project's own, left out")
            continue
        if what.repaired:
            one.notes.append(f"{ref.path}: {what.repaired}")
        yield path, what


def _overwritten(own: dict[bytes, Held], carried: dict[bytes, Held]) -> dict[bytes, Held]:
    """Known paths whose reference may be one of those that another one was written over."""
    names = {_file_name(path) for path in own}
    reason = "opcode wrote another file's reference over its own"
    return {
        path: Held(Entry(Kind.UNKNOWN, reason=reason))
        for path in carried
        if path not in own and _file_name(path) in names
    }


def _file_name(path: bytes) -> bytes:
    """The name of a path's reference, as opcode makes it."""
    return path.replace(b"/", b"_").replace(b"\\", b"_")


def relative(path: str, root: str) -> bytes | None:
    """A path below the project, as ours are; None for what is outside of it."""
    inside = path.removeprefix(root.rstrip("/") + "/") if root else path
    try:
        coded = inside.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    names = coded.split(b"/")
    bad = {b"", b".", b".."} & set(names) or b"\0" in coded
    return None if bad or max(map(len, names)) > 255 else coded


def _is_whole(own: dict[bytes, Held], carried: dict[bytes, Held], ghosts: list[Node], above: list[Node]) -> bool:
    """Whether a checkpoint names every file that there was: only then does it name files that did not change.

    `above` are the checkpoints by which the size of a tree is reckoned that is not known as a whole.
    """
    before = frozenset[str]().union(*(ghost.hashes for ghost in ghosts))
    same = sum(
        (path in carried and carried[path].entry == what.entry) or what.entry.hash.hex() in before
        for path, what in own.items()
        if what.entry.kind == Kind.FILE
    )
    return same >= max(2, _WHOLE * max([len(carried), *(node.expected for node in above)]))


def _lay_over(tree: dict[bytes, Held], own: dict[bytes, Held]) -> None:
    """A path that is a file now holds no others, and one that holds others is no file any more."""
    there = {path for path, what in own.items() if what.entry.kind != Kind.ABSENT}
    directories = {above for path in there for above in directories_of(path)}
    for path in [path for path in tree if path in directories or there & set(directories_of(path))]:
        del tree[path]
    tree |= own


def directories_of(path: bytes) -> list[bytes]:
    """The directories above a path."""
    names = path.split(b"/")[:-1]
    return [b"/".join(names[:depth]) for depth in range(1, len(names) + 1)]


def judged(ref: Ref, data: bytes | None, digest: bytes, why: str) -> Held:
    """What a ref's stored bytes are worth: `digest` is theirs; without bytes `why` says the reason."""
    if data is None:
        return Held(Entry(Kind.UNKNOWN, reason=why))
    if not data and ref.size:
        return Held(Entry(Kind.UNKNOWN, reason=EMPTY))
    entry = Entry(Kind.FILE, ref.mode & 0o7777, len(data), digest)
    if digest.hex() == ref.hash:
        # the size was asked for after the bytes were read
        return Held(entry, 0 if len(data) == ref.size else int(Flag.TORN), ref=ref)
    if len(data) == ref.size:
        return Held(entry, repaired="its hash was wrong, its size is right: stored under its own hash", ref=ref)
    return Held(Entry(Kind.UNKNOWN, reason="what is stored for it is another version"))
