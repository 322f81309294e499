"""The text of a hand-off, and the places where it may lie."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.config import Config
from mulligan.errors import MulliganError, NotFoundError, RefusedError
from mulligan.taskstate.handoff import LIMIT, MARKER, Changed, Failed, Handoff, Ran, cleaned, render
from mulligan.taskstate.handoff_files import HandoffFiles
from mulligan.taskstate.secrets import Redactor

NOON = 1_800_000_000_000_000_000
TEXT = MARKER + "\n# x\n"


def made(state: dict[str, Any] | None = None, **more: Any) -> Handoff:
    return Handoff(session="s1", project="/p", made=NOON, state=state, updated_at=NOON, **more)


def test_T14_it_holds_the_state_the_commands_the_files_and_what_is_open() -> None:
    state = {
        "title": "Fix the login", "status": "blocked", "goal": "one\n# two", "next": ["a", "b"], "notes": {"k": 1},
        "steps": [{"id": "1", "text": "test", "status": "done"}, {"id": 2, "text": "fix", "status": "doing"}],
        "blockers": ["no *database*"], "extra": "free",
    }  # fmt: skip
    text = render(
        made(
            state,
            commands=[Ran(command="a\n```\nb", start=NOON, exit="3", by_subagent=True)],
            more_commands=4,
            files=[
                Changed(path="a.py", did="written", checkpoint="abcd", ordinal=7, changed_since=True),
                Changed(path="b", did="deleted"),
            ],
            failures=[Failed(tool="Bash", what="make", start=NOON, exit="2")],
        )
    )
    lines = text.splitlines()
    assert lines[:2] == [MARKER, "# Hand-off: Fix the login"]
    assert "* task state: saved 2027-01-15T08:00:00.000Z, status `blocked`" in lines
    assert "one  \n\\# two" in text and "- [x] test" in lines and "- [ ] fix (doing)" in lines
    assert "- no \\*database\\*" in lines and "## extra" in lines and "free" in lines
    assert "2027-01-15T08:00:00.000Z, exit 3, by a subagent\n````sh\na\n```\nb\n````" in text
    assert "The last 1; 4 before them are left out." in lines
    assert "- `a.py`: written, held by checkpoint 7 (abcd); changed since then by somebody else" in lines
    assert "- `b`: deleted, held by no complete checkpoint" in lines
    assert "- 2027-01-15T08:00:00.000Z Bash, exit 2: `make`" in lines


@pytest.mark.parametrize(
    ("path", "shown"),
    [("a\n# b.py", r"`a\n# b.py`"), ("two  blanks\t", r"`two  blanks\t`"), (" ", "`   `"), ("`x`", "`` `x` ``")],
)
def test_T14_names_of_files_are_exact(path: str, shown: str) -> None:
    text = render(made(files=[Changed(path=path, did="written")]))
    assert f"- {shown}: written, held by no complete checkpoint" in text.splitlines()


def test_without_a_state_and_with_a_placeholder_it_claims_nothing() -> None:
    assert "* task state: none was saved\n" in render(made())
    text = render(made({"title": "(no task state was saved)"}, synthesized=True))
    assert "a placeholder stands for it" in text and "(no task state was saved)" not in text


def test_V2_every_text_goes_through_the_redactor() -> None:
    secret = "tangerine"
    state = {"title": secret, "x": [{secret: secret}], "steps": [{"id": secret, "text": secret}]}
    handoff = made(
        state,
        commands=[Ran(command=f"echo {secret}", start=1)],
        files=[Changed(path=f"{secret}.py", did="written")],
        failures=[Failed(tool=secret, what=secret, start=1)],
    )
    assert secret in render(handoff)
    assert secret not in render(cleaned(handoff, Redactor([b"A_TOKEN=tangerine"])))


@given(
    st.recursive(
        st.text(max_size=30) | st.integers() | st.none() | st.booleans(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    )
)
def test_any_state_gives_a_text_of_one_title(value: Any) -> None:  # fmt: skip
    keys = ("title", "status", "goal", "steps", "next", "files", "notes", "free")
    text = render(made(dict.fromkeys(keys, value)))
    assert text.startswith(MARKER + "\n# Hand-off: ") and text.count("\n# ") == 1
    assert all(char in "\n" or char.isprintable() or ord(char) > 0x9F for char in text)
    text.encode()


def test_its_size_is_bounded_whatever_it_is_made_of() -> None:
    state = {f"k{n}": ["x" * 5000] * 300 for n in range(20)}
    text = render(made(state, commands=[Ran(command="y" * 20_000, start=n) for n in range(200)]))
    assert len(text) <= LIMIT and "cut here" in text[-200:]


# where it lies


@pytest.fixture
def root(tmp_path: Path) -> bytes:
    (tmp_path / "p").mkdir()
    return os.fsencode(tmp_path / "p")


def files(tmp_path: Path, directory: str | None = None) -> HandoffFiles:
    config = msgspec.structs.replace(Config(), handoff_dir=directory)
    return HandoffFiles(str(tmp_path / "data"), lambda: config)


def test_T14_by_default_it_lies_in_the_data_directory_and_is_private(tmp_path: Path, root: bytes) -> None:
    (tmp_path / "data").mkdir()
    before = os.umask(0)
    try:
        path = Path(os.fsdecode(files(tmp_path).write(root, "s1", TEXT)))
    finally:
        os.umask(before)
    assert path == tmp_path / "data/handoff/handoff-s1.md" and path.read_text() == TEXT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert files(tmp_path).write(root, "s1", TEXT + "more") == os.fsencode(path)
    assert os.listdir(path.parent) == ["handoff-s1.md"] and path.read_text() == TEXT + "more"
    assert files(tmp_path).remove(root, "s1") and not files(tmp_path).remove(root, "s1")


def test_T14_in_the_project_if_that_is_configured(tmp_path: Path, root: bytes) -> None:
    path = Path(os.fsdecode(files(tmp_path, "notes/hand").write(root, "s1", TEXT)))
    assert path == tmp_path / "p/notes/hand/handoff-s1.md" and path.read_text() == TEXT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_T14_nothing_is_written_through_a_link(tmp_path: Path, root: bytes) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "p/notes").symlink_to(outside)
    for directory in ("notes", "notes/deeper"):
        with pytest.raises(RefusedError, match="cannot hold a hand-off"):
            files(tmp_path, directory).write(root, "s1", TEXT)
    assert not any(outside.iterdir())
    (tmp_path / "p/real").mkdir()
    (outside / "f").write_text(TEXT)
    (tmp_path / "p/real/handoff-s1.md").symlink_to(outside / "f")
    with pytest.raises(RefusedError, match="is not a hand-off"):
        files(tmp_path, "real").write(root, "s1", TEXT + "new")
    assert (outside / "f").read_text() == TEXT


@pytest.mark.parametrize("directory", ["/tmp/x", "../x", "a/../../x", "a//b", ".", "a/.."])
def test_T14_what_leads_outside_is_refused(tmp_path: Path, root: bytes, directory: str) -> None:
    with pytest.raises((RefusedError, NotFoundError)):
        files(tmp_path, directory).write(root, "s1", TEXT)
    assert sorted(os.listdir(tmp_path)) == ["p"] and os.listdir(root) == []


@pytest.mark.parametrize("session", ["", "../x", "a/b", ".x", "a\0b", "x" * 300, "ä"])
def test_T14_what_is_no_sessions_id_is_refused(tmp_path: Path, root: bytes, session: str) -> None:
    with pytest.raises(RefusedError, match="no session's id"):
        files(tmp_path).write(root, session, TEXT)


def test_a_file_of_somebody_elses_is_left_alone(tmp_path: Path, root: bytes) -> None:
    mine = tmp_path / "p/handoff-s1.md"
    there = files(tmp_path, "hand")
    (tmp_path / "p/hand").mkdir()
    mine = tmp_path / "p/hand/handoff-s1.md"
    mine.write_text("my own notes")
    with pytest.raises(RefusedError, match="is not a hand-off"):
        there.write(root, "s1", TEXT)
    assert not there.remove(root, "s1") and mine.read_text() == "my own notes"
    mine.unlink()
    os.mkfifo(mine)
    with pytest.raises(RefusedError):
        there.write(root, "s1", TEXT)
    mine.unlink()
    (tmp_path / "p/file").write_text("x")
    with pytest.raises(RefusedError):
        files(tmp_path, "file").write(root, "s1", TEXT)


def test_of_a_project_that_is_gone_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(MulliganError, match="cannot be opened"):
        files(tmp_path, "hand").write(os.fsencode(tmp_path / "gone"), "s1", TEXT)
