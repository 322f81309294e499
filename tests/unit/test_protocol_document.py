"""PROTOCOL.md and FORMAT.md say what the code does: every method, parameter, fact, field and number of the format.

The reader below knows a store from FORMAT.md alone, so that the page is enough to write one.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import zstandard

from mulligan.clock import FOREVER
from mulligan.control import handlers
from mulligan.control.framing import LINE_LIMIT
from mulligan.control.methods import METHODS
from mulligan.control.subscription import SubscribeParams
from mulligan.model import Checkpoint, Cut, Entry, Flag, Git, Kind, Metadata, RelPath, Row, Stat, Tool
from mulligan.store import records
from mulligan.store.encoding import Encoding, block_list, encode
from mulligan.store.records import ProjectFact, RowsFact
from mulligan.store.segments import RecordKind, SegmentKind
from mulligan.store.store import Store

SOURCE = Path(handlers.__file__).resolve().parents[2]
PROTOCOL = (SOURCE / "control/PROTOCOL.md").read_text(encoding="utf-8")
FORMAT = (SOURCE / "store/FORMAT.md").read_text(encoding="utf-8")


def sections(text: str, level: str = "###") -> dict[str, str]:
    """Heading (without its backticks) → the text below it, up to the next heading."""
    parts = re.split(r"^(#{2,4}) (.+)$", text, flags=re.MULTILINE)
    return {parts[n + 1].strip("`"): parts[n + 2] for n in range(1, len(parts), 3) if parts[n] == level}


def first_cells(section: str, column: int) -> list[str]:
    """The code spans in one column of the section's tables, in their order."""
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [found[1] for row in rows if (found := re.fullmatch(r"\s*`([^`]+)`\s*", row[column]))]


# PROTOCOL.md


def described_methods() -> dict[str, str]:
    return {name: text for name, text in sections(PROTOCOL).items() if "." in name or name == "hello"}


def test_every_method_is_described_and_no_other() -> None:
    assert set(described_methods()) == {*METHODS, "events.subscribe"}


STRUCTS = {**{name: method.params for name, method in METHODS.items()}, "events.subscribe": SubscribeParams}


@pytest.mark.parametrize("name", sorted(STRUCTS))
def test_the_parameters_are_those_of_the_method(name: str) -> None:
    described = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| (yes|no) \|", described_methods()[name], re.MULTILINE))
    fields = msgspec.structs.fields(STRUCTS[name])
    assert described == {field.encode_name: "yes" if field.required else "no" for field in fields}


def test_the_examples_are_messages() -> None:
    examples = re.findall(r"^```json\n(.*?)^```", PROTOCOL, re.MULTILINE | re.DOTALL)
    lines = [line for example in examples for line in example.splitlines() if line]
    assert len(lines) > 20
    for line in lines:
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        if method := message.get("method"):
            assert method in STRUCTS or method in {"progress", "event", "lost"}


def test_the_topics_are_those_that_are_published() -> None:
    published = set()
    for path in SOURCE.rglob("*.py"):
        published |= set(re.findall(r"\.publish\(\s*\"(\w+)\"", path.read_text(encoding="utf-8")))
    published |= {"undo", "redo"}  # published by the name of the operation
    assert set(first_cells(sections(PROTOCOL)["events.subscribe"].partition("Topics")[2], 0)) == published


def test_the_limit_is_the_limit() -> None:
    assert f"{LINE_LIMIT:,}" in PROTOCOL


# FORMAT.md

FACTS = {str(fact.__struct_config__.tag): fact for fact in get_args(records.AnyFact)}
PARTS = {kind.__name__: kind for kind in (Row, Entry, Stat, Checkpoint, Metadata, Tool, Git, records.Moved)}


def test_every_fact_is_described_and_no_other() -> None:
    assert set(sections(FORMAT)) == {*FACTS, *PARTS}


@pytest.mark.parametrize("name", sorted({*FACTS, *PARTS}))
def test_the_fields_are_in_the_order_of_the_struct(name: str) -> None:
    struct_type: Any = {**FACTS, **PARTS}[name]
    assert tuple(first_cells(sections(FORMAT)[name], 1)) == struct_type.__struct_fields__


@pytest.mark.parametrize("kind", [*RecordKind, *Encoding])
def test_record_kinds_and_encodings_have_their_numbers(kind: RecordKind | Encoding) -> None:
    assert f"| {kind.value} | `{kind.name}` |" in FORMAT


@pytest.mark.parametrize("kind", list(SegmentKind))
def test_segment_kinds_have_their_numbers(kind: SegmentKind) -> None:
    assert f"{kind.value} `{kind.name}`" in FORMAT


# A reader of its own: nothing of mulligan below this line.


