"""Converts the Redis hash of a DAG to its row in the archive and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from rqueue.archive.copying import storable
from rqueue.dags.store import dag_of
from rqueue.store.replies import UNREADABLE, moment, natural
from rqueue.task.codec import MAX_INT
from rqueue.task.dag import DagSpec
from rqueue.task.fields import MICRO
from rqueue.task.ids import number_of

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.archive.connection import Archive
    from rqueue.archive.reader import ArchiveReader
    from rqueue.task.dag import Dag
    from rqueue.task.ids import DagId

# The largest value of a PostgreSQL integer.
MAX_COUNT = 2**31 - 1
FACTS = "SELECT d.facts FROM rqueue.dags d WHERE d.id = %(id)s AND d.queue = %(queue)s"
# Fields of the hash that are options of the DAG.
OPTIONS = ("title", "created_by", "on_failure", "spawn")


def dag_facts(ulid: str, fields: Mapping[str, str]) -> dict[str, object]:
    """Returns the columns of a DAG by name; invalid numbers become None."""
    clean = {storable(name): storable(value) for name, value in fields.items()}
    return {
        "id": UUID(int=number_of(ulid)),
        "title": clean.get("title") or None,
        "status": clean.get("status", "unknown"),
        "created_by": clean.get("created_by") or None,
        "created_at": moment_in(clean, "created"),
        "finished_at": moment_in(clean, "finished"),
        "tasks": number_in(clean, "total", MAX_COUNT),
        "dead": number_in(clean, "dead", MAX_COUNT),
        "cancelled": number_in(clean, "cancelled", MAX_COUNT),
        "budget": number_in(clean, "budget"),
        "spent": number_in(clean, "spent") or 0,
        "facts": json.dumps(clean),
    }


async def read_dag(reader: ArchiveReader, dag: DagId) -> Dag | None:
    """Returns a DAG in its state when its last task was archived; None if the archive does not have
    it or its row is invalid.
    """
    rows = await reader.rows(FACTS, {"id": dag.uuid, "queue": reader.queue})
    if not rows:
        return None
    flat = [str(word).encode() for pair in dict(rows[0][0]).items() for word in pair]
    try:
        return dag_of(dag, flat)
    except UNREADABLE:
        return None


class DagPast(NamedTuple):
    """The options of a DAG, the DAG that was to follow it, and its number of tasks."""

    spec: DagSpec
    following: str | None
    total: int


async def dag_past(archive: Archive, queue: str, dag: DagId) -> DagPast:
    """Returns the archived properties of a DAG; defaults if it has no row."""
    async with archive.connection() as connection:
        cursor = await connection.execute(FACTS, {"id": dag.uuid, "queue": queue})
        row = await cursor.fetchone()
    facts: dict[str, str] = row[0] if row else {}
    given: dict[str, Any] = {name: facts[name] for name in OPTIONS if facts.get(name)}
    if facts.get("threshold"):
        given["failure_threshold"] = float(facts["threshold"])
    if facts.get("budget"):
        given["budget_usd"] = int(facts["budget"]) / MICRO
    total = number_in(facts, "total") or 0
    return DagPast(DagSpec.parse(given), facts.get("follow") or None, total)


def number_in(fields: Mapping[str, str], name: str, most: int = MAX_INT) -> int | None:
    """Returns a number of the hash; None if it is missing, invalid or too large for its column."""
    try:
        found = natural(fields[name]) if name in fields else None
    except ValueError:
        return None
    return None if found is None or found > most else found


def moment_in(fields: Mapping[str, str], name: str) -> datetime | None:
    """Returns a time of the hash; None if it is missing or invalid."""
    found = number_in(fields, name)
    try:
        return None if found is None else moment(found)
    except (OverflowError, ValueError):
        return None
