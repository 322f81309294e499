"""Command lines from words to exit status, against a small daemon on a real socket."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mulligan.client.arguments import Parser
from mulligan.client.main import commands_of, main
from mulligan.client.overview import names, text

PLAN = {
    "checkpoint": {"id": "c11", "ordinal": 11, "trigger": "manual", "description": "before"},
    "plan": {"write": ["a"], "delete": [], "skipped": []},
    "warnings": [],
}
CHECKPOINT = {"id": "cabcd", "ordinal": 3, "trigger": "manual", "complete": True, "metadata": {}}
NO_DIFF: dict[str, Any] = {"modified_files": [], "added_files": [], "deleted_files": []}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(words)
    found = capsys.readouterr()
    return status, found.out, found.err


def restoring(daemon: Any, **more: Any) -> None:
    daemon.answers["checkpoint.restore"] = {**PLAN, **more}


# --- the command line


def test_help_lists_every_command_once_and_fits_in_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--help")
    assert (status, out) == (0, text())
    assert all(out.count(f"\n  {name} ") == 1 for name in names())
    assert all(len(line) <= 80 for line in out.splitlines())


def fits(out: str) -> bool:
    """Whether nothing is wider than a terminal, but for examples, which are to be pasted."""
    before, _, behind = out.partition("\nexamples:\n")
    return all(len(line) <= 80 for line in (before + behind.partition("\n\n")[2]).splitlines())


@pytest.mark.parametrize("name", [name for name in names() if "" not in commands_of(name)])
def test_a_group_of_commands_lists_them_within_eighty_columns(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, name, "--help")
    assert status == 0 and fits(out)
    told = " ".join(out.split())
    assert all(f" {action} {command.summary}" in told for action, command in commands_of(name).items())


@pytest.mark.parametrize("name", names())
def test_every_command_has_a_sentence_and_two_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for action, command in commands_of(name).items():
        assert command.summary.endswith(".") and len(command.examples) == 2
        status, out, _ = run(capsys, *f"{name} {action}".split(), "--help")
        assert status == 0
        assert " ".join(out.partition("\n\n")[0].split()) == command.summary
        assert "examples:" in out and "--json" in out and fits(out)
        assert all("mulligan " in example for example in command.examples)


def test_words_that_are_too_many_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    expected = (2, "", "mulligan: unrecognized arguments: much too\n  mulligan statusline --help\n")
    assert run(capsys, "statusline", "much", "too") == expected


def test_an_unknown_command_is_a_usage_error_that_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "statsu")
    assert (status, out) == (2, "")
    assert err.startswith('mulligan: no command "statsu"\n  nearest: status')


@pytest.mark.parametrize(
    "words",
    [
        ["fork"],
        ["fork", "1", "--into", "x", "--in-place"],
        ["delete"],
        ["cleanup", "--keep", "few"],
        ["project", "adopt"],
        ["list", "--limit", "x"],
        ["list", "--limit", "0"],
        ["list", "--nope"],
        ["show"],
        ["show", "1", "2"],
        ["diff", "--stat", "--name-status"],
        ["--color", "sometimes", "status"],
        ["--socket"],
        [],
        ["project"],
    ],
)
def test_words_that_do_not_fit_are_exit_2(words: list[str], daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *words)
    assert (status, out, daemon.asked) == (2, "", [])
    assert err and "Traceback" not in err


@pytest.mark.parametrize("words", [["--json", "status"], ["status", "--json"], ["-q", "status", "--json", "-v"]])
def test_global_options_stand_before_and_behind_the_command(
    words: list[str], daemon: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["daemon.status"] = {"version": 9, "daemon": {}}
    assert run(capsys, *words)[:2] == (0, '{"version":1,"daemon":{}}\n')


def test_options_and_words_come_in_any_order() -> None:
    parser = Parser("mulligan restore", commands_of("restore")[""])
    for words in (["7", "--yes", "a", "b"], ["--yes", "7", "a", "b"], ["7", "a", "--yes", "--", "b"]):
        args = parser.read(words)
        assert (args.id, args.paths, args.yes) == ("7", ["a", "b"], True)


def test_behind_two_dashes_everything_is_a_word() -> None:
    args = Parser("mulligan restore", commands_of("restore")[""]).read(["7", "--", "-odd", "--yes"])
    assert (args.id, args.paths, args.yes) == ("7", ["-odd", "--yes"], False)


# --- what is asked


def test_diff_tells_checkpoints_from_paths(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["checkpoint.diff"] = NO_DIFF
    here = os.getcwd()
    for words in (
        ["diff"],
        ["diff", "3"],
        ["diff", "3", "4", "-w", "p"],
        ["diff", "3", "--", "p"],
        ["diff", "--", "p"],
    ):
        assert run(capsys, *words)[0] == 0
    path = {"paths": [os.path.join(here, "p")]}
    assert [params for _, params in daemon.asked] == [
        {"project": here},
        {"project": here, "from": "3"},
        {"project": here, "from": "3", "to": "4", "ignore_whitespace": True, **path},
        {"project": here, "from": "3", **path},
        {"project": here, **path},
    ]


def test_paths_that_are_not_utf8_are_sent_as_bytes(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    restoring(daemon)
    assert run(capsys, "restore", "3", "/p/\udcff", "/p/a", "--yes")[0] == 0
    assert daemon.asked[0][1]["paths_b64"] == ["L3Av/w==", "L3AvYQ=="]


def test_a_fork_is_sent_with_its_place_and_asks_nothing(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    resume = {"session_id": "s", "command": "claude --resume s", "directory": "/p/it's\x1b"}
    daemon.answers["checkpoint.fork"] = {"checkpoint": CHECKPOINT, "directory": "/p/x", "resume": resume}
    status, out, _ = run(capsys, "fork", "3", "--into", "x", "-m", "another way", "--project", "/p")
    into = os.path.join(os.getcwd(), "x")
    params = {"id": "3", "into": into, "name": "another way", "project": "/p", "confirmed": True}
    assert (status, daemon.asked) == (0, [("checkpoint.fork", params)])
    assert out.splitlines()[-1] == "  cd '/p/it'\\''s\\x1b' && claude --resume s"


def test_a_session_implies_its_scope(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["settings.set"] = {"key": "turn_end", "value": False, "scope": "session"}
    status, out, _ = run(capsys, "settings", "set", "turn_end", "false", "--session", "s1", "--project", "/p")
    assert (status, out) == (0, "turn_end = false (session)\n")
    params = {"project": "/p", "session": "s1", "scope": "session", "key": "turn_end", "value": False}
    assert daemon.asked == [("settings.set", params)]


def test_json_lists_have_no_limit_of_their_own(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["checkpoint.list"] = {"checkpoints": []}
    run(capsys, "list", "--json")
    run(capsys, "list", "--limit", "5")
    assert [params.get("limit") for _, params in daemon.asked] == [None, 5]


# --- how it ends

ENDINGS = [
    ("usage", 2),
    ("partial", 3),
    ("refused", 4),
    ("not_found", 5),
    ("conflict", 6),
    ("busy", 8),
    ("integrity", 9),
]


@pytest.mark.parametrize(("code", "expected"), ENDINGS)
def test_an_error_is_its_exit_status_and_two_lines(
    code: str, expected: int, daemon: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.fails("checkpoint.show", code, expected, "bad \x1b[31m id")
    assert run(capsys, "show", "zz") == (expected, "", "mulligan: bad \\x1b[31m id\n  step\n")


def test_errors_are_json_when_json_is_asked_for(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.fails("checkpoint.show", "not_found", 5, "none", nearest=["1"])
    status, out, err = run(capsys, "show", "zz", "--json")
    error = {"code": "not_found", "message": "none", "hint": "step", "data": {"nearest": ["1"]}}
    assert (status, out, json.loads(err)) == (5, "", {"version": 1, "error": error})


def test_no_daemon_is_exit_7(daemon: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, err = run(capsys, "--socket", str(tmp_path / "none"), "status")
    assert (status, out) == (7, "") and err.endswith("  run: mulligan start\n")


def test_an_incomplete_checkpoint_is_exit_3_and_names_the_path(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bad = {**CHECKPOINT, "complete": False, "incomplete_paths": [{"path": "x\n", "reason": "unreadable"}]}
    daemon.answers["checkpoint.create"] = {"checkpoint": bad, "warnings": []}
    status, out, _ = run(capsys, "checkpoint", "-m", "t")
    assert status == 3 and "incomplete: x\\n: unreadable" in out


def test_the_exit_status_of_a_result_is_used_and_stays_in_it(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["store.verify"] = {"exit_status": 9, "damaged": [{"hash": "ab", "reason": "gone"}]}
    status, out, _ = run(capsys, "verify", "--json")
    assert status == 9 and json.loads(out)["exit_status"] == 9


def test_exit_code_is_1_only_if_something_differs(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["checkpoint.diff"] = NO_DIFF
    assert run(capsys, "diff", "--exit-code") == (0, "", "")
    daemon.answers["checkpoint.diff"] = {**NO_DIFF, "added_files": [{"path": "a", "diff_content": "+a\n"}]}
    assert run(capsys, "diff", "--exit-code") == (1, "+a\n", "")
    assert run(capsys, "diff")[0] == 0


def test_a_bug_is_one_line_and_never_a_traceback(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["checkpoint.list"] = {"checkpoints": 5}
    status, _, err = run(capsys, "list")
    assert status == 1 and "Traceback" not in err and err.count("\n") == 2
    assert "Traceback" in run(capsys, "list", "-v")[2]


# --- asking


def test_without_a_terminal_the_plan_is_printed_and_nothing_done(
    daemon: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    restoring(daemon)
    status, out, err = run(capsys, "restore", "11")
    assert status == 4 and "Back to 11" in out and "write" in out
    assert err == "mulligan: not done: there is no terminal to ask on\n  mulligan restore 11 --yes\n"
    assert [params.get("confirmed") for _, params in daemon.asked] == [None]
    assert daemon.asked[0][1]["dry_run"] is True


def test_a_dry_run_prints_the_plan_and_is_well(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    restoring(daemon)
    status, out, err = run(capsys, "restore", "11", "--dry-run", "--yes", "--json")
    assert (status, json.loads(out)["plan"], err) == (0, PLAN["plan"], "")
    assert len(daemon.asked) == 1 and "confirmed" not in daemon.asked[0][1]


def test_with_yes_it_is_done_at_once(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    restoring(daemon)
    status, out, _ = run(capsys, "restore", "11", "--yes", "--force")
    assert status == 0 and out.startswith("restored 11: 1 written, read back and equal")
    assert daemon.asked[0][1]["confirmed"] is True and daemon.asked[0][1]["force"] is True


def test_what_was_skipped_is_named_and_exit_3(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    restoring(daemon, plan={"write": ["a"], "skipped": [{"path": "b", "reason": "changed"}]})
    status, out, _ = run(capsys, "restore", "11", "-y")
    assert status == 3 and "  skipped b: changed\n" in out and "equal" not in out


def test_nothing_to_undo_is_exit_5(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.fails("operation.undo", "not_found", 5, "nothing to undo")
    assert run(capsys, "undo") == (5, "", "mulligan: nothing to undo\n  step\n")


def on_terminal(words: list[str], answer: bytes) -> tuple[int, str]:
    """A client of its own on a terminal of its own: its exit status and everything it showed."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "mulligan.client.main", *words]
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, close_fds=True) as client:
        os.close(follower)
        seen = b""
        try:
            while b"[y/N]" not in seen:
                seen += os.read(leader, 65536)
            os.write(leader, answer)
            while data := os.read(leader, 65536):
                seen += data
        except OSError:  # the terminal's other end was closed
            pass
    os.close(leader)
    return client.returncode, seen.decode()


