"""What a test expects to have been enqueued, and the message where it was not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rqueue.handlers import TaskFunction

if TYPE_CHECKING:
    from rqueue.task.task import Task

# A message shows so many tasks; more would hide what matters.
SHOWN = 20


@dataclass(frozen=True, slots=True)
class Expected:
    """Tasks of a type whose payload has these parts and whose options are these."""

    type: str
    payload: object = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def fits(self, task: Task) -> bool:
        """Whether a task is one of them."""
        return (
            task.type == self.type
            and (self.payload is None or contains(task.payload, self.payload))
            and all(getattr(task.spec, name) == value for name, value in self.options.items())
        )

    def __str__(self) -> str:
        payload = "" if self.payload is None else f" with {self.payload!r}"
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"{self.type}{payload}{options}"


def type_of(task: str | TaskFunction[Any, Any]) -> str:
    """The type that a name or a task function means."""
    return task.type if isinstance(task, TaskFunction) else task


def contains(found: object, wanted: object) -> bool:
    """Whether a payload has what is wanted: a mapping may have more, anything else is equal."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(name in found and contains(found[name], wanted[name]) for name in wanted)
    return found == wanted


def check(tasks: Sequence[Task], expected: Expected, count: int | None) -> list[Task]:
    """Those that fit; an AssertionError that shows what there is, where their number is wrong."""
    found = [task for task in tasks if expected.fits(task)]
    if len(found) == count or (count is None and found):
        return found
    wanted = "at least one" if count is None else str(count)
    raise AssertionError(
        f"{expected}: {wanted} expected, {len(found)} enqueued; the queue has\n{shown(tasks)}"
    )


def shown(tasks: Iterable[Task]) -> str:
    """The tasks, one a line."""
    lines = [f"  {task.type} {task.payload!r} {task.state}" for task in tasks]
    left = len(lines) - SHOWN
    more = [f"  ... and {left} more"] if left > 0 else []
    return "\n".join([*lines[:SHOWN], *more]) or "  nothing"
