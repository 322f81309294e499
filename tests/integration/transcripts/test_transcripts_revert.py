"""Taking out what a prompt, a call or a session changed: a real daemon, lines and changes written by a test."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.daemon import DaemonFixture, RpcError
from support.live_transcript import LiveTranscript, checkpoints, replace, settle, started
from support.stored import files_of, rows
from support.trees import put, snapshot

#: Longer than the margins within which a change's own time is known.
APART = 0.04
LINES = [b"line %d\n" % number for number in range(1, 31)]


class Work:
    """A project with two sessions and a person; `settled` waits until all that was written is understood."""

    def __init__(self, daemon: DaemonFixture, root: Path) -> None:
        self.daemon, self.root = daemon, root
        self.a = LiveTranscript(daemon.claude_dir, root)
        self.b = LiveTranscript(daemon.claude_dir, root)

    def call(self, who: LiveTranscript, name: str, data: bytes, tool: str = "Edit") -> str:
        """A tool of a session writes a file; the call's id."""
        time.sleep(APART)
        (self.root / name).parent.mkdir(exist_ok=True)
        return who.put_call(self.root / name, data, tool)

    def shell(self, who: LiveTranscript, run: Callable[[], object], **more: Any) -> str:
        """A shell command of a session does something; the call's id."""
        time.sleep(APART)
        tool = f"toolu_{who.session[:4]}{who.count}"
        who.write(who.call(tool, "Bash", input={"command": "x"}))
        time.sleep(APART)
        run()
        time.sleep(APART)
        who.write(who.result(tool, told={"stdout": ""}, **more))
        return tool

    def person(self, name: str, data: bytes) -> None:
        """A person saves a file."""
        time.sleep(APART)
        replace(self.root / name, data)
        time.sleep(APART)

    def settled(self) -> None:
        settle(self.daemon, self.root, self.a.count + self.b.count)

    def revert(self, target: str, **options: Any) -> dict[str, Any]:
        self.settled()
        return self.daemon.call("operation.revert", project=self.root, target=target, confirmed=True, **options)

    def client(self, *words: str) -> subprocess.CompletedProcess[str]:
        self.settled()
        return self.daemon.client(*words, cwd=self.root)

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()


def edited(data: bytes, number: int, text: bytes) -> bytes:
    """A text with another line at a place, counted from 1."""
    found = data.splitlines(keepends=True)
    found[number - 1] = text + b"\n"
    return b"".join(found)


@pytest.fixture
def work(daemon: DaemonFixture, project: Path) -> Work:
    put(project, b"s.py", b"".join(LINES))
    daemon.add(project)
    return Work(daemon, project)


def shared(work: Work) -> None:
    """Case M1 up to the revert: A, B and a person in one file, A and B with files of their own."""
    work.a.prompt("change line 3")
    work.b.prompt("change line 15")
    work.call(work.a, "s.py", edited(work.read("s.py"), 3, b"A"))
    work.call(work.b, "s.py", edited(work.read("s.py"), 15, b"B"))
    work.person("s.py", edited(work.read("s.py"), 27, b"person"))
    work.call(work.a, "new/a", b"A's\n", "Write")
    work.call(work.b, "new/b", b"B's\n", "Write")


def test_M1_a_session_is_taken_out_and_everybody_elses_work_stays(work: Work) -> None:
    shared(work)
    before = snapshot(work.root)
    done = work.revert(f"session:{work.a.session}")
    assert done["plan"]["write"] == ["s.py"] and done["plan"]["delete"] == ["new/a"] and done["conflicts"] == []
    assert work.read("s.py") == edited(edited(b"".join(LINES), 15, b"B"), 27, b"person")
    assert not (work.root / "new/a").exists() and work.read("new/b") == b"B's\n"
    after = snapshot(work.root)
    last = checkpoints(work.daemon, work.root)[-1]
    assert last["description"] == f"after revert of session:{work.a.session[:8]}"
    assert done["post_restore_checkpoint_id"] == last["id"]
    work.daemon.call("operation.undo", project=work.root, confirmed=True)
    assert snapshot(work.root) == before
    work.daemon.call("operation.redo", project=work.root, confirmed=True)
    assert snapshot(work.root) == after
    again = work.revert(f"session:{work.a.session}")
    assert (again["operation_id"], snapshot(work.root)) == (None, after), "there is nothing left to take out"


