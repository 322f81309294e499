"""Retention against a model: nothing that is to stay goes, nothing else stays, and the timeline stays one."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mulligan.clock import NANOSECONDS
from mulligan.journal.retention import Forgotten, Policy, forget
from mulligan.model import Checkpoint

HOUR = 3600 * NANOSECONDS
NOW = 20_000 * 24 * HOUR


@st.composite
def timelines(draw: st.DrawFn) -> list[Checkpoint]:
    """Checkpoints of some sessions, each with any earlier one, or now and then a late one, as its parent."""
    made: list[Checkpoint] = []
    age = draw(st.integers(0, 2000)) * HOUR
    for ordinal in range(1, draw(st.integers(1, 14)) + 1):
        age = max(0, age - draw(st.integers(0, 100)) * HOUR)
        parent = draw(st.sampled_from(["", *(one.id for one in made[-4:])])) if made else ""
        trigger = draw(st.sampled_from(["manual", "prompt", "pre_restore"]))
        session = draw(st.sampled_from(["", "s1", "s2"]))
        pinned = draw(st.integers(0, 5)) == 0
        made.append(
            Checkpoint(
                id=f"c{ordinal}", ordinal=ordinal, project=1, parent=parent, timestamp=NOW - age, created=NOW - age,
                seq=ordinal, trigger=trigger, session=session, pinned=pinned,
            )
        )  # fmt: skip
    return draw(st.permutations(made))


POLICIES = st.builds(
    Policy,
    keep_last=st.integers(0, 3), keep_hourly=st.integers(0, 3), keep_daily=st.integers(0, 3),
    keep_weekly=st.integers(0, 3), spare=st.integers(0, 48).map(lambda hours: hours * HOUR),
    max_age=st.integers(0, 1500).map(lambda hours: hours * HOUR),
)  # fmt: skip


def chain(parents: dict[str, str], start: str) -> list[str]:
    found = []
    while start:
        found.append(start)
        start = parents.get(start, "")
    return found


def after(made: list[Checkpoint], gone: Forgotten) -> dict[str, str]:
    return {one.id: gone.parents.get(one.id, one.parent) for one in made if one.id not in gone.removed}


@given(timelines(), POLICIES, st.sets(st.integers(1, 14), max_size=2))
def test_what_must_stay_stays_and_the_timeline_is_one(made: list[Checkpoint], policy: Policy, at: set[int]) -> None:
    current = {f"c{number}" for number in at}
    gone = forget(made, current, policy, NOW)
    left, before = after(made, gone), {one.id: one.parent for one in made}
    newest = sorted(made, key=lambda one: (one.timestamp, one.ordinal), reverse=True)
    for one in made:
        if one.pinned or one.id in current:
            assert one.id in left
    for session in {one.session for one in made}:
        assert next(one.id for one in newest if one.session == session) in left
    ways = [one.id for one in newest if one.trigger == "pre_restore"]
    assert not ways or ways[0] in left
    # every path to the root is the old one without what went
    for one in left:
        assert chain(left, one) == [above for above in chain(before, one) if above in left]


@given(timelines(), POLICIES, st.sets(st.integers(1, 14), max_size=2))
def test_R16_a_second_run_forgets_nothing(made: list[Checkpoint], policy: Policy, at: set[int]) -> None:
    current = {f"c{number}" for number in at}
    left = after(made, forget(made, current, policy, NOW))
    again = [msgspec.structs.replace(one, parent=left[one.id]) for one in made if one.id in left]
    assert forget(again, current, policy, NOW) == Forgotten([], {})


@given(timelines(), POLICIES)
def test_nothing_stays_without_a_reason(made: list[Checkpoint], policy: Policy) -> None:
    left = after(made, forget(made, set(), policy, NOW))
    newest = sorted(made, key=lambda one: (one.timestamp, one.ordinal), reverse=True)
    reasons: set[str] = {one.id for one in made if one.pinned}
    reasons |= {next(one.id for one in newest if one.session == session) for session in {one.session for one in made}}
    reasons |= {one.id for one in [one for one in newest if one.trigger == "pre_restore"][:1]}
    limit = max(policy.max_age, policy.spare) if policy.max_age else NOW
    young = [one for one in newest if NOW - one.timestamp <= limit]
    if not policy.has_rules:
        reasons |= {one.id for one in young}
    reasons |= {one.id for one in young if NOW - one.timestamp < policy.spare}
    reasons |= {one.id for one in newest[: policy.keep_last] if one in young}
    for count, length in ((policy.keep_hourly, 1), (policy.keep_daily, 24), (policy.keep_weekly, 168)):
        periods = sorted({(one.timestamp // HOUR + 72) // length for one in newest}, reverse=True)[:count]
        for period in periods:
            first = next(one for one in newest if (one.timestamp // HOUR + 72) // length == period)
            reasons |= {first.id} if first in young else set()
    children = [parent for parent in left.values() if parent]
    for one in left:
        assert one in reasons or children.count(one) > 1
    assert reasons <= left.keys()


def test_R16_one_of_three_is_kept() -> None:
    made = [
        Checkpoint(id=f"c{n}", ordinal=n, project=1, parent=f"c{n - 1}" if n > 1 else "", timestamp=n, created=n,
                   seq=n, trigger="manual")
        for n in (1, 2, 3)
    ]  # fmt: skip
    assert forget(made, {"c3"}, Policy(keep_last=1), NOW) == Forgotten(["c1", "c2"], {"c3": ""})
    assert forget(made, {"c1"}, Policy(keep_last=1), NOW) == Forgotten(["c2"], {"c3": "c1"})
