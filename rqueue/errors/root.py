"""The root of all errors, and how one is pickled: by its facts."""

from __future__ import annotations


class RQueueError(Exception):
    """The root: `except RQueueError` catches all that rqueue raises."""

    def __reduce__(self) -> tuple[object, ...]:
        # By its facts: what takes keywords could not be made again from its arguments.
        return remade, (type(self), self.args, self.__dict__)


def remade(kind: type[RQueueError], args: tuple[object, ...], facts: dict[str, object]) -> object:
    """An error that was pickled."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error
