"""Late costs: one row each, in any order and however often they are delivered."""

from __future__ import annotations

import asyncio
import json
from itertools import permutations
from typing import Any

import pytest

from rqueue.archive.rows import Unfit
from rqueue.archive.writer import Batch, Writer, Written, is_late, late_in
from rqueue.clock import SYSTEM
from rqueue.core.outbox import OutboxItem
from rqueue.task.ids import TaskId, ulid_of
from tests.archive.archiver_harness import ArchiverHarness
from tests.archive.tables import ArchiveTables
from tests.archive.test_pruning import EDGE, SECOND, pruned
from tests.archive.test_rows import a_kept
from tests.archive.test_writer import ended, made_at

NOW = SYSTEM.now()
COST = {
    "at": "1794962239618", "token": "1:bits", "seq": "3", "owner": "w1", "model": "org/big",
    "micro_usd": "250000", "tokens_in": "3", "tokens_out": "4",
}  # fmt: skip


def a_line(task: TaskId, life: int = 1, **changes: Any) -> OutboxItem:
    cost = json.dumps({**COST, **changes})
    return OutboxItem(task.ulid.encode(), f"{life} COST {cost}".encode())


def costs(pg_env: ArchiverHarness) -> list[tuple[Any, ...]]:
    return pg_env.query(
        "SELECT life, cost_micro_usd, tokens_input, tokens_output FROM rqueue.life_costs"
    )


def test_a_line_contains_all_fields_of_a_late_cost() -> None:
    task = made_at(NOW)

    found = late_in(a_line(task, 2))

    assert (found.task, found.life, found.epoch) == (task.uuid, 2, 1)
    assert (found.token, found.seq, found.worker, found.model) == ("1:bits", 3, "w1", "org/big")
    assert found[7:10] == (250_000, 3, 4)


@pytest.mark.parametrize("name", ["owner", "model"])
def test_an_invalid_label_is_left_out(name: str) -> None:
    found = late_in(a_line(made_at(NOW), 1, **{name: "a\0b\ud800"}))

    assert {"owner": found.worker, "model": found.model}[name] is None


@pytest.mark.parametrize(
    "line",
    [
        b"1 COST", b"1 COST ", b"1 COST []", b"1 COST {}", b"1 COST \xff", b"x COST {}",
        b"1 COST " + b"[" * 100_000,
        *(a_line(made_at(NOW), 1, **{name: wrong}).value for name, wrong in [
            ("token", "no number"), ("token", None), ("token", "x:1"), ("seq", -1), ("at", "soon"),
            ("micro_usd", "1" * 16), ("micro_usd", "x"), ("tokens_in", None), ("at", 2**53 - 1),
        ]),
        a_line(made_at(NOW), 10**9).value,
    ],
)  # fmt: skip
def test_an_invalid_line_is_unfit(line: bytes) -> None:
    assert is_late(OutboxItem(b"", line))
    with pytest.raises(Unfit):
        late_in(OutboxItem(made_at(NOW).ulid.encode(), line))


def test_an_invalid_task_id_is_unfit() -> None:
    with pytest.raises(Unfit):
        late_in(OutboxItem(b"\xff", a_line(made_at(NOW)).value))


@pytest.mark.parametrize("order", list(permutations(["life", "cost", "again"])))
async def test_a_late_cost_is_counted_once_in_any_order(
    pg_env: ArchiverHarness, order: tuple[str, ...]
) -> None:
    task = made_at(NOW)
    batches = {"life": Batch([ended(task)]), "cost": Batch(late=[late_in(a_line(task))])}
    batches["again"] = batches["cost"]

    written = [await pg_env.archiver.writer.write(batches[name]) for name in order]

    assert costs(pg_env) == [(1, 250_000, 3, 4)]
    assert sum(each.rows for each in written) == 2
    assert sum(each.repeated for each in written) == 1


async def test_a_late_cost_is_counted_once_in_one_batch(pg_env: ArchiverHarness) -> None:
    task = made_at(NOW)
    late = [late_in(a_line(task)), late_in(a_line(task)), late_in(a_line(task, token="2:bits"))]

    assert await pg_env.archiver.writer.write(Batch([ended(task)], late=late)) == Written(
        rows=3, repeated=1
    )

    assert costs(pg_env) == [(1, 500_000, 6, 8)]


async def test_several_archivers_count_a_late_cost_once(pg_env: ArchiverHarness) -> None:
    tasks = [made_at(NOW, n) for n in range(20)]
    late = [late_in(a_line(task)) for task in tasks]
    lives = [ended(task) for task in tasks]
    writers = [pg_env.another(f"b{n}").writer for n in range(4)]

    async def write(writer: Writer, at: int) -> None:
        first = [Batch(lives), Batch(late=late)][:: 1 if at % 2 else -1]
        for batch in first:
            await writer.write(batch)

    await asyncio.gather(*(write(writer, at) for at, writer in enumerate(writers)))

    assert set(costs(pg_env)) == {(1, 250_000, 3, 4)}
    assert (pg_env.count(), pg_env.count("late_costs"), pg_env.count("quarantine")) == (20, 20, 0)


async def test_the_cost_of_a_life_excludes_its_late_costs(pg_env: ArchiverHarness) -> None:
    task = made_at(NOW)
    notes = [
        b"micro_usd", b"950000", b"before", b"200000", b"late", b"250000", b"tokens_in", b"9",
        b"before_in", b"2", b"late_in", b"3", b"tokens_out", b"4", b"late_out", b"4",
    ]  # fmt: skip
    row = ended(task, a_kept({b"flags": b"n"}, notes=notes))

    await pg_env.archiver.writer.write(Batch([row], late=[late_in(a_line(task))]))

    assert costs(pg_env) == [(1, 750_000, 7, 4)]
    assert pg_env.query(
        "SELECT cost_micro_usd, tokens_input, tokens_output FROM rqueue.task_lives"
    ) == [(500_000, 4, 0)]


async def test_an_invalid_line_does_not_block_others(pg_env: ArchiverHarness) -> None:
    task = TaskId.parse(ulid_of(7 << 76 | 2 << 62))
    await pg_env.harness.client.xadd(pg_env.harness.keys.outbox(), {task.ulid: "1 COST {}"})
    await pg_env.completed()

    done = await pg_env.archiver.tick()

    assert (done.tasks, done.quarantined, pg_env.count()) == (2, 1, 1)


async def test_late_costs_are_pruned_with_their_life(tables: ArchiveTables) -> None:
    tasks = [tables.life(EDGE - SECOND), tables.life(EDGE)]
    writer = Writer(tables.archive, "sales", SYSTEM)
    await writer.write(Batch(late=[late_in(a_line(task)) for task in tasks]))

    await pruned(tables)

    assert tables.database.psql("SELECT task_id FROM rqueue.late_costs") == [(tasks[1].uuid,)]
