"""What speaks for and against a worker, as it knows itself: told with its registration, so that
workers can be compared.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqueue.model.blame import Culprit
from rqueue.policy.blame import failed_elsewhere

if TYPE_CHECKING:
    from rqueue.model.blame import WorkerRule
    from rqueue.store.leases import Settled

# More is not kept of one type, or told of all: where so much fails, the number says enough.
MOST_TASKS, MOST_TYPES, MOST_NAMES = 1000, 100, 100
# More failures in a row are not told apart.
MOST_IN_A_ROW = 16


@dataclass(slots=True)
class Half:
    """Half a window: what was completed by type before it began, which tasks failed in it, and how
    many tasks were completed in it that others had failed.
    """

    began: float
    done_before: Mapping[str, int]
    failed: dict[str, set[str]] = field(default_factory=dict)
    blames: Counter[str] = field(default_factory=Counter)


class Account:
    """The account of one worker over a window that moves by halves. `completed` are the books of
    its ledger, so that a completion costs nothing here.
    """

    def __init__(self, worker: str, rule: WorkerRule, completed: Mapping[str, int]) -> None:
        self.worker = worker
        self.rule = rule
        self.done = completed
        self.older = self.newer = Half(time.monotonic(), dict(completed))
        self.rows: dict[str, dict[str, float]] = {}
        self.done_at: dict[str, int] = {}
        self.retried: dict[str, tuple[str, ...]] = {}
        # Whether there is something that others should hear soon.
        self.news = False

    def in_a_row(self, type: str, task: str) -> int:
        """How many other tasks of a type have failed here, lately and since one was completed."""
        return len(self.row_of(type).keys() - {task})

    def row_of(self, type: str) -> dict[str, float]:
        """Those tasks, and when they failed."""
        done, since = self.done.get(type, 0), time.monotonic() - self.rule.window_sec
        before = self.rows.get(type, {}) if self.done_at.get(type) == done else {}
        self.done_at[type] = done
        row = self.rows[type] = {task: at for task, at in before.items() if at > since}
        return row

    def failed(self, type: str, task: str, suspects: Collection[Culprit]) -> None:
        """An attempt failed, which may be the worker's fault, or the task's."""
        if not {Culprit.TASK, Culprit.WORKER}.intersection(suspects):
            return
        row = self.row_of(type)
        if len(row) < MOST_IN_A_ROW:
            row[task] = time.monotonic()
        self.turn()
        tasks = self.newer.failed.setdefault(type, set())
        if len(tasks) < MOST_TASKS:
            tasks.add(task)
        self.news = self.news or len(tasks) >= self.rule.tasks

    def completed(self, done: Sequence[Settled], words: Sequence[str]) -> None:
        """What was to be completed: where others had failed it, it was their fault."""
        if not self.retried:
            return
        self.turn()
        for row, word in zip(done, words, strict=True):
            names = failed_elsewhere(self.retried.pop(row.task, ()), self.worker)
            if word == "OK" and names:
                self.newer.blames.update(names)
                self.news = True

    def turn(self) -> None:
        """Forgets what is older than the window."""
        now = time.monotonic()
        if now - self.newer.began >= self.rule.window_sec / 2:
            late = now - self.newer.began >= self.rule.window_sec
            fresh = Half(now, dict(self.done))
            self.older, self.newer = fresh if late else self.newer, fresh

    def worked(self) -> dict[str, tuple[int, int]]:
        """How many tasks of each type were completed, and how many failed; those first that fail
        most.
        """
        self.turn()
        before = self.older.done_before
        found = {type: (n - before.get(type, 0), 0) for type, n in list(self.done.items())}
        for type in self.older.failed.keys() | self.newer.failed.keys():
            tasks = self.older.failed.get(type, set()) | self.newer.failed.get(type, set())
            found[type] = (found.get(type, (0, 0))[0], len(tasks))
        known = [(type, counts) for type, counts in found.items() if any(counts)]
        return dict(sorted(known, key=lambda one: (-one[1][1], -one[1][0]))[:MOST_TYPES])

    def blames(self) -> dict[str, int]:
        """The workers that have failed what this one then completed, and how often."""
        self.turn()
        halves = {id(half): half for half in (self.older, self.newer)}.values()
        return dict(sum((half.blames for half in halves), Counter()).most_common(MOST_NAMES))
