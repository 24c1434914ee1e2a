"""What is committed together, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rqueue.archive.late import Late
    from rqueue.archive.quick import QuickRow
    from rqueue.archive.rows import Row
    from rqueue.store.kept import Kept, Plain
    from rqueue.store.outbox import Line


class Ended(NamedTuple):
    """A row, and what it was made of: kept as it is where no row can be."""

    row: Row | QuickRow
    entry: str
    line: Line
    kept: Kept | Plain


class Refused(NamedTuple):
    """What came out of the outbox and can be no row, and why."""

    entry: str
    line: Line
    kept: Kept
    reason: str


@dataclass(slots=True)
class Batch:
    """What is to be committed together. `over` are those of its DAGs that have ended."""

    ended: list[Ended] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)
    dags: list[Mapping[str, object]] = field(default_factory=list)
    over: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Written:
    """What became of batches: rows that are new or say more now, rows that were there, second ends
    that differ from the first, and what is in quarantine.
    """

    rows: int = 0
    repeated: int = 0
    conflicts: int = 0
    quarantined: int = 0

    def add(self, other: Written) -> None:
        """Counts another batch, too."""
        self.rows += other.rows
        self.repeated += other.repeated
        self.conflicts += other.conflicts
        self.quarantined += other.quarantined


def by_end(ended: Sequence[Ended]) -> list[Sequence[Ended]]:
    """The rows in groups that are written one after the other: in each a life has one end, in the
    first its first, which stands, and in the others what differs from that.
    """
    if len({(each.row.ulid, each.row.life) for each in ended}) == len(ended):
        return [ended]
    groups: list[list[Ended]] = []
    known: dict[tuple[str, int], list[str]] = {}
    for each in ended:
        digests = known.setdefault((each.row.ulid, each.row.life), [])
        if each.row.digest not in digests:
            digests.append(each.row.digest)
        place = digests.index(each.row.digest)
        groups += [[]] if place == len(groups) else []
        groups[place].append(each)
    return [*groups]


def newest(ended: Sequence[Ended]) -> list[Row | QuickRow]:
    """One row for each life: PostgreSQL takes no row twice in one statement. What a later line says
    of the same end, it says of all that was kept before; but once discarded it stays so.
    """
    found: dict[tuple[str, int], Row | QuickRow] = {}
    for each in ended:
        row = each.row
        known = found.get((row.ulid, row.life))
        if known is None or row.is_discarded or not known.is_discarded:
            found[row.ulid, row.life] = row
    return list(found.values())