def test_M1_the_same_line_is_a_conflict_and_both_versions_are_to_be_had(work: Work) -> None:
    shared(work)
    work.call(work.b, "s.py", edited(work.read("s.py"), 3, b"B as well"))
    work.settled()
    before = snapshot(work.root)
    made = len(checkpoints(work.daemon, work.root))
    done = work.client("revert", f"session:{work.a.session}", "--yes", "--json")
    assert done.returncode == 6 and json.loads(done.stderr)["error"]["code"] == "conflict"
    (conflict,) = json.loads(done.stdout)["conflicts"]
    assert (snapshot(work.root), len(checkpoints(work.daemon, work.root))) == (before, made), "nothing was written"
    assert conflict["path"] == "s.py"

    def version(name: str) -> bytes:
        row, _, path = name.rpartition(":")
        assert path == "s.py"
        shown = work.daemon.call("checkpoint.diff", project=work.root, **{"from": row, "to": "latest"}, paths=["s.py"])
        assert shown["from_checkpoint_id"] == row
        work.daemon.call("checkpoint.restore", project=work.root, id=row, paths=["s.py"], confirmed=True)
        found = work.read("s.py")
        work.daemon.call("operation.undo", project=work.root, confirmed=True)
        return found

    assert version(conflict["ours"]).splitlines()[2] == b"B as well"
    assert version(conflict["theirs"]) == b"".join(LINES)
    assert version(conflict["base"]) == edited(b"".join(LINES), 3, b"A")
    assert snapshot(work.root) == before


def test_partial_does_the_rest_and_markers_come_on_request(work: Work) -> None:
    shared(work)
    work.call(work.b, "s.py", edited(work.read("s.py"), 3, b"B as well"))
    before = snapshot(work.root)
    done = work.client("revert", f"session:{work.a.session}", "--yes", "--partial")
    assert done.returncode == 3 and "conflict s.py: the same lines" in done.stdout
    assert not (work.root / "new/a").exists() and snapshot(work.root)[b"s.py"] == before[b"s.py"]
    work.daemon.call("operation.undo", project=work.root, confirmed=True)
    assert snapshot(work.root) == before
    done = work.client("revert", f"session:{work.a.session}", "--yes", "--write-conflicts", "--json")
    assert done.returncode == 3 and json.loads(done.stdout)["conflicts"][0]["marked"] is True
    marked = work.read("s.py").splitlines()
    assert marked[2:9] == [
        b"<<<<<<< now", b"B as well", b"||||||| after session:" + work.a.session[:8].encode(), b"A", b"=======",
        b"line 3", b">>>>>>> before session:" + work.a.session[:8].encode(),
    ]  # fmt: skip
    assert marked[20] == b"B" and marked[32] == b"person"
    work.daemon.call("operation.undo", project=work.root, confirmed=True)
    assert snapshot(work.root) == before


def test_M3_a_call_that_wrote_over_a_file_gives_it_back(work: Work) -> None:
    work.a.prompt("write")
    tool = work.call(work.a, "s.py", b"all new\n", "Write")
    work.revert(f"tool:{tool}")
    assert work.read("s.py") == b"".join(LINES)


def test_M4_a_turn_without_changes_writes_nothing(work: Work) -> None:
    work.a.prompt("think")
    work.a.end_turn()
    work.settled()
    before, made = snapshot(work.root), checkpoints(work.daemon, work.root)
    done = work.client("revert", "prompt:1", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["operation_id"], result["conflicts"]) == (None, [])
    assert not any(result["plan"][part] for part in ("write", "delete", "chmod", "mkdir", "rmdir", "skipped"))
    assert (snapshot(work.root), checkpoints(work.daemon, work.root)) == (before, made)


def test_a_prompt_is_taken_out_and_the_later_ones_of_the_session_stay(work: Work) -> None:
    work.a.prompt("one")
    work.call(work.a, "s.py", edited(work.read("s.py"), 3, b"one"))
    work.call(work.a, "f", b"one\n", "Write")
    work.a.prompt("two")
    work.call(work.a, "s.py", edited(work.read("s.py"), 20, b"two"))
    work.revert("prompt:1")
    assert work.read("s.py") == edited(b"".join(LINES), 20, b"two") and not (work.root / "f").exists()
    work.revert("prompt:-1")
    assert work.read("s.py") == b"".join(LINES)


def test_a_checkpoint_is_what_it_changed(work: Work) -> None:
    work.a.prompt("one")
    work.call(work.a, "s.py", edited(work.read("s.py"), 3, b"one"))
    work.call(work.a, "s.py", edited(work.read("s.py"), 20, b"two"))
    work.settled()
    first = checkpoints(work.daemon, work.root, "tool_use")[0]
    work.revert(str(first["ordinal"]))
    assert work.read("s.py") == edited(b"".join(LINES), 20, b"two")
    with pytest.raises(RpcError) as caught:
        work.revert("1")
    assert caught.value.code == "usage"


