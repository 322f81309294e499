"""Erasing what was captured, through a real daemon: afterwards no file of the store has the bytes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
from functools import partial
from pathlib import Path

import pytest

from support.daemon import DaemonFixture, RpcError
from support.saving import saving
from support.store_bytes import holding
from support.stored import files_of, restore, rows, take
from support.trees import put, snapshot

TOKEN = b"token=tk_invented_4711_for_this_test"


def lines(count: int = 300) -> bytes:
    source = random.Random(3)
    return b"".join(b"%d %s\n" % (number, source.randbytes(12).hex().encode()) for number in range(count))


def secrets(daemon: DaemonFixture, project: Path) -> list[str]:
    """A file with a token, in several versions: whole, as a delta, as the base of others, and at another path."""
    put(project, b"plain", b"nothing to hide\n")
    daemon.call("project.add", project=project)
    text = lines()
    ids = []
    for version in (text, text + TOKEN + b"\n", text + TOKEN + b"\nmore\n", text + b"without it again\n"):
        put(project, b".env", version, 0o600)
        ids.append(take(daemon, project)["id"])
    put(project, b"copy/.env.bak", text + TOKEN + b"\n")
    ids.append(take(daemon, project)["id"])
    return ids


def purge(daemon: DaemonFixture, project: Path, *paths: str) -> dict[str, object]:
    return daemon.call("store.purge", project=project, paths=list(paths), confirmed=True)


def is_gone(daemon: DaemonFixture, secret: bytes) -> bool:
    return holding(daemon.data_dir, secret) == []


def test_V2_purge_removes_every_copy_of_a_file_database_pages_included(daemon: DaemonFixture, project: Path) -> None:
    ids = secrets(daemon, project)
    daemon.call("file.search", project=project, text="invented")  # has the index built
    assert holding(daemon.data_dir, TOKEN)
    (project / ".mulliganignore").write_text(".env\n")
    before = snapshot(project)
    empty = hashlib.sha256(b"").digest()  # a look may come between the opening of a file and its writing
    file_rows = [row for row in rows(daemon, b".env") if row[1] == 1 and row[2] != empty]
    done = purge(daemon, project, ".env")
    assert done["versions"] == len(set(file_rows))
    assert done["left"] == []
    assert done["elsewhere"] == [{"path": "copy/.env.bak", "project": str(project)}]
    assert snapshot(project) == before
    assert holding(daemon.data_dir, TOKEN) == []
    assert TOKEN.decode() not in daemon.log()
    for made in ids[:4]:
        assert files_of(daemon, project, made)[b".env"]["kind"] == "unknown"
    shown = daemon.call("checkpoint.show", project=project, id=ids[1])["checkpoint"]
    assert shown["incomplete_paths"] == [{"path": ".env", "reason": "purged"}]
    assert daemon.call("store.verify")["clean"]
    daemon.restart()
    assert holding(daemon.data_dir, TOKEN) == []
    assert daemon.call("store.verify")["clean"]
    assert files_of(daemon, project, ids[4])[b"plain"]["kind"] == "file"


def test_what_is_purged_is_never_captured_again_and_a_restore_leaves_it_alone(
    daemon: DaemonFixture, project: Path
) -> None:
    ids = secrets(daemon, project)
    purge(daemon, project, "copy")
    made = take(daemon, project)
    assert {"path": "copy/.env.bak", "reason": "purged"} in made["incomplete_paths"]
    assert holding(daemon.data_dir, TOKEN) != []  # another version of .env has it, too
    purge(daemon, project, ".env")
    assert holding(daemon.data_dir, TOKEN) == []
    put(project, b"again", lines() + TOKEN + b"\n")
    made = take(daemon, project)
    assert {"path": "again", "reason": "purged"} in made["incomplete_paths"]
    assert holding(daemon.data_dir, TOKEN) == []
    put(project, b"plain", b"changed\n")
    restore(daemon, project, ids[0])
    assert (project / "plain").read_bytes() == b"nothing to hide\n"
    assert (project / "copy/.env.bak").read_bytes() == lines() + TOKEN + b"\n"


def test_versions_of_others_that_were_deltas_on_it_stay_what_they_were(daemon: DaemonFixture, project: Path) -> None:
    text = lines()
    put(project, b"a", text + TOKEN + b"\n")
    daemon.call("project.add", project=project)
    first = take(daemon, project)["id"]
    put(project, b"a", text)
    second = take(daemon, project)["id"]
    put(project, b"b", text + TOKEN + b"\n")
    (project / "a").unlink()
    put(project, b"a", text)
    take(daemon, project)
    purge(daemon, project, "b")
    assert holding(daemon.data_dir, TOKEN) == []
    assert files_of(daemon, project, first)[b"a"]["kind"] == "unknown"
    put(project, b"a", b"other\n")
    restore(daemon, project, second)
    assert (project / "a").read_bytes() == text


def test_an_undo_leaves_what_was_purged_as_it_is(daemon: DaemonFixture, project: Path) -> None:
    put(project, b"a", b"first\n")
    put(project, b"b", b"first\n" + TOKEN)
    daemon.call("project.add", project=project)
    put(project, b"a", b"second\n")
    put(project, b"b", b"second of b\n")
    restore(daemon, project, "1")
    assert (project / "b").read_bytes() == b"first\n" + TOKEN
    purge(daemon, project, "b")
    done = daemon.call("operation.undo", project=project, confirmed=True)
    assert (project / "a").read_bytes() == b"second\n"
    assert (project / "b").read_bytes() == b"first\n" + TOKEN
    assert done["plan"]["skipped"] == ["b"]


def test_large_files_go_with_their_blocks(daemon: DaemonFixture, project: Path) -> None:
    source = random.Random(9)
    data = source.randbytes(4 << 20) + TOKEN + source.randbytes(1 << 20)
    put(project, b"dump.bin", data)
    put(project, b"f", b"1")
    daemon.call("project.add", project=project)
    put(project, b"dump.bin", data + b"more")
    take(daemon, project)
    assert holding(daemon.data_dir, TOKEN)
    done = purge(daemon, project, "dump.bin")
    assert done["left"] == []
    assert holding(daemon.data_dir, TOKEN) == []
    assert {"path": "dump.bin", "reason": "purged"} in take(daemon, project)["incomplete_paths"]
    assert holding(daemon.data_dir, TOKEN) == []


def test_without_confirmation_nothing_is_erased_and_what_was_never_there_is_not_found(
    daemon: DaemonFixture, project: Path
) -> None:
    secrets(daemon, project)
    plan = daemon.call("store.purge", project=project, paths=[".env"], dry_run=True)
    assert [item["path"] for item in plan["paths"]] == [".env"]
    assert ".env: still there" in plan["warnings"][0]
    with pytest.raises(RpcError) as refused:
        daemon.call("store.purge", project=project, paths=[".env"])
    assert refused.value.data["exit_status"] == 4
    with pytest.raises(RpcError) as missing:
        purge(daemon, project, "nowhere")
    assert missing.value.data["exit_status"] == 5
    assert {kind for _, kind, *_ in rows(daemon, b".env")} == {1}


def test_the_command_asks_shows_and_erases(daemon: DaemonFixture, project: Path) -> None:
    secrets(daemon, project)
    dry = daemon.client("purge", ".env", "--dry-run", cwd=project)
    assert dry.returncode == 0 and "versions to be erased" in dry.stdout
    refused = daemon.client("purge", ".env", cwd=project)
    assert refused.returncode == 4
    done = daemon.client("purge", ".env", "--yes", "--json", cwd=project)
    assert done.returncode == 0
    assert json.loads(done.stdout)["versions"] >= 4
    assert holding(daemon.data_dir, TOKEN) == []


def test_a_project_is_erased_with_all_that_is_known_of_it(daemon: DaemonFixture, project: Path) -> None:
    secrets(daemon, project)
    other = daemon.projects / "other"
    other.mkdir()
    put(other, b"f", b"of another project\n")
    daemon.call("project.add", project=other)
    made = daemon.call("checkpoint.create", project=project, description="a telling description")["checkpoint"]
    daemon.call("settings.set", project=project, scope="project", key="strategy", value="manual")
    for place, title in ((project, "a telling title"), (project, "another telling title"), (other, "of another one")):
        daemon.call("state.save", project=place, state={"title": title}, snapshot=f"snapshot of {title}")
    assert made["ordinal"] == 7
    with pytest.raises(RpcError):
        daemon.call("project.remove", project=project, purge=True)
    assert daemon.call("project.remove", project=project, purge=True, dry_run=True)["checkpoints"] == 7
    done = daemon.client("project", "remove", "--purge", "--yes", cwd=project)
    assert done.returncode == 0, done.stderr
    for trace in (TOKEN, b"a telling description", b"nothing to hide", b".env.bak", b"telling title"):
        assert holding(daemon.data_dir, trace) == [], trace
    assert (project / ".env").exists()
    assert daemon.call("state.load", project=other)["state"]["title"] == "of another one"
    assert daemon.call("store.verify")["clean"]
    restore(daemon, other, "1")
    daemon.restart()
    assert daemon.call("store.verify")["clean"]
    daemon.call("project.add", project=project)
    found = daemon.call("checkpoint.list", project=project)["checkpoints"]
    assert [(one["ordinal"], one["trigger"]) for one in found] == [(8, "baseline")]
    assert daemon.call("settings.get", project=project)["settings"]["strategy"]["source"] == "config"


POINTS = ["purge.condemned", "purge.based_anew", "purge.committed", "collect.snapshot", "collect.copied",
          "collect.synced", "collect.placed", "collect.unlink", "purge.rewritten"]  # fmt: skip


def test_killed_anywhere_the_next_start_finishes_it_or_a_second_purge_does(
    daemon: DaemonFixture, project: Path
) -> None:
    secrets(daemon, project)
    for point in POINTS:
        daemon.stop()
        daemon.arm(f"{point}=kill")
        daemon.start()
        secret = b"secret of " + point.encode()
        put(project, b"secret", lines() + secret)
        put(project, b"kept", b"kept at " + point.encode())
        take(daemon, project)
        put(project, b"secret", lines())
        take(daemon, project)
        with saving(project), contextlib.suppress(EOFError, OSError, RpcError):
            assert purge(daemon, project, "secret")["left"], "of which the copying child died"
        daemon.arm("")
        daemon.kill9()
        daemon.start()
        daemon.add(project)
        assert daemon.call("store.verify")["clean"], point
        if POINTS.index(point) < POINTS.index("purge.committed"):
            assert purge(daemon, project, "secret")["left"] == []
        else:
            daemon.until(partial(is_gone, daemon, secret), what=f"{point}: {secret!r} is there still")
        assert holding(daemon.data_dir, secret) == [], point
        assert daemon.call("store.verify")["clean"], point
    assert daemon.faults_hit() == POINTS
