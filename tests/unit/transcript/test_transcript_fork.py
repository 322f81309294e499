"""Copies of recorded conversations: of each version, before each prompt, the client would send what it sent then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mulligan.errors import RefusedError
from mulligan.transcript.events import Prompt
from mulligan.transcript.fork import Copy, Naming, Point, copy_conversation
from mulligan.transcript.locate import recognise
from mulligan.transcript.parse import parse_line
from support.client_view import conversation, leaf, read
from support.transcripts import FIXTURES, Writer, at

NAMING = Naming("old", "11111111-2222-4333-8444-000000000000", "a title")


def main_files() -> list[Path]:
    """The recorded transcripts that are not subagents'."""
    found = []
    for path in sorted(FIXTURES.rglob("*.jsonl")):
        config_dir = str(path).split("/projects/", maxsplit=1)[0]
        known = recognise(str(path), config_dir)
        if known is not None and not known.agent and path.stat().st_size:
            found.append(path)
    return found


def prompts(data: bytes) -> list[Prompt]:
    events = [event for line in data.split(b"\n") for event in parse_line(line).events]
    return [event for event in events if isinstance(event, Prompt) and event.uuid and not event.agent]


def lines_of(copy: Copy) -> list[dict[str, Any]]:
    return [json.loads(line) for line in copy.lines]


@pytest.mark.parametrize(
    "path", main_files(), ids=lambda path: f"{path.relative_to(FIXTURES).parts[0]}-{path.stem[:8]}"
)
def test_each_prompt_of_each_recording_can_be_forked_before(path: Path) -> None:
    data = path.read_bytes()
    original = read(data)
    by_id = {line["uuid"]: line for line in original if line.get("uuid")}
    retracted = "retractedMessageUuids" in data.decode()
    for prompt in prompts(data):
        copy = copy_conversation(data, Point(before=prompt.key), NAMING)
        before = by_id[prompt.uuid]["parentUuid"]
        expected = conversation(original, before)
        if not copy.messages:
            assert expected == []
            continue
        copied = lines_of(copy)
        resumed = conversation(copied, leaf(copied))
        if retracted:  # what is behind a retracted line is lost to a reader that does not know of retractions
            assert [one[1] for one in expected] == [one[1] for one in resumed][-len(expected) :]
        else:
            assert resumed == expected
        assert_well_formed(copied)
        assert copied[-1]["customTitle"] == "a title"
        assert copy.data.endswith(b"}\n") and copy.data.count(b"\n") == len(copied)


def assert_well_formed(lines: list[dict[str, Any]]) -> None:
    """What each client needs of a file that it is to resume."""
    known: set[str] = set()
    all_of_them = {line.get("uuid") for line in lines}
    for line in lines:
        if uuid := line.get("uuid"):
            assert line["parentUuid"] is None or line["parentUuid"] in known
            assert line["timestamp"] and line["sessionId"] == NAMING.new
            assert line["forkedFrom"]["messageUuid"]
            known.add(uuid)
        else:
            assert line.get("sessionId", NAMING.new) == NAMING.new
            assert line["type"] not in {"last-prompt", "queue-operation", "cost-state", "api-request"}
            assert "messageId" not in line or line["messageId"] in all_of_them
    assert [line["type"] for line in lines].count("custom-title") == 1
    assert all(line.get("entrypoint") != "sdk-cli" for line in lines)


def test_the_recordings_hold_what_they_are_for() -> None:
    files = main_files()
    assert len(files) > 10 and sum(len(prompts(path.read_bytes())) for path in files) > 100


def test_nothing_but_the_named_members_of_a_line_changes() -> None:
    (path,) = (FIXTURES / "2.1.332" / "kitchen").rglob("*.jsonl")
    data = path.read_bytes()
    copied = lines_of(copy_conversation(data, Point(), NAMING))
    original = {line["uuid"]: line for line in read(data) if line.get("uuid")}
    for line in copied[:-1]:
        if line.get("uuid"):
            source = original[line["uuid"]]
            changed = {key for key in line if line.get(key) != source.get(key)}
            assert changed <= {"sessionId", "forkedFrom", "entrypoint"} and set(source) <= set(line)


# scripts


def chain(*lines: dict[str, Any]) -> bytes:
    """A file of lines, each following the one before unless it says something else."""
    parent = None
    for line in lines:
        if line.get("uuid"):
            line["parentUuid"] = line.pop("after", parent) if "after" in line else parent
            parent = line["uuid"]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def two_turns(write: Writer) -> list[dict[str, Any]]:
    return [write.user("one"), write.end("m1"), write.user("two"), write.end("m2")]


def uuids(copy: Copy) -> list[str]:
    return [line["uuid"] for line in lines_of(copy) if line.get("uuid")]


def test_a_point_is_a_prompt_a_line_or_a_moment() -> None:
    lines = two_turns(Writer())
    data = chain(*lines)
    names = [line["uuid"] for line in lines]
    assert uuids(copy_conversation(data, Point(before=names[2]), NAMING)) == names[:2]
    assert uuids(copy_conversation(data, Point(at=names[2]), NAMING)) == names[:3]
    assert uuids(copy_conversation(data, Point(moment=at(200)), NAMING)) == names[:2]
    assert uuids(copy_conversation(data, Point(moment=at(299)), NAMING)) == names[:2]
    assert uuids(copy_conversation(data, Point(), NAMING)) == names
    assert uuids(copy_conversation(data, Point(before="0" * 24, moment=at(350)), NAMING)) == names[:3]
    assert copy_conversation(data, Point(before=names[0]), NAMING) == Copy()
    assert copy_conversation(data, Point(moment=at(1)), NAMING) == Copy()


