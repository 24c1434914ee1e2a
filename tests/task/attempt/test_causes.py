"""The errors behind an exception: each is found once, whatever the structure."""

from __future__ import annotations

from rqueue.task.attempt.error_text import DEEPEST, MOST, causes_of, reachable, together

A, B, C = KeyError("a"), ValueError("b"), OSError("c")


def raised_from(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def test_an_error_is_all_there_is_of_itself() -> None:
    assert together(A) == [A]
    assert reachable(A, causes_of) == [A]


def test_of_a_group_all_are_found_in_their_order() -> None:
    inner = ExceptionGroup("inner", [B, C])
    outer = ExceptionGroup("outer", [A, inner])

    assert together(outer) == [outer, A, inner, B, C]


def test_what_an_error_was_raised_from_is_behind_it_and_not_beside_it() -> None:
    error = raised_from(RuntimeError("outer"), ExceptionGroup("group", [A]))

    assert together(error) == [error]
    assert reachable(error, causes_of) == [error, error.__cause__, A]


def test_what_was_only_being_handled_is_not() -> None:
    error = RuntimeError("while handling")
    error.__context__ = A

    assert reachable(error, causes_of) == [error]


def test_a_cycle_and_a_repeated_group_are_read_once() -> None:
    one, two = RuntimeError("one"), RuntimeError("two")
    raised_from(one, raised_from(two, one))
    doubled: BaseException = ExceptionGroup("", [A])
    for _ in range(DEEPEST):
        doubled = ExceptionGroup("", [doubled, doubled])  # type: ignore[type-var]

    assert reachable(one, causes_of) == [one, two]
    assert len(together(doubled)) == DEEPEST + 1


def test_very_many_and_very_deep_ones_are_not_all_read() -> None:
    wide = ExceptionGroup("", [KeyError(number) for number in range(2 * MOST)])
    deep: Exception = A
    for _ in range(5 * DEEPEST):
        deep = ExceptionGroup("", [deep])

    assert len(together(wide)) == MOST
    assert len(together(deep)) == DEEPEST + 1
