"""The facts that batches consist of: every change of the store's knowledge is one of these.

A fact is stored as a msgpack array whose first element is its tag. Fields are only ever added at the end, with a
default; tags are never reused. `FORMAT.md` describes them for whoever reads a store without this code.
"""

from __future__ import annotations

import msgspec

from mulligan.model import Checkpoint, Row, Stat


class Fact(msgspec.Struct, frozen=True, array_like=True):
    """One thing that became known."""


class ContentFact(Fact, frozen=True, array_like=True, tag="content", gc=False):
    """A content is stored at a place. Ids rise; a delta's base has a smaller one, so chains cannot loop."""

    id: int
    hash: bytes
    size: int
    encoding: int
    segment: int
    offset: int
    stored: int
    base: int = 0
    depth: int = 0


class ProjectFact(Fact, frozen=True, array_like=True, tag="project"):
    """A project is watched, paused or removed; `dev` and `ino` are its root's, a new generation is another root."""

    id: int
    path: bytes
    state: str
    dev: int
    ino: int
    generation: int
    added: int
    baseline_end: int = 0
    reason: str = ""


class RowsFact(Fact, frozen=True, array_like=True, tag="rows"):
    """Rows of one project, numbered from `first_seq` on; `stats` are the lstat results they were read with."""

    project: int
    rows: list[Row]
    stats: list[Stat]
    first_seq: int = 0


class StatsFact(Fact, frozen=True, array_like=True, tag="stats"):
    """The same entries, seen again with another stat: what saves the next scan from reading them."""

    project: int
    stats: list[tuple[bytes, Stat]]


class CheckpointFact(Fact, frozen=True, array_like=True, tag="checkpoint"):
    """A checkpoint was taken."""

    checkpoint: Checkpoint


class MarkFact(Fact, frozen=True, array_like=True, tag="mark"):
    """A checkpoint was described, pinned, unpinned or given another parent; None leaves the value as it is."""

    checkpoint: str
    description: str | None = None
    pinned: bool | None = None
    parent: str | None = None


class DeleteFact(Fact, frozen=True, array_like=True, tag="delete"):
    """Checkpoints left the timeline of a project; what made them makes them no more."""

    project: int
    checkpoints: list[str]


class CurrentFact(Fact, frozen=True, array_like=True, tag="current"):
    """The current checkpoint of a project (session "") or of a session in it."""

    project: int
    session: str
    checkpoint: str


class SessionFact(Fact, frozen=True, array_like=True, tag="session"):
    """A session was seen: its project, its transcript, and the machine's state up to here."""

    id: str
    project: int
    transcript: bytes
    first: int
    last: int
    state: bytes = b""
    ended: int = 0


class PromptFact(Fact, frozen=True, array_like=True, tag="prompt"):
    """The nth prompt of a session (from 1): where it stands in journal time and what it said."""

    session: str
    ordinal: int
    key: str
    moment: int
    text: str
    kind: str
    project: int = 0


class CallFact(Fact, frozen=True, array_like=True, tag="call"):
    """A tool call's window; `end` is 0 while it is open, `paths` are absolute, `owns` is the tool's class.

    `barrier`: rows up to this one were there before it ran, as its hook found; 0 if none told. `unguarded`: its hook
    could not wait until everything before it was captured.
    """

    id: str
    session: str
    project: int
    name: str
    owns: str
    start: int
    end: int = 0
    is_error: bool = False
    paths: list[bytes] = []
    prompt: int = 0
    agent: bool = False
    background: bool = False
    background_end: int = 0
    command: str = ""
    barrier: int = 0
    unguarded: bool = False


class UsageFact(Fact, frozen=True, array_like=True, tag="usage"):
    """Tokens of one API message; a later fact of the same message replaces the earlier one."""

    message: str
    session: str
    model: str
    input: int
    output: int
    cache_creation: int
    cache_read: int
    key: str = ""


class KeysFact(Fact, frozen=True, array_like=True, tag="keys"):
    """Transcript keys (uuids, message and tool ids) that were seen: nothing is taken twice."""

    session: str
    keys: list[str]