class Reader:
    """Reads a store by FORMAT.md."""

    def __init__(self, store: Path) -> None:
        self.pool = store / "content_pool"
        self.places: dict[bytes, list[Any]] = {}
        self.rows: dict[int, list[Any]] = {}
        self.numbers: list[int] = []
        self.facts: list[list[Any]] = []
        for number in sorted(int(path.stem) for path in self.pool.glob("*.seg")):
            self._segment(number)

    def _segment(self, number: int) -> None:
        data = (self.pool / f"{number:06d}.seg").read_bytes()
        magic, version, kind = struct.unpack_from("<8sHB", data)
        assert (magic, version) == (b"MULLISEG", 1)
        if kind != 1:
            return
        start = 16
        for offset, record_kind, end in self._records(data):
            if record_kind == 2:
                batch = msgspec.msgpack.decode(self._payload(data, offset))
                assert batch[1] == start
                self.numbers.append(batch[0])
                for fact in batch[3]:
                    self._fact(fact)
                start = end

    @staticmethod
    def _records(data: bytes) -> Iterator[tuple[int, int, int]]:
        offset = 16
        while offset < len(data):
            assert data[offset : offset + 4] == b"\x8d\x52\x65\x63"
            assert zlib.crc32(data[offset : offset + 88]) == int.from_bytes(data[offset + 88 : offset + 92], "little")
            (stored,) = struct.unpack_from("<I", data, offset + 8)
            payload = data[offset + 92 : offset + 92 + stored]
            assert zlib.crc32(payload) == int.from_bytes(data[offset + 84 : offset + 88], "little")
            yield offset, data[offset + 4], offset + 92 + stored
            offset += 92 + stored

    def _payload(self, data: bytes, offset: int) -> bytes:
        encoding = data[offset + 5]
        stored, size = struct.unpack_from("<IQ", data, offset + 8)
        payload = data[offset + 92 : offset + 92 + stored]
        if encoding == 0:
            return payload
        if encoding == 1:
            return zstandard.ZstdDecompressor().decompress(payload, max_output_size=size or 1)
        if encoding == 2:
            base = self.content(data[offset + 52 : offset + 84])
            prefix = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
            return zstandard.ZstdDecompressor(dict_data=prefix).decompress(payload, max_output_size=size)
        return b"".join(self.content(payload[n : n + 32]) for n in range(0, stored, 32))

    def content(self, digest: bytes) -> bytes:
        place = self.places[digest]
        data = (self.pool / f"{place[5]:06d}.seg").read_bytes()
        found = self._payload(data, place[6])
        assert hashlib.sha256(found).digest() == digest
        return found

    def _fact(self, fact: list[Any]) -> None:
        self.facts.append(fact)
        if fact[0] == "content":
            self.places.setdefault(fact[2], fact)
        elif fact[0] == "rows":
            for number, row in enumerate(fact[2]):
                self.rows[fact[4] + number] = row

    def tree(self, seq: int, moment: int) -> dict[bytes, list[Any]]:
        chosen: dict[bytes, list[Any]] = {}
        for number in sorted(self.rows):
            row = self.rows[number]
            if number <= seq and row[3] <= moment:
                chosen[row[0]] = row[1]
        return {path: entry for path, entry in chosen.items() if entry[0] in (1, 2, 3)}

    @staticmethod
    def digest(tree: dict[bytes, list[Any]]) -> str:
        total = 0
        for path, (kind, mode, _, content, target, _) in tree.items():
            last = content if kind == 1 else target
            parts = (b"mulligan-entry-1", path, bytes([kind]), mode.to_bytes(2, "big"), last)
            hashed = hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts))
            total += int.from_bytes(hashed.digest(), "big")
        return (total % 2**256).to_bytes(32, "big").hex()


# The store that it reads.

TEXT = b"".join(b"line %d of a file that is edited\n" % number for number in range(200))
LARGE = random.Random(7).randbytes((4 << 20) + 12_345)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(str(tmp_path / "store"))
    yield opened
    opened.close()


def put(store: Store, make: Callable[[], Any]) -> bytes:
    encoded = make()
    store.log.append([], [encoded])
    digest: bytes = encoded.hash
    return digest