@pytest.mark.parametrize(
    ("target", "code"),
    [("tool:toolu_nobody", "not_found"), ("session:nobody", "not_found"), ("prompt:9", "not_found"),
     ("zzzz", "not_found"), ("tool:../../x", "not_found"), ("session:", "not_found")],
)  # fmt: skip
def test_R19_targets_are_judged_by_their_grammar(work: Work, target: str, code: str) -> None:
    work.a.prompt("one")
    work.settled()
    with pytest.raises(RpcError) as caught:
        work.revert(target)
    assert caught.value.code == code


def test_a_shell_that_moved_deleted_and_made_is_taken_out(work: Work) -> None:
    put(work.root, b"dir/gone", b"gone\n", 0o600)
    (work.root / "link").symlink_to("s.py")
    before = snapshot(work.root)
    work.a.prompt("tidy up")

    def run() -> None:
        (work.root / "s.py").rename(work.root / "moved.py")
        (work.root / "dir/gone").unlink()
        (work.root / "dir").rmdir()
        (work.root / "link").unlink()
        (work.root / "link").symlink_to("moved.py")
        (work.root / "made").mkdir()
        put(work.root, b"made/deep", b"\0binary")

    tool = work.shell(work.a, run)
    work.person("moved.py", work.read("moved.py") + b"a person's\n")
    work.revert(f"tool:{tool}")
    assert work.read("s.py") == b"".join(LINES) + b"a person's\n"
    found = snapshot(work.root)
    del found[b"s.py"], before[b"s.py"]
    assert found == before


def test_M5_what_is_not_sure_is_left_alone_but_for_force(work: Work) -> None:
    work.a.prompt("run")
    work.b.prompt("run")
    time.sleep(APART)
    other = work.b.call("toolu_other", "Bash", input={"command": "x"})
    work.b.write(other)
    tool = work.shell(work.a, lambda: put(work.root, b"s.py", b"somebody's\n"))
    work.b.write(work.b.result("toolu_other", told={"stdout": ""}))
    work.settled()
    assert rows(work.daemon, b"s.py")[-1][6] == "one of 2"
    owner = rows(work.daemon, b"s.py")[-1][5]
    done = work.revert(f"tool:{owner}")
    assert (done["operation_id"], done["plan"]["kept"]) == (None, ["s.py"])
    assert done["plan"]["reasons"]["s.py"] == "one of 2 may have changed it; --force takes that out, too"
    assert work.read("s.py") == b"somebody's\n" and tool
    work.revert(f"tool:{owner}", force=True)
    assert work.read("s.py") == b"".join(LINES)


def test_a_revert_belongs_to_no_call_that_is_open_meanwhile(work: Work) -> None:
    shared(work)
    time.sleep(APART)
    work.b.write(work.b.call("toolu_open", "Bash", input={"command": "sleep 9"}))
    time.sleep(APART)
    work.revert(f"session:{work.a.session}")
    time.sleep(APART)
    (work.root / "new/c").write_bytes(b"by the command\n")
    time.sleep(APART)
    work.b.write(work.b.result("toolu_open", told={"stdout": ""}))
    work.settled()
    assert rows(work.daemon, b"new/c")[-1][5] == "toolu_open"
    assert rows(work.daemon, b"s.py")[-1][5:] == rows(work.daemon, b"new/a")[-1][5:] == ("", "")


def test_R8_a_revert_that_was_killed_is_finished_from_the_store(
    daemon_factory: Callable[..., DaemonFixture],
) -> None:
    daemon = started(daemon_factory)
    root = daemon.projects / "project"
    put(root, b"s.py", b"".join(LINES))
    daemon.add(root)
    work = Work(daemon, root)
    shared(work)
    work.settled()
    daemon.arm("restore.staged=kill")
    daemon.restart()
    with pytest.raises((EOFError, OSError)):
        work.daemon.call("operation.revert", project=root, target=f"session:{work.a.session}", confirmed=True)
    daemon.arm("")
    daemon.until(lambda: not daemon.running)
    daemon.start()
    assert work.read("s.py") == edited(edited(b"".join(LINES), 15, b"B"), 27, b"person")
    assert not (root / "new/a").exists()
    daemon.call("operation.undo", project=root, confirmed=True)
    assert work.read("s.py").splitlines()[2] == b"A" and (root / "new/a").exists()


