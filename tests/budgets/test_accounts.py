"""Accounts in dollars, exact to the millionth."""

from __future__ import annotations

from rqueue.budgets.accounts import Budget, Budgets


def test_remaining_amounts_have_no_float_error() -> None:
    assert Budget("day", 0.3, spent_usd=0.1, reserved_usd=0.1).remaining_usd == 0.1
    assert Budget("day", 0.3, spent_usd=0.1, reserved_usd=0.2).remaining_usd == 0


def test_an_account_without_a_ceiling_has_no_remaining_amount() -> None:
    assert Budget("day", spent_usd=5).remaining_usd is None


def test_accounts_are_found_by_their_workers() -> None:
    own = Budget("worker=w1", 1.0)
    found = Budgets((own,))

    assert (found.of_worker("w1"), found.of_worker("w2"), found.day) == (own, None, Budget("day"))
