"""`mulligan store rebuild`, against a small daemon on a real socket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.client.main import main

WHOLE = {
    "batch": 1412, "snapshot": 1400, "batches_replayed": 12, "contents": 3210, "missing_contents": 0, "paths": [],
    "lost": [], "store": "",
}  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(words)
    found = capsys.readouterr()
    return status, found.out, found.err


def test_it_says_what_the_catalogue_was_made_from(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.answers["store.rebuild"] = WHOLE
    shown = "rebuilt from the snapshot behind batch 1,400 and 12 batches: 3,210 contents\n"
    assert run(capsys, "store", "rebuild") == (0, shown, "")
    daemon.answers["store.rebuild"] = {**WHOLE, "snapshot": None, "batches_replayed": 1, "contents": 1}
    assert run(capsys, "store", "rebuild")[1] == "rebuilt from the first batch and 1 batch: 1 content\n"
    status, out, _ = run(capsys, "store", "rebuild", "--json")
    assert (status, json.loads(out)["batch"]) == (0, 1412)


def test_what_could_not_be_recovered_is_named_and_is_exit_9(daemon: Any, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [{"path": f"f{number}\x1b"} for number in range(25)]
    daemon.answers["store.rebuild"] = {
        **WHOLE, "missing_contents": 25, "paths": paths, "lost": ["segment 5 is damaged"], "exit_status": 9,
    }  # fmt: skip
    status, out, _ = run(capsys, "store", "rebuild")
    lines = out.splitlines()
    assert status == 9
    assert lines[1:4] == ["  segment 5 is damaged", "  25 contents without a record in any segment", "    f0\\x1b"]
    assert lines[-1] == "    and 5 more; mulligan verify names all" and len(lines) == 24
