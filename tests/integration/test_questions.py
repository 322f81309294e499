"""history, cat, search and show end to end: a real daemon, through the socket and through the client."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.stored import raw, restore, take
from support.trees import ODD_CONTENTS, ODD_NAMES, make_odd_tree, put, snapshot


def cat(daemon: DaemonFixture, project: Path, name: str, path: bytes, **more: Any) -> dict[str, Any]:
    encoded = base64.b64encode(path).decode()
    return daemon.call("file.cat", project=project, id=name, paths_b64=[encoded], **more)


def content(answer: dict[str, Any]) -> bytes:
    coded = answer.get("content_b64")
    return base64.b64decode(coded) if coded else answer["content"].encode()


def search(daemon: DaemonFixture, project: Path, text: str, **more: Any) -> dict[str, Any]:
    return daemon.call("file.search", project=project, text=text, **more)


def places(found: dict[str, Any]) -> list[tuple[str, int | None, int | None]]:
    """(path, checkpoint in which it appeared, in which it vanished)."""
    return [
        (one["path"], one["appeared"]["ordinal"], one["vanished"]["ordinal"] if one["vanished"] else None)
        for one in found["matches"]
    ]


# --- cat


def test_cat_gives_the_bytes_of_every_kind_of_file(daemon: DaemonFixture, project: Path) -> None:
    make_odd_tree(project)
    daemon.add(project)
    made = take(daemon, project)["id"]
    for number, data in enumerate(ODD_CONTENTS):
        assert content(cat(daemon, project, made, b"odd/content%d" % number)) == data
    for number, name in enumerate(ODD_NAMES):
        found = cat(daemon, project, made, name)
        assert (content(found), raw(found)) == (b"content of number %d\n" % number, name)
    link = cat(daemon, project, made, b"a/dangling")
    assert (link["kind"], content(link), link["size"]) == ("symlink", b"../outside/\xff", 12)


def test_cat_of_the_client_is_byte_for_byte(daemon: DaemonFixture, project: Path) -> None:
    data = random.Random(3).randbytes((9 << 20) + 77)
    put(project, b"large", data)
    put(project, b"sub/small", b"one\r\ntwo")
    daemon.add(project)
    command = [*daemon.command()[:1], "-m", "mulligan.client.main"]

    def said(*words: str, cwd: Path = project) -> bytes:
        return subprocess.run([*command, *words], env=daemon.env, cwd=cwd, capture_output=True, check=True).stdout

    assert said("cat", "1:large") == data
    assert said("cat", "1:small", cwd=project / "sub") == b"one\r\ntwo"
    whole = json.loads(said("cat", "1:large", "--json"))
    assert (content(whole), whole["next_offset"]) == (data, None)
    assert said("cat", f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(time.time() + 60))}:large") == data


def test_cat_in_pieces_is_the_whole(daemon: DaemonFixture, project: Path) -> None:
    data = random.Random(4).randbytes((5 << 20) + 5)
    put(project, b"large", data)
    put(project, b"small", data[:1000])
    daemon.add(project)
    for path, whole, step in ((b"large", data, 700_001), (b"small", data[:1000], 300)):
        pieces, offset = [], 0
        while offset is not None:
            found = cat(daemon, project, "1", path, offset=offset, limit=step)
            pieces.append(content(found))
            offset = found["next_offset"]
        assert b"".join(pieces) == whole
        assert {len(piece) for piece in pieces[:-1]} == {step}
        assert content(cat(daemon, project, "1", path, offset=len(whole) + 7)) == b""


@pytest.mark.parametrize(
    ("name", "path", "code"),
    [
        ("1", "nope", "not_found"),
        ("1", "made-later", "not_found"),
        ("1", "dir", "usage"),
        ("1", "pipe", "not_found"),
        ("1", "../outside", "usage"),
        ("99", "file", "not_found"),
        ("row:999999", "file", "not_found"),
        ("1", "", "usage"),
    ],
)
def test_what_has_no_bytes_is_told_apart(daemon: DaemonFixture, project: Path, name: str, path: str, code: str) -> None:
    put(project, b"dir/file", b"x")
    put(project, b"file", b"x")
    os.mkfifo(project / "pipe")
    daemon.add(project)
    put(project, b"made-later", b"x")
    daemon.call("watch.sync", project=project)
    with pytest.raises(RpcError) as caught:
        daemon.call("file.cat", project=project, id=name, paths=[path])
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)


# --- history


def test_history_names_each_version_so_that_cat_gives_it(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"0\n")
    daemon.add(project)
    for number in range(1, 4):
        put(project, b"a", b"%d\n" % number)
        daemon.call("watch.sync", project=project)
        time.sleep(0.01)
    made = take(daemon, project)
    put(project, b"a", b"4\n", 0o600)
    found = daemon.call("file.history", project=project, path=str(project / "a"))
    assert found["path"] == "a"
    versions = found["versions"]
    texts = [content(cat(daemon, project, one["id"], b"a")) for one in versions]
    assert texts == [b"4\n", b"3\n", b"2\n", b"1\n", b"0\n"]
    assert [one["ordinal"] for one in versions] == [None, 2, None, None, 1]
    assert versions[1]["id"] == made["id"] and versions[0]["id"].startswith("row:")
    assert versions[0]["mode"] == 0o600
    assert restore(daemon, project, versions[2]["id"])["plan"]["write"] == ["a"], "a version is a position as well"
    assert (project / "a").read_bytes() == b"2\n"


def test_states_of_being_written_are_shown_when_asked_for(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"0\n")
    daemon.add(project)
    with (project / "a").open("wb") as file:  # emptied, then written
        daemon.call("watch.sync", project=project)
        file.write(b"1\n")
    found = daemon.call("file.history", project=project, paths=["a"])
    assert ([one["size"] for one in found["versions"]], found["left_out"]) == ([2, 2], 1)
    found = daemon.call("file.history", project=project, paths=["a"], all=True)
    assert ([one["size"] for one in found["versions"]], found["left_out"]) == ([2, 0, 2], 0)


def test_lines_keep_their_owners_while_the_file_is_written_slowly(daemon: DaemonFixture, project: Path) -> None:
    lines = [b"line %d\n" % number for number in range(200)]
    put(project, b"a", b"".join(lines))
    daemon.add(project)
    with (project / "a").open("wb", buffering=0) as file:
        for start in range(0, 200, 50):
            daemon.call("watch.sync", project=project)
            file.write(b"".join(lines[start : start + 50]))
            time.sleep(0.1)
        file.write(b"new\n")
    found = daemon.call("file.blame", project=project, paths=["a"])["lines"]
    assert [one["grade"] for one in found] == ["before mulligan"] * 200 + ["nobody"]


def test_a_project_that_is_away_is_still_answered_for(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"some words\n")
    daemon.add(project)
    project.rename(project.with_name("elsewhere"))
    daemon.until(lambda: daemon.call("daemon.status")["projects"][0]["state"] == "missing")
    assert len(daemon.call("file.history", project=project, paths=["a"])["versions"]) == 1
    assert daemon.call("file.blame", project=project, paths=["a"])["lines"][0]["grade"] == "before mulligan"
    assert places(search(daemon, project, "some words")) == [("a", 1, None)]


# --- search


def test_search_says_when_a_text_appeared_and_vanished(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"src/a.py", b"def login():\n")
    put(project, b"other", b"nothing\n")
    daemon.add(project)
    for number, data in enumerate((b"def login():\n    rare_word()\n", b"def login():\n", b"rare_word\n"), start=2):
        time.sleep(0.4)
        put(project, b"src/a.py", data)
        assert take(daemon, project)["ordinal"] == number
    put(project, b"b.py", b"rare_word\n")
    found = search(daemon, project, "rare_word")
    assert places(found) == [("b.py", None, None), ("src/a.py", 4, None), ("src/a.py", 2, 3)]
    assert [(one["line_number"], one["line"]) for one in found["matches"]] == [
        (1, "rare_word"), (1, "rare_word"), (2, "    rare_word()"),
    ]  # fmt: skip
    last = found["matches"][2]["last"]
    assert last["ordinal"] == 2 and b"rare_word" in content(cat(daemon, project, last["id"], b"src/a.py"))
    assert found["complete"] and found["index"]["available"] and not found["index"]["pending"]
    assert places(search(daemon, project, "rare_word", paths=["src"])) == places(found)[1:]
    assert places(search(daemon, project, "rare_word", paths=["b.*", "nope/*"])) == places(found)[:1]
    assert places(search(daemon, project, "rare_word", since="1h")) == places(found)
    assert search(daemon, project, "def login", since=found["matches"][0]["appeared"]["timestamp"])["matches"] == []
    assert places(search(daemon, project, "^rare.w(o|0)rd$", regex=True)) == places(found)[:2]
    short = search(daemon, project, "in", paths=["src", "other"])
    assert places(short) == [("src/a.py", 1, 4), ("other", 1, None)], "what is too short for the index is read"
    assert search(daemon, project, "RARE_WORD")["matches"] == []
    limited = search(daemon, project, "rare_word", limit=1)
    assert (places(limited), limited["cut"], limited["exit_status"]) == (places(found)[:1], True, 3)


def test_the_index_is_made_again_whatever_became_of_it(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"some rare words\n")
    daemon.add(project)
    expected = [("a", 1, None)]
    assert places(search(daemon, project, "rare")) == expected
    index = daemon.data_dir / "search.db"
    for harm in ("gone", "damaged"):
        assert daemon.stop() == 0
        if harm == "gone":
            index.unlink()
        else:
            index.write_bytes(random.Random(1).randbytes(index.stat().st_size))
        daemon.start()
        assert places(search(daemon, project, "rare")) == expected
    with index.open("r+b") as file:  # damaged while the daemon runs, behind the first page
        file.seek(4096)
        file.write(random.Random(1).randbytes(index.stat().st_size - 4096))
    for name in ("search.db-wal", "search.db-shm"):
        (daemon.data_dir / name).unlink(missing_ok=True)
    assert places(search(daemon, project, "rare")) == expected
    assert places(search(daemon, project, "rare")) == expected


def test_much_is_indexed_in_the_background(daemon: DaemonFixture, project: Path) -> None:
    for number in range(600):
        put(project, b"d%d/f%d" % (number % 10, number), b"words of number %d\n" % number)
    daemon.add(project)
    index = daemon.data_dir / "search.db"
    daemon.until(index.exists, 40, "nobody builds the index")
    daemon.until(lambda: search(daemon, project, "words of number 599")["index"]["pending"] == 0)
    assert places(search(daemon, project, "words of number 599")) == [("d9/f599", 1, None)]


def test_an_expression_without_end_is_given_up_and_keeps_nobody_waiting(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"a" * 60 + b"!\n")
    daemon.add(project)
    with daemon.connect(60) as slow:
        slow._socket.sendall(
            json.dumps({
                "jsonrpc": "2.0", "id": 7, "method": "file.search",
                "params": {"project": str(project), "text": "(a+)+$", "regex": True},
            }).encode() + b"\n"
        )  # fmt: skip
        began = time.monotonic()
        for _ in range(20):
            take(daemon, project)
        assert time.monotonic() - began < 10
        reply = slow.read()
    assert "no answer" in reply["error"]["message"]


def test_what_cannot_be_searched_for_is_refused(daemon: DaemonFixture, project: Path) -> None:
    daemon.add(project)
    for more in ({"text": ""}, {"text": "(", "regex": True}, {"text": "a", "limit": 0}, {"text": "a", "since": "soon"}):
        with pytest.raises(RpcError) as caught:
            daemon.call("file.search", project=project, **more)
        assert caught.value.code == "usage"


# --- show


def test_show_has_what_a_checkpoint_changed(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"one\ntwo\n")
    put(project, b"gone", b"gone\n")
    daemon.add(project)
    put(project, b"a", b"one\n2\nthree\n")
    put(project, b"new", b"new\n")
    (project / "gone").unlink()
    take(daemon, project)
    assert daemon.call("checkpoint.show", project=project, id="1")["changes"] is None
    changes = daemon.call("checkpoint.show", project=project, id="2")["changes"]
    (modified,) = changes["modified_files"]
    assert (modified["path"], modified["additions"], modified["deletions"]) == ("a", 2, 1)
    assert "diff_content" not in modified
    assert [one["path"] for one in changes["added_files"] + changes["deleted_files"]] == ["new", "gone"]
    patch = daemon.call("checkpoint.show", project=project, id="2", patch=True)["changes"]["modified_files"][0]
    assert "+three\n" in patch["diff_content"]
    shown = daemon.client("show", "2", "--project", str(project)).stdout
    assert " a    | 3 ++-" in shown and "\n0644" in shown
    shown = daemon.client("show", "2", "--patch", "--project", str(project)).stdout
    assert "+three\n" in shown and "\n0644" not in shown
    assert snapshot(project).keys() == {b"a", b"new"}
