"""T9: no value of a session's task state ever reaches another one, whoever works beside whom, over restarts."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mulligan.config import Config
from mulligan.store.state import StateDatabase
from mulligan.taskstate.store import TaskStates
from support.daemon import Connection, DaemonFixture, in_parallel
from support.task_states import SessionModel


def lives(daemon: DaemonFixture, models: list[tuple[SessionModel, Path]], steps: int, seed: int) -> None:
    """Every session goes its random way, all at once, each over a connection of its own."""

    def live(number: int) -> None:
        model, project = models[number]
        rng = random.Random(seed * 1000 + number)
        with Connection(str(daemon.socket)) as connection:

            def carry(method: str, **params: Any) -> dict[str, Any]:
                answer = connection.call(f"state.{method}", project=str(project), session=model.session, **params)
                others = {each.mark for each, _ in models} - {model.mark}
                assert not any(f'"{mark}:' in json.dumps(answer) for mark in others), answer
                return answer

            for _ in range(steps):
                model.step(rng, carry)
            model.load(rng, carry)
            model.list(rng, carry)

    in_parallel(len(models), live)


@pytest.mark.parametrize(("sessions", "steps"), [(2, 60), (5, 40), (25, 16)])
def test_T9_sessions_beside_each_other(daemon: DaemonFixture, sessions: int, steps: int) -> None:
    projects = [daemon.projects / f"p{number}" for number in range(min(3, sessions))]
    for project in projects:
        project.mkdir()
        daemon.add(project)
    models = [
        (SessionModel(str(uuid.uuid4()), f"m{number}"), projects[number % len(projects)]) for number in range(sessions)
    ]
    lives(daemon, models, steps, seed=1)
    daemon.restart()
    lives(daemon, models, steps // 4, seed=2)
    daemon.restart(kill=True)
    lives(daemon, models, steps // 4, seed=3)


def test_T9_a_child_inherits_nothing_and_gives_nothing(daemon: DaemonFixture, project: Path) -> None:
    daemon.add(project)
    parent, child = (f"ses_{name:0<24}" for name in ("parent", "child"))
    save = {"project": project, "state": {"title": "the parent's"}, "snapshot": "s"}
    daemon.call("state.save", session=parent, **save)
    assert not daemon.call("state.load", project=project, session=child)["exists"]
    daemon.call("state.save", project=project, session=child, state={"goal": "the child's"})
    assert daemon.call("state.load", session=child)["state"] == {"goal": "the child's"}
    assert daemon.call("state.list", session=child)["snapshots"] == []
    daemon.call("state.clear", session=child, confirmed=True)
    assert daemon.call("state.load", session=parent)["state"] == {"title": "the parent's"}
    assert len(daemon.call("state.list", session=parent)["snapshots"]) == 1


WRITE = """
import sys
from mulligan.clock import Clock
from mulligan.config import Config
from mulligan.store.state import StateDatabase
from mulligan.taskstate.store import TaskStates
path, session, name, count = sys.argv[1:]
print("ready", flush=True)
input()
database = StateDatabase(path)
states = TaskStates(database, Config, Clock().now)
for number in range(int(count)):
    states.save("shared", b"/p", {"steps": [{"id": name, "text": str(number)}], "free": {name: number}})
    states.save(session, b"/p", {"title": f"{name} {number}"}, snapshot=f"{name}-{number}")
    found = states.load(session)
    assert found is not None and found.value == {"title": f"{name} {number}"}, found
    assert all(each.name.startswith(name + "-") for each in states.snapshots(session))
database.close()
print("done", flush=True)
"""


def test_T9_T11_writers_of_separate_processes_open_a_new_database_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    names = [f"w{number}" for number in range(10)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, str(path), f"session-{name}", name, "6"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate(timeout=60)[0] for process in processes] == ["done\n"] * 10
    database = StateDatabase(str(path))
    states = TaskStates(database, Config, lambda: 0)
    shared = states.load("shared")
    assert shared is not None and shared.value["free"] == dict.fromkeys(names, 5)
    assert {step["id"]: step["text"] for step in shared.value["steps"]} == dict.fromkeys(names, "5")
    for name in names:
        own = states.load(f"session-{name}")
        assert own is not None and own.value == {"title": f"{name} 5"}
    database.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        assert connection.execute("pragma foreign_key_check").fetchall() == []
        (projects,) = connection.execute("select count(*) from project").fetchone()
        assert projects == 1
