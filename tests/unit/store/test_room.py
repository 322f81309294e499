"""When room is to be made: beyond a part of the budget, or when something found none before that."""

from __future__ import annotations

from mulligan.store.room import Allowance

BUDGET = 4_000_000


class _Disk:
    used = 3_200_000


def _allowance() -> tuple[Allowance, _Disk]:
    disk = _Disk()
    allowance = Allowance(lambda: disk.used, lambda: 0)
    allowance.set_budget(BUDGET)
    return allowance, disk


def test_room_is_due_beyond_a_part_of_the_budget() -> None:
    allowance, disk = _allowance()
    assert not allowance.is_due
    disk.used = 3_500_000
    assert allowance.used(fresh=True) == 3_500_000
    assert allowance.is_due


def test_what_found_no_room_makes_room_due_and_is_said_if_there_is_none_to_be_made() -> None:
    allowance, disk = _allowance()
    assert allowance.wait(800_000)
    assert not allowance.wait(900_000)
    assert allowance.is_due
    allowance.judge()
    assert allowance.short == "the budget is used up by what is kept in any case"
    assert not allowance.is_due  # nothing can be gained
    assert not allowance.wait(900_000)
    assert not allowance.is_due
    disk.used = 3_000_000
    allowance.judge()
    assert allowance.short == ""
    assert allowance.wait(900_000)


def test_for_what_can_never_have_room_nothing_is_given_up() -> None:
    allowance, _ = _allowance()
    assert not allowance.wait(1_000_001)
    assert not allowance.is_due