def test_a_line_without_a_time_gets_the_one_before_it() -> None:
    lines = two_turns(Writer())
    del lines[1]["timestamp"]
    copied = lines_of(copy_conversation(chain(*lines), Point(), NAMING))
    assert copied[1]["timestamp"] == copied[0]["timestamp"]


def test_the_last_line_is_the_newest() -> None:
    lines = two_turns(Writer(version="1.0.60"))
    for line in lines:
        line["timestamp"] = lines[0]["timestamp"]  # as clients before 2.0 copy a conversation
    copied = lines_of(copy_conversation(chain(*lines), Point(), NAMING))
    times = [line["timestamp"] for line in copied[:4]]
    assert times[:3] == [lines[0]["timestamp"]] * 3 and times[3] > times[2]


def test_whole_lines_only() -> None:
    lines = two_turns(Writer())
    data = chain(*lines)
    torn = data + json.dumps(Writer("x").user("torn")).encode()
    garbage = data.replace(b"\n", b'\n{"type":"user","uu\n[1]\nnull\n\n', 1)
    for odd in (torn, garbage):
        assert uuids(copy_conversation(odd, Point(), NAMING)) == [line["uuid"] for line in lines]


def test_bytes_of_values_stay() -> None:
    odd = b'"\\u00e9\\ud83d\\ude00 1e400 \xe2\x80\xa8"'
    data = chain(*two_turns(Writer())).replace(b'"one"', odd)
    (first, *_) = copy_conversation(data, Point(), NAMING).lines
    assert odd in first
    lone = chain(*two_turns(Writer())).replace(b'"one"', b'"cut \\ud83d"')
    (first, *_) = copy_conversation(lone, Point(), NAMING).lines
    assert json.loads(first)["message"]["content"] == "cut \ud83d"


def test_working_directories_move_with_the_project() -> None:
    write = Writer(cwd="/p")
    lines = two_turns(write)
    lines[1]["cwd"], lines[2]["cwd"] = "/p/sub", "/pq"
    naming = Naming("old", NAMING.new, "t", "/p", "/f")
    copied = lines_of(copy_conversation(chain(*lines), Point(), naming))
    assert [line["cwd"] for line in copied[:4]] == ["/f", "/f/sub", "/pq", "/f"]


@pytest.mark.parametrize("version", ["3.0.0", "2.2.0", "0.9.1", "2.1", "x", ""])
def test_unknown_versions_are_refused(version: str) -> None:
    with pytest.raises(RefusedError, match="not known"):
        copy_conversation(chain(*two_turns(Writer(version=version))), Point(), NAMING)


def _missing(lines: list[dict[str, Any]]) -> None:
    del lines[1]


@pytest.mark.parametrize(
    ("damage", "point"),
    [
        (_missing, Point(before="s1-u3")),
        (_missing, Point(at="s1-u4")),
        (lambda lines: lines.clear(), Point(at="s1-u4")),
        (lambda lines: None, Point(before="s1-u9")),
    ],
)
def test_incomplete_files_are_refused(damage: Callable[[list[dict[str, Any]]], None], point: Point) -> None:
    lines = two_turns(Writer())
    chain(*lines)
    damage(lines)
    with pytest.raises(RefusedError, match="incomplete"):
        copy_conversation(b"".join(json.dumps(line).encode() + b"\n" for line in lines), point, NAMING)


def test_a_cycle_ends() -> None:
    lines = two_turns(Writer())
    data = chain(*lines)
    lines[0]["parentUuid"] = lines[3]["uuid"]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    assert len(uuids(copy_conversation(data, Point(), NAMING))) == 4


def test_a_retracted_line_is_stepped_over() -> None:
    write = Writer()
    lines = [write.user("one"), write.end("m1"), write.user("again"), write.end("m2"), write.user("two")]
    data = chain(*lines)
    lines[2]["retractedMessageUuids"] = [lines[1]["uuid"]]
    del lines[1]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    copied = lines_of(copy_conversation(data, Point(before="s1-u5"), NAMING))
    assert [line.get("parentUuid") for line in copied[:3]] == [None, "s1-u1", "s1-u3"]


def test_results_that_came_later_are_left_out() -> None:
    write = Writer()
    calls = [write.call(f"t{n}", "Write", "m1") for n in range(3)]
    results = [write.result("t1"), write.result("t0"), write.result("t2")]
    lines = [write.user("go"), *calls, *results, write.end("m2")]
    for result, call in zip(results, (calls[1], calls[0], calls[2]), strict=True):
        result["after"] = call["uuid"]
    data = chain(*lines)
    kept = uuids(copy_conversation(data, Point(at=results[1]["uuid"]), NAMING))
    assert kept == [line["uuid"] for line in [*lines[:4], *results[:2]]]
    # written in one go: the second line tells of what was done first
    results[2]["timestamp"] = results[0]["timestamp"]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    assert len(uuids(copy_conversation(data, Point(at=results[1]["uuid"]), NAMING))) == 7
