"""A store of each format version is checked in and must load for ever, with everything that was put into it."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from mulligan.model import ABSENT, Checkpoint, Cut, Entry, Git, Kind, Metadata, Tool
from mulligan.store.encoding import Encoding
from mulligan.store.state import StateDatabase
from mulligan.store.store import Store
from mulligan.store.verify import verify
from support.storing import forget_catalogue, opened, tables

HERE = Path(__file__).parent
POEM = b"".join(b"line %d: the quick brown fox jumps over the lazy dog\n" % number for number in range(40))
EDITED = POEM.replace(b"line 7:", b"line seven:")
LARGE = b"block one\n" * 3 + b"block two\n" * 3
RAW = bytes(range(64))
CHILD = b"stored by a child\n"


MADE = Checkpoint(
    id="checkpoint22", ordinal=2, project=1, session="s-1", parent="baseline1111", timestamp=206, created=230, seq=8,
    moment=206, description="renamed", trigger="tool_use", placement="timestamp", strategy="smart", pinned=True,
    incomplete=[(b"torn", "torn: it was being written")], special=[b"pipe"], tree="ab" * 32, message_uuid="u-1",
    message_index=3, tool=Tool("Edit", "toolu_1"), git=Git("c0ffee", "main"), event_key="tool:toolu_1",
    metadata=Metadata(total_tokens=10, model_used="model", user_prompt="do it", modified=1, file_changes=1),
)  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    copied: Path = shutil.copytree(HERE / "store_v1", tmp_path / "store")
    return copied


def file(data: bytes, mode: int = 0o644) -> Entry:
    return Entry(Kind.FILE, mode, len(data), hashlib.sha256(data).digest())


def entries(store: Store, cut: Cut) -> dict[bytes, Entry]:
    return {path: row.entry for path, row in store.catalogue().tree(1, cut).items()}


def test_version_1_loads_with_all_that_was_put_into_it(directory: Path) -> None:
    with opened(directory) as store:
        assert (store.damage, store.replayed.batches, store.replayed.cut_bytes) == ("", 17, 0)
        assert entries(store, Cut(2)) == {b"poem.txt": file(POEM), b"src": Entry(Kind.DIR, 0o750)}
        assert entries(store, Cut(10)) == {
            b"poem.txt": file(EDITED, 0o600),
            b"src": Entry(Kind.DIR, 0o750),
            b"src/large": file(LARGE),
            b"link": Entry(Kind.LINK, target=b"\xff"),
            b"src/child": file(CHILD),
            b"raw": file(RAW),
            b"gone": ABSENT,
            b"pipe": Entry(Kind.SPECIAL, reason="fifo"),
        }
        assert entries(store, Cut(11)).keys() - entries(store, Cut(10)).keys() == {b".env"}
        report = verify(store.catalogue(), store.contents)
        assert (report.damaged, report.paths) == ([], [])
        assert report.digests == [(1, "checkpoint22")], "its digest was made up"


def test_version_1_gives_every_content_back(directory: Path) -> None:
    with opened(directory) as store:
        for data in (POEM, EDITED, LARGE, RAW, CHILD):
            digest = hashlib.sha256(data).digest()
            assert store.contents.read(digest) == data
        kinds = {place.size: place.encoding for place in store.catalogue().places()}
        assert kinds[len(POEM)] == Encoding.ZSTD
        assert kinds[len(EDITED)] == Encoding.DELTA
        assert kinds[len(LARGE)] == Encoding.BLOCKS
        assert kinds[len(RAW)] == Encoding.RAW


def test_version_1_has_its_checkpoints(directory: Path) -> None:
    with opened(directory) as store:
        catalogue = store.catalogue()
        made = catalogue.checkpoint("checkpoint22")
        assert made == MADE
        assert catalogue.current(1) == "baseline1111"
        assert catalogue.current(1, "s-1") == "checkpoint22"
        assert [each.ordinal for each in catalogue.checkpoints("project = ?", (1,))] == [2, 1]
        assert catalogue.event_taken(1, "tool:toolu_1")
        assert entries(store, MADE.cut)[b"poem.txt"] == file(EDITED, 0o600)
        project = catalogue.project(1)
        assert (project.path, project.files, project.dirs, project.links) == (b"/home/me/\xffproject", 4, 1, 1)


def test_version_1_has_its_sessions_calls_and_operations(directory: Path) -> None:
    with opened(directory):
        found = tables(directory / "catalogue.db")
    assert found["session"] == [("s-1", 1, b"/t/s-1.jsonl", 150, 240, b"\x80", 0)]
    assert found["prompt"] == [("prompt:u-0", "s-1", 1, 1, 190, "do it", "typed")]
    assert [each[:5] for each in found["call"]] == [("toolu_1", "s-1", 1, "Edit", "path")]
    assert [each[:7] for each in found["usage"]] == [("msg_1", "s-1", "model", 1, 2, 3, 4)]
    assert found["known"] == [("u-0", "s-1"), ("u-1", "s-1")]
    assert found["offset"] == [(b"/t/s-1.jsonl", b"\x80")]
    assert found["gap"] == [(1, 140, 145, "away")]
    assert [each[:4] for each in found["operation"]] == [("op0000000000000001", 1, "restore", "done")]
    calls = {each[0]: each[12:] for each in found["row"] if each[12]}
    assert calls == {3: ("toolu_1", "named"), 4: ("toolu_1", "one of 2")}


def test_version_1_can_be_written_to(directory: Path) -> None:
    with opened(directory) as store:
        receipt = store.log.append([])
        assert receipt.batch == 18
        expected = tables(directory / "catalogue.db")
    forget_catalogue(directory)
    with opened(directory):
        assert tables(directory / "catalogue.db") == expected


def test_version_1_has_its_settings(directory: Path) -> None:
    database = StateDatabase(str(directory / "state.db"))
    try:
        assert not database.newer
        assert database.settings("global", "") == {"strategy": "smart"}
        assert database.settings("project", "/home/me") == {"turn_end": False}
        database.set("global", "", "strategy", "manual")
        assert database.settings("global", "") == {"strategy": "manual"}
    finally:
        database.close()