def test_R10_who_writes_while_a_revert_is_worked_out_loses_nothing(
    daemon_factory: Callable[..., DaemonFixture],
) -> None:
    daemon = daemon_factory(start=False)
    (daemon.claude_dir / "projects").mkdir(mode=0o700)
    daemon.arm("revert.prepared=wait")
    daemon.start()
    root = daemon.projects / "project"
    put(root, b"s.py", b"".join(LINES))
    daemon.add(root)
    work = Work(daemon, root)
    work.a.prompt("one")
    work.call(work.a, "s.py", edited(work.read("s.py"), 3, b"A"))
    with ThreadPoolExecutor(1) as pool:
        reverting = pool.submit(work.revert, "prompt:1")
        daemon.until(daemon.faults_hit)
        replace(root / "s.py", edited(work.read("s.py"), 20, b"a person's, just now"))
        (daemon.directory / "gate").touch()
        done = reverting.result()
    assert done["plan"]["write"] == ["s.py"] and done["warnings"] == []
    assert work.read("s.py") == edited(b"".join(LINES), 20, b"a person's, just now")


# restore that keeps what others did


def test_S10_restore_keeps_others_on_request_and_says_whose_changes_go(work: Work) -> None:
    work.settled()
    start = work.daemon.call("checkpoint.create", project=work.root)["checkpoint"]
    shared(work)
    work.person("mine", b"a person's\nown\n")
    work.settled()
    before = snapshot(work.root)
    planned = work.daemon.call(
        "checkpoint.restore", project=work.root, id=start["id"], session=work.a.session, dry_run=True
    )["plan"]
    groups = {group["by"]: group for group in planned["groups"]}
    assert groups["this_session"]["delete"] == ["new/a"] and groups["this_session"]["session_id"] == work.a.session
    assert (
        groups["another_session"]["delete"] == ["new/b"] and groups["another_session"]["session_id"] == work.b.session
    )
    assert sorted(groups["nobody"]["delete"]) == ["mine"] and groups["nobody"]["write"] == ["s.py"]
    lost = {file["path"]: (file["bytes"], file["lines"]) for file in groups["nobody"]["files"]}
    assert lost == {"mine": (15, 2), "s.py": (len(work.read("s.py")), 3)}
    assert snapshot(work.root) == before
    shown = work.client("restore", start["id"], "--session", work.a.session, "--dry-run").stdout
    assert "this session" in shown and "another session" in shown and "no agent's call" in shown

    done = work.daemon.call(
        "checkpoint.restore", project=work.root, id=start["id"], session=work.a.session, confirmed=True,
        keep_others=True,
    )  # fmt: skip
    assert work.read("s.py") == edited(edited(b"".join(LINES), 15, b"B"), 27, b"person")
    assert sorted(path.name for path in work.root.iterdir()) == ["mine", "new", "s.py"]
    assert (work.root / "new/b").exists() and not (work.root / "new/a").exists()
    assert done["pre_restore_checkpoint_id"] and done["plan"]["skipped"] == []
    after = checkpoints(work.daemon, work.root)[-1]
    assert (after["trigger"], after["parent_checkpoint_id"]) == ("post_restore", start["id"])
    work.daemon.call("operation.undo", project=work.root, confirmed=True)
    assert snapshot(work.root) == before


def test_S10_what_others_changed_in_the_same_lines_is_left_and_named(work: Work) -> None:
    work.settled()
    start = work.daemon.call("checkpoint.create", project=work.root)["checkpoint"]
    shared(work)
    work.person("s.py", edited(work.read("s.py"), 3, b"mine"))
    work.settled()
    before = snapshot(work.root)
    done = work.client("restore", start["id"], "--keep-others", "--session", work.a.session, "--yes")
    assert done.returncode == 3 and "skipped s.py: the same lines" in done.stdout
    assert snapshot(work.root)[b"s.py"] == before[b"s.py"] and not (work.root / "new/a").exists()


def test_S10_only_the_paths_named_are_taken_back(work: Work) -> None:
    work.settled()
    start = work.daemon.call("checkpoint.create", project=work.root)["checkpoint"]
    shared(work)
    work.settled()
    before = snapshot(work.root)
    done = work.client("restore", start["id"], "new", "--keep-others", "--session", work.a.session, "--yes")
    assert done.returncode == 0, done.stderr
    after = snapshot(work.root)
    assert before.keys() - after.keys() == {b"new/a"} and after[b"s.py"] == before[b"s.py"]
    assert b"new/a" not in {p for p, item in files_of(work.daemon, work.root, "latest").items() if item["hash"]}