def fill(store: Store) -> tuple[dict[bytes, bytes], Cut]:
    """Contents in every encoding, and rows; returns the files of the tree and a cut before the last change."""
    edited = TEXT.replace(b"line 7 ", b"line seven ")
    first = put(store, lambda: encode(TEXT))
    second = put(store, lambda: encode(edited, base=store.contents.base(first)))
    blocks = [LARGE[start : start + (256 << 10)] for start in range(0, len(LARGE), 256 << 10)]
    hashes = [put(store, lambda block=block: encode(block)) for block in blocks]  # type: ignore[misc]
    whole = put(store, lambda: block_list(hashlib.sha256(LARGE).digest(), len(LARGE), hashes))
    now = store.clock.now()

    def row(path: bytes, entry: Entry, at: int) -> Row:
        return Row(RelPath(path), entry, at, at, Flag.FROM_UNKNOWN)

    store.log.append([ProjectFact(1, b"/project", "watching", 1, 2, 1, now)])
    rows = [
        row(b"text", Entry(Kind.FILE, 0o644, len(TEXT), first), now),
        row(b"dir", Entry(Kind.DIR, 0o755), now),
        row(b"dir/large", Entry(Kind.FILE, 0o600, len(LARGE), whole), now),
        row(b"dir/link \xff", Entry(Kind.LINK, target=b"../text"), now),
        row(b"gone", Entry(Kind.FILE, 0o644, len(TEXT), first), now),
        row(b"pipe", Entry(Kind.SPECIAL, reason="fifo"), now),
    ]
    store.log.append([RowsFact(1, rows, [Stat()] * len(rows))])
    before = Cut(store.catalogue().project(1).last_seq, FOREVER)
    later = [
        row(b"text", Entry(Kind.FILE, 0o640, len(edited), second), now + 5),
        row(b"gone", Entry(Kind.ABSENT), now + 6),
    ]
    store.log.append([RowsFact(1, later, [Stat()] * 2)])
    return {b"text": edited, b"dir/large": LARGE}, before


def test_a_reader_made_from_the_document_reads_a_store(store: Store) -> None:
    files, before = fill(store)
    reader = Reader(Path(store.directory))
    assert reader.numbers == list(range(1, len(reader.numbers) + 1))
    assert {fact[4] for fact in reader.places.values()} == {0, 1, 2, 3}
    live = reader.tree(2**63 - 1, 2**63 - 1)
    assert sorted(live) == [b"dir", b"dir/large", b"dir/link \xff", b"text"]
    assert {path: reader.content(live[path][3]) for path in files} == files
    project = store.catalogue().project(1)
    assert reader.digest(live) == project.digest.hex()
    earlier = reader.tree(before.seq, before.moment)
    assert reader.content(earlier[b"gone"][3]) == TEXT
    assert reader.digest(earlier) == store.catalogue().digest(project, before)


def read_snapshot(path: Path) -> tuple[int, dict[str, tuple[list[str], list[list[Any]]]]]:
    """A snapshot's batch and tables, by section 11 alone."""
    data = path.read_bytes()
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]
    magic, version, _, zero, batch, _ = struct.unpack_from("<8sHHIQQ", data)
    assert (magic, version, zero) == (b"MULLSNAP", 1, 0)
    plain = zstandard.ZstdDecompressor().decompressobj().decompress(data[32:-32])
    found: dict[str, tuple[list[str], list[list[Any]]]] = {}
    offset, rows = 0, []
    while length := int.from_bytes(plain[offset : offset + 4], "little"):
        frame = msgspec.msgpack.decode(plain[offset + 4 : offset + 4 + length])
        offset += 4 + length
        if isinstance(frame[0], str):
            rows = []
            found[frame[0]] = (frame[1], rows)
        else:
            rows += frame
    assert offset + 4 == len(plain)
    return batch, found


def test_a_reader_made_from_the_document_reads_a_snapshot(store: Store) -> None:
    fill(store)
    with store.reorganizing():
        name = f"{store.snapshot():012d}.snap"
    batch, found = read_snapshot(Path(store.directory) / "content_pool" / name)
    assert batch == store.log.batch == dict(found["meta"][1])["batch"]  # type: ignore[arg-type]
    assert next(iter(found)) == "content" and found["content"][0] == ["id", "hash", "size"]
    hashes = {number: digest for number, digest, _ in found["content"][1]}
    columns, rows = found["row"]
    live = {row[columns.index("seq")]: row[columns.index("hash")] for row in rows}
    expected = dict(store.catalogue().db.execute("select seq, hash from row"))
    assert {seq: hashes[digest] if isinstance(digest, int) else digest for seq, digest in live.items()} == expected
    assert sum(isinstance(digest, int) for digest in live.values()) == 4


def test_rows_are_chosen_by_their_moment_too(store: Store) -> None:
    fill(store)
    reader = Reader(Path(store.directory))
    rows = [fact for fact in reader.facts if fact[0] == "rows"]
    moment = rows[1][2][0][3]  # when "text" became another one, and "gone" was still there
    tree = reader.tree(2**63 - 1, moment)
    assert b"gone" in tree and tree[b"text"][1] == 0o640
    project = store.catalogue().project(1)
    assert reader.digest(tree) == store.catalogue().digest(project, Cut(project.last_seq, moment))
