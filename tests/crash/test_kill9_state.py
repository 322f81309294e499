"""kill −9 while task states are saved: the old or the new state, never half of one; nothing acknowledged is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from mulligan.config import Config
from mulligan.store.state import StateDatabase
from mulligan.taskstate.store import TaskStates
from support.daemon import DaemonFixture

pytestmark = pytest.mark.disk


def whole(number: int) -> dict[str, Any]:
    """A state of which every part says which one it is."""
    return {
        "title": str(number),
        "steps": [{"id": each, "text": str(number)} for each in range(30)],
        "notes": f"{number} " * 2000,
    }


def assert_whole(daemon: DaemonFixture, session: str, allowed: set[int]) -> int:
    """What is loaded is one of the allowed states, all of it; which one."""
    state = daemon.call("state.load", session=session)["state"]
    number = int(state["title"])
    assert number in allowed and state == whole(number)
    for each in daemon.call("state.list", session=session)["snapshots"]:
        kept = daemon.call("state.load_snapshot", session=session, name=each["name"])["state"]
        assert kept == whole(int(kept["title"])) and each["name"] == f"s{kept['title']}"
    return number


@pytest.mark.parametrize("point", ["state.commit", "state.committed"])
def test_T12_a_kill_at_a_commit_leaves_the_old_or_the_new_state(
    daemon: DaemonFixture, project: Path, point: str
) -> None:
    daemon.add(project)
    session = str(uuid.uuid4())
    daemon.call("state.save", project=project, session=session, state=whole(0))
    acknowledged = 0
    for count in (2, 5, 9):
        daemon.kill9()
        daemon.arm(f"{point}=kill@{count}")
        hits = len(daemon.faults_hit())
        daemon.start()
        try:
            for number in range(acknowledged + 1, acknowledged + 12):
                daemon.call("state.save", session=session, state=whole(number), snapshot=f"s{number}")
                acknowledged = number
        except (EOFError, OSError):
            pass
        assert daemon.process is not None and daemon.process.wait(20) == -signal.SIGKILL
        assert daemon.faults_hit()[hits:] == [point]
        daemon.arm("")
        daemon.start()
        found = assert_whole(daemon, session, {acknowledged, acknowledged + 1})
        assert (found == acknowledged) == (point == "state.commit"), "what was not committed is not there"
        acknowledged = found


SAVE = """
import sys
from mulligan.clock import Clock
from mulligan.config import Config
from mulligan.store.state import StateDatabase
from mulligan.taskstate.store import TaskStates
states = TaskStates(StateDatabase(sys.argv[1]), Config, Clock().now)
number = 0
while True:
    number += 1
    body = {"title": str(number), "notes": f"{number} " * 5000, "steps": [{"id": 1, "text": str(number)}]}
    states.save("a", b"/p", body, snapshot=f"s{number}")
    print(number, flush=True)
"""


def test_T12_a_kill_at_any_time(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    for attempt in range(12):
        with subprocess.Popen([sys.executable, "-c", SAVE, path], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(2 + attempt % 3):
                process.stdout.readline()
            time.sleep(0.0007 * attempt)
            process.kill()
            said = process.stdout.read().split()
        last = int(said[-1]) if said else 2 + attempt % 3
        database = StateDatabase(path)
        states = TaskStates(database, Config, lambda: 0)
        found = states.load("a")
        assert found is not None
        number = int(found.value["title"])
        assert number in (last, last + 1), (number, last)
        assert found.value == {
            "title": str(number),
            "notes": f"{number} " * 5000,
            "steps": [{"id": 1, "text": str(number)}],
        }
        assert states.snapshot("a", f"s{number}").value == found.value, "both tables or none"
        states.clear("a")
        database.close()


def test_a_kill_during_a_backup_leaves_no_file_of_its_name(daemon: DaemonFixture, tmp_path: Path) -> None:
    daemon.kill9()
    daemon.arm("state.backup=kill")
    daemon.start()
    copy = tmp_path / "copy.db"
    with pytest.raises((EOFError, OSError)):
        daemon.call("state.backup", path=copy)
    assert daemon.process is not None and daemon.process.wait(20) == -signal.SIGKILL
    assert not copy.exists()
    daemon.arm("")
    daemon.start()
    assert daemon.call("state.backup", path=copy)["bytes"] == copy.stat().st_size
