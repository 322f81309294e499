"""Whose a change is."""

from __future__ import annotations

import pytest

from mulligan.clock import MILLISECOND
from mulligan.model import RelPath
from mulligan.session.attribution import Change, Owner, Window, attribute, relative
from mulligan.session.tools import ToolClass

A = RelPath(b"a")


def ms(milliseconds: float) -> int:
    return int(1_700_000_000_000 * MILLISECOND + milliseconds * MILLISECOND)


def window(
    tool: str, start: float, end: float | None, kind: ToolClass = ToolClass.WINDOW, *names: bytes, **more: object
) -> Window:
    return Window(
        tool=tool,
        session=str(more.pop("session", "s")),
        tool_class=kind,
        start=ms(start),
        end=None if end is None else ms(end),
        paths=frozenset(RelPath(name) for name in names),
        **more,  # type: ignore[arg-type]
    )


def owner(moment: float, *windows: Window, path: bytes = b"a", since: float | None = None) -> Owner:
    change = Change(RelPath(path), ms(moment if since is None else since), ms(moment))
    return attribute([change], windows)[0]


def test_M5_who_saves_while_only_reading_goes_on_is_nobody() -> None:
    read = window("t1", 0, 1000, ToolClass.READ_ONLY, b"a")
    assert owner(500, read) == Owner()


def test_M5_who_saves_while_a_shell_runs_is_never_certain() -> None:
    assert owner(500, window("t1", 0, 1000)) == Owner("t1", "window")
    assert owner(500, window("t1", 0, 1000), window("t2", 100, None)) == Owner("t2", "one of 2")


def test_M5_who_saves_another_file_while_one_is_written_is_nobody() -> None:
    write = window("t1", 0, 1000, ToolClass.PATH, b"a")
    assert owner(500, write) == Owner("t1", "named")
    assert owner(500, write, path=b"b") == Owner()


def test_M2_what_happens_in_no_window_is_nobodys() -> None:
    windows = [window("t1", 0, 1000), window("t2", 2000, 3000)]
    changes = [Change(RelPath(b"%d" % n), ms(1500), ms(1500)) for n in range(400)]
    assert attribute(changes, windows) == [Owner()] * 400


def test_the_name_is_stronger_than_the_window() -> None:
    assert owner(500, window("t1", 0, 1000), window("t2", 400, 600, ToolClass.PATH, b"a")) == Owner("t2", "named")


def test_a_failed_edit_owns_nothing_and_a_failed_shell_does() -> None:
    assert owner(500, window("t1", 0, 1000, ToolClass.PATH, b"a", is_error=True)) == Owner()
    assert owner(500, window("t1", 0, 1000, is_error=True)) == Owner("t1", "window")


@pytest.mark.parametrize(("moment", "owned"), [(-11, False), (-10, True), (0, True), (1011, True), (1012, False)])
def test_times_may_be_a_little_off(moment: float, owned: bool) -> None:
    assert owner(moment, window("t1", 0, 1000)) == (Owner("t1", "window") if owned else Owner())


def test_the_margins_give_way_to_a_window_that_holds_the_moment() -> None:
    assert owner(1005, window("t1", 0, 1000), window("t2", 1002, 2000)) == Owner("t2", "window")


def test_what_began_before_the_call_may_be_somebody_elses_too() -> None:
    assert owner(500, window("t1", 400, 1000), since=100) == Owner("t1", "one of 2")


def test_an_agent_acts_through_its_own_calls() -> None:
    agent = window("t1", 0, 1000, ToolClass.AGENT)
    inner = window("t2", 300, 600, agent=True)
    assert owner(500, agent, inner) == Owner("t2", "window")
    assert owner(800, agent, inner) == Owner("t1", "window")
    other = window("t3", 0, 1000, ToolClass.AGENT, session="other")
    assert owner(500, other, inner) == Owner("t2", "one of 2")


def test_what_was_left_running_is_never_the_only_candidate() -> None:
    left = window("t1", 0, 100, background_end=ms(5000))
    assert owner(3000, left) == Owner("t1", "one of 2")
    assert owner(3000, left, window("t2", 2900, 3100)) == Owner("t2", "window")
    assert owner(6000, left) == Owner()
    assert owner(3000, window("t1", 0, 100)) == Owner()


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        (b"/p/a/b", b"a/b"),
        (b"/p", None),
        (b"/p/", None),
        (b"/pq/a", None),
        (b"/p/../etc/passwd", None),
        (b"/p/a//b", None),
        (b"/etc/passwd", None),
        (b"a", None),
    ],
)
def test_R19_only_paths_inside_the_project_are_its_own(path: bytes, inside: bytes | None) -> None:
    assert relative(b"/p", path) == inside
    assert relative(b"/p/", path) == inside
