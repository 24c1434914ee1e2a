"""Following what tasks wait for, to find a circle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.reference.model import Model


@dataclass(slots=True)
class Walk:
    """A look at what tasks wait for, over so many edges; what it has seen it passes over."""

    left: int
    seen: set[str] = field(default_factory=set)

    def reaches(self, model: Model, tasks: Sequence[str], target: str) -> str | None:
        """CYCLE where one of these tasks waits for the target through whatever chain, FAR where
        that is more to find out than is left; the edges to these tasks count.
        """
        stack = list(tasks)
        awaited = bool(model.dependents(target) or model.heirs(target))
        self.left -= len(stack) if awaited else 0
        while stack:
            task = stack.pop()
            if task == target:
                return "CYCLE"
            if self.left < 0:
                return "FAR"
            if not awaited or task in self.seen:
                continue
            self.seen.add(task)
            record = model.tasks.get(task)
            waits = set() if record is None else record.waits or record.about_to_wait()
            stack += sorted(waits)
            self.left -= len(waits)
        return None
