"""The client is light: what it may not load on the way to an answer, it does not load."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

HEAVY = ("asyncio", "yaml", "watchdog", "apscheduler", "zstandard", "platformdirs", "msgspec", "dulwich", "sqlite3")
INNER = ("mulligan.config", "mulligan.model", "mulligan.store", "mulligan.supervisor", "mulligan.control.server")
#: Cheap one by one; together they would double the time to an answer.
SLOW = ("pathlib", "subprocess", "tempfile", "shutil", "logging", "difflib", "email", "importlib.metadata")

SCRIPT = """
import sys
from mulligan.client.main import main
before = main(sys.argv[1:])
sys.stderr.write("\\n".join(sys.modules) + "\\n")
sys.exit(before)
"""


@pytest.mark.parametrize(
    "words", [["status", "--json"], ["status"], ["list"], ["diff"], ["checkpoint"], ["undo", "-y"]]
)
def test_nothing_heavy_is_loaded_on_the_way_to_an_answer(words: list[str], daemon: Any) -> None:
    checkpoint = {"id": "c", "ordinal": 1, "timestamp": "2026-01-01T00:00:00.000Z", "metadata": {}}
    daemon.answers = {
        "daemon.status": {"daemon": {}},
        "checkpoint.list": {"checkpoints": [checkpoint]},
        "checkpoint.diff": {},
        "checkpoint.create": {"checkpoint": checkpoint},
        "operation.undo": {"plan": {}},
    }
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print('\\n'.join(sys.modules))"], capture_output=True, text=True, check=True
    )
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split()) - set(bare.stdout.split())
    assert "mulligan.client.connection" in loaded
    assert [name for name in (*HEAVY, *INNER, *SLOW) if name in loaded] == []
    others = [name for name in loaded if name.startswith("mulligan.client.commands.")]
    assert len(others) == 1