@pytest.mark.parametrize(
    ("answer", "expected", "calls"), [(b"y\n", 0, 2), (b"n\n", 4, 1), (b"\n", 4, 1), (b"\x04", 4, 1)]
)
def test_on_a_terminal_it_asks(answer: bytes, expected: int, calls: int, daemon: Any) -> None:
    restoring(daemon)
    status, seen = on_terminal(["restore", "11"], answer)
    assert (status, len(daemon.asked)) == (expected, calls)
    assert "Back to 11" in seen and "Go on?" in seen
    assert ("restored 11" in seen) == (expected == 0)


def test_an_interrupt_at_the_question_is_130(daemon: Any) -> None:
    restoring(daemon)
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "mulligan.client.main", "restore", "11"]
    # Who runs the tests in the background of a shell ignores the signal, and the client would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    client = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower)
    signal.signal(signal.SIGINT, before)
    with client:
        os.close(follower)
        seen = b""
        while b"[y/N]" not in seen:
            seen += os.read(leader, 65536)
        client.send_signal(signal.SIGINT)
    os.close(leader)
    assert client.returncode == 130


def test_a_reader_that_went_away_ends_it_quietly(daemon: Any) -> None:
    made = [{**CHECKPOINT, "ordinal": number, "description": "x" * 60} for number in range(20_000)]
    daemon.answers["checkpoint.list"] = {"checkpoints": made}
    command = [sys.executable, "-m", "mulligan.client.main", "list"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        assert client.stdout is not None and client.stderr is not None
        client.stdout.read(10)
        client.stdout.close()
        said = client.stderr.read()
    assert (client.returncode, said) == (0, b"")


def test_watch_prints_one_line_an_event_and_says_when_the_daemon_goes(
    daemon: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.answers["events.subscribe"] = {"cursor": 0}
    event = {"cursor": 4, "topic": "capture", "time": "2026-01-01T00:00:00.000Z", "paths": 2, "project": "/p\n"}
    daemon.after = [{"method": "event", "params": event}]
    status, out, err = run(capsys, "watch", "--topic", "capture")
    assert (status, err) == (7, "mulligan: the daemon has gone\n  run: mulligan start\n")
    assert out.count("\n") == 1 and out.endswith("  capture     paths 2  /p\\n\n")
    assert run(capsys, "watch", "--json")[1] == json.dumps({"version": 1, **event}, separators=(",", ":")) + "\n"
    assert daemon.asked[0] == ("events.subscribe", {"topics": ["capture"]})


def test_watch_comes_back_with_its_cursor_after_it_fell_behind(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.after = [{"method": "lost", "params": {"cursor": 7}}]

    def answer(params: dict[str, Any]) -> Any:
        if "since" in params:
            daemon.after = []
        return {"cursor": 7}

    daemon.answers["events.subscribe"] = answer
    assert run(capsys, "watch")[0] == 7
    assert [params.get("since") for _, params in daemon.asked] == [None, 7]


def test_a_patch_in_a_pipe_is_byte_for_byte(daemon: Any) -> None:
    file = {"path": "a", "diff_content": "?", "diff_content_b64": "K8OpIOkbDQo="}
    daemon.answers["checkpoint.diff"] = {**NO_DIFF, "modified_files": [file]}
    done = subprocess.run([sys.executable, "-m", "mulligan.client.main", "diff"], capture_output=True, check=True)
    assert done.stdout == b"+\xc3\xa9 \xe9\x1b\r\n"


def test_a_verification_says_what_was_looked_at_healed_and_left(
    daemon: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    looked = {"contents": 6, "total_contents": 60, "bytes": 1024, "total_bytes": 2048, "checkpoints_looked_at": 50}
    daemon.answers["store.verify"] = {**looked, "sample": 10, "checkpoints_total": 80}
    status, out, _ = run(capsys, "verify", "--sample", "10%")
    share = "verified 6 of 60 contents (10.0 %), 1.0 KiB of 2.0 KiB"
    assert (status, out) == (0, f"{share}, the log, 50 of 80 checkpoints; all as it was stored\n")
    damaged = [{"hash": "ab" * 32, "reason": "its record is damaged"} for _ in range(23)]
    more = {"healed": [{"hash": "cd" * 32, "from": "git\x1b[2J"}], "damaged": damaged, "repair": True, "exit_status": 9}
    need = {"ordinal": 4, "project_path": "/src/shop", "damaged_files": 1}
    daemon.answers["store.verify"] |= {**more, "checkpoints": [need]}
    status, out, _ = run(capsys, "verify", "--repair")
    assert status == 9 and "; 1 content healed; 23 contents damaged\n" in out
    assert "\x1b" not in out and "  … and 3 more (--json has them all)\n" in out
    assert "  checkpoint 4 of /src/shop: 1 file damaged\n" in out


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["state save -", "hook PreToolUse", "list", "nonsense"])
def test_a_closed_stream_is_an_empty_one(words: str, closed: str, daemon: Any) -> None:
    daemon.answers |= {"checkpoint.list": {"checkpoints": [CHECKPOINT]}, "state.save": {"session_id": "s"}}
    command = f"exec {shlex.quote(sys.executable)} -m mulligan.client.main {words} {closed}"
    done = subprocess.run(["sh", "-c", command], input="{}", capture_output=True, text=True, timeout=20, check=False)
    assert "Traceback" not in done.stderr and "should not have happened" not in done.stderr
    expected = {"state save -": 2 if "<&-" in closed else 0, "nonsense": 2}.get(words, 0)
    assert done.returncode == expected, done
    if words.startswith("hook"):
        assert (done.stdout, done.stderr) == ("", "")
