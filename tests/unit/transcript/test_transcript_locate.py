"""Where transcripts are found, and what is not one."""

from __future__ import annotations

import json
import os
from pathlib import Path

from mulligan.transcript.locate import Head, find_transcripts, live_clients, process_lives, read_head, recognise, slug
from support.transcripts import FIXTURES

S = "2ede0281-80d2-46da-991a-bcd1e2cc7a84"


def put(path: Path, data: str = '{"type":"mode"}\n') -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data)
    return path


def test_all_three_layouts_and_nothing_else(tmp_path: Path) -> None:
    slug = tmp_path / "projects" / "-p"
    wanted = {
        put(slug / f"{S}.jsonl"): (S, ""),
        put(slug / "agent-a7e13a8.jsonl"): ("", "a7e13a8"),
        put(slug / S / "subagents" / "agent-a5c6eb.jsonl"): (S, "a5c6eb"),
        put(slug / S / "subagents" / "workflows" / "wf_1" / "agent-b1.jsonl"): (S, "b1"),
    }
    for other in (
        slug / "notes.jsonl",
        slug / S / "resume-head.jsonl",
        slug / S / "before-cleanup" / "x.jsonl.replaced",
        slug / S / "tool-results" / "agent-x.jsonl",
        slug / "memory" / f"{S}.jsonl",
        slug / f"{S}.jsonl.tmp",
        tmp_path / f"{S}.jsonl",
        tmp_path / "projects" / f"{S}.jsonl",
        tmp_path / "history.jsonl",
    ):
        put(other)
    found = {Path(one.transcript.path): one.transcript for one in find_transcripts([str(tmp_path)])}
    assert {path: (one.session, one.agent) for path, one in found.items()} == wanted
    for path, transcript in found.items():
        assert recognise(str(path), str(tmp_path)) == transcript


def test_X9_the_directory_comes_from_the_lines(tmp_path: Path) -> None:
    cwd = "/home/a.b/my-project_x y/é"
    one, two = tmp_path / "one-dir", tmp_path / "two dir"
    first = put(one / "projects" / "-home-a-b-my-project-x-y--" / f"{S}.jsonl")
    second = put(two / "projects" / "-home-a-b-my-project-x-y--" / f"{S}.jsonl", json.dumps({"cwd": cwd}) + "\n")
    first.write_text('{"type":"summary"}\nnot json\n' + json.dumps({"cwd": cwd, "sessionId": S, "type": "user"}) + "\n")
    found = [
        one.transcript.path for one in find_transcripts([str(one), str(two), str(one) + "/", str(tmp_path / "no")])
    ]
    assert found == [str(first), str(second)]
    assert read_head(str(first)) == Head(S, cwd)
    assert read_head(str(second)) == Head("", cwd)
    assert read_head(str(tmp_path / "none")) == Head()


def test_the_old_layout_says_its_parent_in_its_lines() -> None:
    path = FIXTURES / "2.0.76/interactive/projects/-home-dev-D-2-0-76/agent-a7e13a8.jsonl"
    assert read_head(str(path)) == Head("f99c25ad-c112-40be-8009-1b0cd2c51d1e", "/home/dev/D-2.0.76")


def test_an_unreadable_place_is_an_empty_one(tmp_path: Path) -> None:
    assert list(find_transcripts([str(tmp_path / "missing"), str(put(tmp_path / "file"))])) == []


def test_live_clients_are_those_whose_process_lives(tmp_path: Path) -> None:
    def client(number: int, **more: object) -> None:
        data = {"pid": number, "sessionId": S, "cwd": "/p", "startedAt": 1, **more}
        put(tmp_path / "sessions" / f"{number}.json", json.dumps(data))

    client(10, status="busy", kind="cli")
    client(11)
    client(12, cwd="relative")
    client(13, pid="13")
    put(tmp_path / "sessions" / "14.json", "{")
    put(tmp_path / "sessions" / "notes.txt", "{}")
    alive = live_clients([str(tmp_path)], lambda pid: pid != 11)
    assert [(one.pid, one.session, one.cwd, one.status) for one in alive] == [(10, S, "/p", "busy")]


def test_whether_a_process_lives() -> None:
    assert process_lives(os.getpid())
    assert process_lives(1)
    assert not process_lives(2**40)


def test_a_directory_has_the_name_that_the_client_gives_it() -> None:
    assert slug("/home/dev/my.app_2") == "-home-dev-my-app-2"
    assert slug("/\u00e9/e\u0301/\U0001f600") == "---e----"
    assert slug("/" + "a" * 199) == "-" + "a" * 199
    # what 2.1.112 and 2.1.332 made of a directory of 230 characters was compared with this
    long = slug("/tmp/" + "b" * 230)
    assert long[:200] == "-tmp-" + "b" * 195 and long[200:] == "-eeeko7"
    assert slug("/tmp/" + "b" * 231) != long
