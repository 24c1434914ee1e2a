"""What ended tasks have cost, in sums: by type, agent, worker, model and day."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, get_args

from rqueue.model.checked import Checked

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.reader import ArchiveReader

By = Literal["type", "agent", "worker", "model", "day"]
BYS: tuple[By, ...] = get_args(By)
COLUMNS: dict[By, str] = {
    "type": "s.type",
    "agent": "s.agent",
    "worker": "s.worker",
    "model": "s.model",
    # As text: no calendar of a client has to hold what a hash may say.
    "day": "to_char(s.at AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
}
STATEMENT = (
    "SELECT {columns} sum(s.cost_usd), sum(s.tokens)::bigint, count(DISTINCT s.task_id)"
    " FROM rqueue.spending s WHERE s.queue = %(queue)s"
    " AND (%(since)s::timestamptz IS NULL OR s.at >= %(since)s)"
    " AND (%(until)s::timestamptz IS NULL OR s.at < %(until)s)"
    " AND (%(type)s::text IS NULL OR s.type = %(type)s)"
    " {grouped} ORDER BY {order} LIMIT %(limit)s"
)


class Spent(Checked):
    """One sum, and what it is of: only what was asked for is named, and None is what nobody said,
    such as the model of a cost that was told without. `tasks` is how many have a part in it.
    """

    type: str | None = None
    agent: str | None = None
    worker: str | None = None
    model: str | None = None
    day: str | None = None
    cost_usd: Decimal = Decimal(0)
    tokens: int = 0
    tasks: int = 0


async def spend(
    reader: ArchiveReader,
    by: Sequence[By],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    type: str | None = None,
    limit: int | None = None,
) -> list[Spent]:
    """The sums, by day first the latest, else first the largest; one of all where nothing divides
    it.
    """
    columns = "".join(f"{COLUMNS[one]}, " for one in by)
    places = [str(place) for place in range(1, len(by) + 1)]
    latest = [f"{by.index('day') + 1} DESC"] if "day" in by else []
    order = [*latest, "sum(s.cost_usd) DESC NULLS LAST", *places]
    statement = (
        STATEMENT.replace("{columns}", columns)
        .replace("{grouped}", f"GROUP BY {', '.join(places)}" if by else "")
        .replace("{order}", ", ".join(order))
    )
    given = {
        "queue": reader.queue, "since": since, "until": until, "type": type, "limit": limit,
    }  # fmt: skip
    rows = await reader.search(statement, given)
    return [spent_of(by, row) for row in rows if row[-1]]


def spent_of(by: Sequence[By], row: Sequence[object]) -> Spent:
    """One row as a sum."""
    *names, cost, tokens, tasks = row
    named: dict[str, object] = dict(zip(by, names, strict=True))
    return Spent.parse({**named, "cost_usd": cost or 0, "tokens": tokens or 0, "tasks": tasks})
