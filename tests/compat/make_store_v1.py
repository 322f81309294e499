"""Makes the store of format version 1 that is checked in beside this file: `python tests/compat/make_store_v1.py DIR`.

It is kept for the record: the store that is checked in is never made again, since it must load for ever. A later format
version gets a script and a store of its own.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

from mulligan.model import ABSENT, Checkpoint, Entry, Flag, Git, Kind, Metadata, Row, Stat, Tool
from mulligan.store import records
from mulligan.store.encoding import Encoded, block_list, encode
from mulligan.store.placed import Placed
from mulligan.store.segments import RecordKind, SegmentKind, SegmentWriter, pack_record
from mulligan.store.state import StateDatabase
from mulligan.store.store import Store

POEM = b"".join(b"line %d: the quick brown fox jumps over the lazy dog\n" % number for number in range(40))
EDITED = POEM.replace(b"line 7:", b"line seven:")
BLOCKS = [b"block one\n" * 3, b"block two\n" * 3]
IN_POOL = b"stored by a child\n"
RAW = bytes(range(64))


def _file(data: bytes, mode: int = 0o644) -> Entry:
    return Entry(Kind.FILE, mode, len(data), hashlib.sha256(data).digest())


def _rows(project: int, *rows: Row) -> records.RowsFact:
    return records.RowsFact(project, list(rows), [Stat(1, 2, 3, 4, 5, 6, row.at) for row in rows])


def _child_segment(pool: str) -> Placed:
    encoded = encode(IN_POOL)
    writer = SegmentWriter.create_next(pool, SegmentKind.POOL)
    offset = writer.offset
    writer.append(pack_record(RecordKind.CONTENT, encoded.encoding, encoded.payload, encoded.size, encoded.hash))
    writer.sync()
    writer.close()
    return Placed(encoded.hash, encoded.size, encoded.encoding, writer.number, offset, len(encoded.payload))


def _contents() -> tuple[list[Encoded], Entry]:
    blocks = [encode(block) for block in BLOCKS]
    whole = b"".join(BLOCKS)
    digest = hashlib.sha256(whole).digest()
    return [*blocks, block_list(digest, len(whole), [block.hash for block in blocks])], _file(whole)


def fill(store: Store) -> None:
    """Every kind of fact, every encoding, both kinds of segments."""
    append = store.log.append
    append([records.ProjectFact(1, b"/home/me/\xffproject", "watching", 11, 12, 1, 100)])
    append([_rows(1, Row(b"poem.txt", _file(POEM), 110, 110, Flag.FROM_UNKNOWN))], [encode(POEM)])
    append([_rows(1, Row(b"src", Entry(Kind.DIR, 0o750), 110, 110, Flag.FROM_UNKNOWN))])
    base = Checkpoint(
        id="baseline1111", ordinal=1, project=1, timestamp=120, created=120, seq=2, trigger="baseline",
        placement="baseline", description="as it was found", metadata=Metadata(file_changes=1, added=1),
    )  # fmt: skip
    append([records.CheckpointFact(base), records.CurrentFact(1, "", base.id)])
    delta = encode(EDITED, base=store.contents.base(_file(POEM).hash))
    append([_rows(1, Row(b"poem.txt", _file(EDITED, 0o600), 200, 205, call="toolu_1", grade="named"))], [delta])
    many, large = _contents()
    append(
        [_rows(1, Row(b"src/large", large, 210, 211), Row(b"link", Entry(Kind.LINK, target=b"\xff"), 212, 212))], many
    )
    append([_rows(1, Row(b"src/child", _file(IN_POOL), 213, 213))], [_child_segment(store.pool)])
    append([_rows(1, Row(b"raw", _file(RAW), 214, 214), Row(b"gone", _file(RAW), 215, 215))], [encode(RAW)])
    append([_rows(1, Row(b"gone", ABSENT, 220, 221), Row(b"pipe", Entry(Kind.SPECIAL, reason="fifo"), 222, 222))])
    append([_rows(1, Row(b".env", Entry(Kind.UNKNOWN, reason="unreadable: permission denied"), 223, 223))])
    made = Checkpoint(
        id="checkpoint22", ordinal=2, project=1, session="s-1", parent="baseline1111", timestamp=206, created=230,
        seq=8, moment=206, description="caf\u00e9", trigger="tool_use", placement="timestamp", strategy="smart",
        incomplete=[(b"torn", "torn: it was being written")], special=[b"pipe"], tree="ab" * 32, message_uuid="u-1",
        message_index=3, tool=Tool("Edit", "toolu_1"), git=Git("c0ffee", "main"),
        metadata=Metadata(total_tokens=10, model_used="model", user_prompt="do it", modified=1, file_changes=1),
        event_key="tool:toolu_1",
    )  # fmt: skip
    append([records.CheckpointFact(made), records.CurrentFact(1, "s-1", made.id)])
    append([records.MarkFact("checkpoint22", description="renamed", pinned=True, parent="baseline1111")])
    append([
        records.SessionFact("s-1", 1, b"/t/s-1.jsonl", 150, 240, b"\x80"),
        records.PromptFact("s-1", 1, "prompt:u-0", 190, "do it", "typed", 1),
        records.CallFact("toolu_1", "s-1", 1, "Edit", "path", 200, 206, False, [b"/home/me/\xffproject/poem.txt"], 1),
        records.UsageFact("msg_1", "s-1", "model", 1, 2, 3, 4, "usage:msg_1"),
        records.KeysFact("s-1", ["u-0", "u-1"]),
        records.AttributionFact(1, [(3, "toolu_1", "named"), (4, "toolu_1", "one of 2")]),
        records.OffsetFact(b"/t/s-1.jsonl", b"\x80"),
        records.GapFact(1, 140, 145, "away"),
        records.StatsFact(1, [(b"poem.txt", Stat(1, 2, 3, 4, 5, 6, 7))]),
    ])  # fmt: skip
    store.log._left = True  # the rest stands in another segment
    append([records.OperationFact("op0000000000000001", 1, "restore", "begin", 250, "baseline1111", "", b"\x80")])
    append([records.OperationFact("op0000000000000001", 1, "restore", "done", 250, payload=b"\x80")])
    append([records.ClockFact(0, 260)])


def main(target: str) -> None:
    """Make the store; the catalogue and the reserve can be made again and are left out."""
    directory = Path(target)
    store = Store(target)
    try:
        fill(store)
    finally:
        store.close()
    state = StateDatabase(str(directory / "state.db"))
    state.set("global", "", "strategy", "smart")
    state.set("project", "/home/me", "turn_end", value=False)
    state.close()
    for name in ("catalogue.db", "lock", "content_pool/reserve"):
        (directory / name).unlink()
    shutil.rmtree(directory / "staging")


if __name__ == "__main__":
    main(sys.argv[1])
