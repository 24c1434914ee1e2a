"""What stands behind an exception: those of a group, and those that it was raised from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# How far the errors behind an error are followed, and how many are looked at: both may be made of
# what a service answered, and a group may hold another several times.
DEEPEST = 10
MOST = 1000


def together(error: BaseException) -> list[BaseException]:
    """An error and, of a group, all that were raised in it, the first first."""
    return reached(error, grouped)


def behind(error: BaseException) -> tuple[BaseException, ...]:
    """Those of a group, and what an error was raised from. What it was only raised after, while
    another was handled, is not its own.
    """
    cause = error.__cause__
    return (*grouped(error), *(() if cause is None else (cause,)))


def reached(
    error: BaseException, following: Callable[[BaseException], Iterable[BaseException]]
) -> list[BaseException]:
    """All that can be reached from an error, each once."""
    found: dict[int, BaseException] = {}
    left = [(error, 0)]
    while left and len(found) < MOST:
        one, depth = left.pop()
        if id(one) not in found:
            found[id(one)] = one
            further = list(following(one)) if depth < DEEPEST else []
            left += [(each, depth + 1) for each in reversed(further)]
    return list(found.values())


def grouped(error: BaseException) -> tuple[BaseException, ...]:
    """Those of a group."""
    return error.exceptions if isinstance(error, BaseExceptionGroup) else ()