class AttributionFact(Fact, frozen=True, array_like=True, tag="attribution"):
    """Rows (seq, call, grade) that belong to calls; a later fact for the same row replaces the earlier one."""

    project: int
    rows: list[tuple[int, str, str]]


class OffsetFact(Fact, frozen=True, array_like=True, tag="offset"):
    """How far a transcript file was read; in the same batch as what the reading led to."""

    file: bytes
    state: bytes


class GapFact(Fact, frozen=True, array_like=True, tag="gap"):
    """A time in which changes of a project were not watched (journal time)."""

    project: int
    start: int
    end: int
    reason: str


class OperationFact(Fact, frozen=True, array_like=True, tag="operation"):
    """A step (begin, staged, done, failed) of a restore, revert, rescue, undo, redo; `payload`: the plan or outcome."""

    id: str
    project: int
    kind: str
    phase: str
    time: int
    target: str = ""
    before: str = ""
    payload: bytes = b""
    undoes: str = ""


class ThinFact(Fact, frozen=True, array_like=True, tag="thin"):
    """Rows leave the journal: no position that is kept selects them. Heads of paths never do.

    `changed` are (seq, call, grade, flags) of rows that now stand for those before them as well, `lost` are (call, seq
    of a row of the path) of what calls did and nobody can tell apart any more. `before`: prompts' positions before this
    moment were not kept; 0 if they were.
    """

    project: int
    rows: list[int]
    changed: list[tuple[int, str, str, int]] = []
    lost: list[tuple[str, int]] = []
    before: int = 0


class DropFact(Fact, frozen=True, array_like=True, tag="drop"):
    """Contents (id, segment, offset) are in the store no longer, unless they lie elsewhere now: nothing names them."""

    contents: list[tuple[int, int, int]]


class Moved(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a content lies now, as in `ContentFact`; it holds if it lay at (`was_segment`, `was_offset`) until then."""

    id: int
    was_segment: int
    was_offset: int
    encoding: int
    segment: int
    offset: int
    stored: int
    base: int = 0
    depth: int = 0


class PlaceFact(Fact, frozen=True, array_like=True, tag="place"):
    """Contents were copied to another segment."""

    moved: list[Moved]


class ForgetFact(Fact, frozen=True, array_like=True, tag="forget"):
    """Operations that cannot be undone any more are forgotten, with their plans and outcomes."""

    operations: list[str]


class PurgeFact(Fact, frozen=True, array_like=True, tag="purge"):
    """Contents are erased on request: rows that name one of these hashes are unknown, and none is ever stored again."""

    hashes: list[bytes]


class EraseFact(Fact, frozen=True, array_like=True, tag="erase"):
    """All that is known of a project is erased but for its place and its state."""

    project: int


class ClockFact(Fact, frozen=True, array_like=True, tag="clock"):
    """How far journal time is ahead of the wall clock, and the last time given."""

    correction: int
    latest: int


AnyFact = (
    ContentFact
    | ProjectFact
    | RowsFact
    | StatsFact
    | CheckpointFact
    | MarkFact
    | DeleteFact
    | CurrentFact
    | SessionFact
    | PromptFact
    | CallFact
    | UsageFact
    | KeysFact
    | AttributionFact
    | OffsetFact
    | GapFact
    | OperationFact
    | ThinFact
    | DropFact
    | PlaceFact
    | ForgetFact
    | PurgeFact
    | EraseFact
    | ClockFact
)


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """What one commit says: numbered without gaps; `start` is the offset at which its group of records begins."""

    number: int
    start: int
    time: int
    facts: list[AnyFact]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Batch)


def encode_batch(batch: Batch) -> bytes:
    """The bytes of a batch record's payload, before compression."""
    return _encoder.encode(batch)


def decode_batch(data: bytes) -> Batch:
    """The batch in a payload. Raises msgspec.DecodeError."""
    return _decoder.decode(data)
