"""note after a lost lease: the archive gets the cost, and the archived life leaves it out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqueue import Lease
from rqueue.errors import LeaseLost
from tests.harness import Harness


async def lost(harness: Harness) -> Lease:
    """A run whose worker was silent for too long, and whose task died of it."""
    await harness.reaper.tick()
    lease = await harness.running(max_attempts=1)
    await lease.spend(0.5, tokens_in=10)
    await harness.age(lease, 3600)
    await harness.reaper.tick()
    return lease


async def report_late(lease: Lease, usd: float = 0.25) -> None:
    with pytest.raises(LeaseLost):
        await lease.spend(usd, tokens_in=3, tokens_out=4, model="org/big")


async def lines(harness: Harness) -> list[tuple[str, dict[str, Any]]]:
    """The outbox lines of late costs: life and facts."""
    found = []
    for _, entry in await harness.client.xrange(harness.keys.outbox()):
        for value in entry.values():
            life, word, facts = value.decode().split(" ", 2)
            found += [(life, json.loads(facts))] if word == "COST" else []
    return found


async def notes(harness: Harness, lease: Lease) -> dict[str, str]:
    found = await harness.client.hgetall(harness.keys.notes(lease.id.ulid))
    return {name.decode(): value.decode() for name, value in found.items()}


async def owed(harness: Harness, lease: Lease) -> str | None:
    found = await harness.client.hget(harness.keys.task(lease.id.ulid), "owed")
    return None if found is None else found.decode()


async def test_the_outbox_line_has_all_that_the_archive_stores(archived_harness: Harness) -> None:
    lease = await lost(archived_harness)
    counted = int(await archived_harness.client.hget(archived_harness.keys.stats(), "outbox"))

    await report_late(lease)
    await report_late(lease)

    ((life, facts),) = await lines(archived_harness)
    assert (life, int(facts.pop("at")) > 0, facts.pop("seq")) == ("1", True, "0")
    assert facts == {
        "token": lease.token, "owner": "w1", "model": "org/big", "micro_usd": "250000",
        "tokens_in": "3", "tokens_out": "4",
    }  # fmt: skip
    assert int(await archived_harness.client.hget(archived_harness.keys.stats(), "outbox")) == (
        counted + 1
    )
    found = await notes(archived_harness, lease)
    assert (found["micro_usd"], found["tokens_in"], found["tokens_out"]) == ("750000", "13", "4")
    assert (found["late"], found["late_in"], found["late_out"]) == ("250000", "3", "4")
    assert "before" not in found
    assert await owed(archived_harness, lease) is None


async def test_the_cost_of_an_earlier_life_is_named_and_left_out_of_this_one(
    archived_harness: Harness,
) -> None:
    lease = await lost(archived_harness)
    await archived_harness.queue.dead.retry(lease.id)
    before = await owed(archived_harness, lease)
    (again,) = await archived_harness.queue.claim(worker="w2")
    await again.start()

    await report_late(lease)

    assert before is not None
    assert before.split(" ")[1].endswith("*1")
    ((life, facts),) = await lines(archived_harness)
    assert (life, facts["owner"]) == ("1", "w1")
    found = await notes(archived_harness, lease)
    assert (found["before"], found["before_in"], found["before_out"]) == ("750000", "13", "4")
    assert "late" not in found


async def test_a_new_life_begins_without_late_costs(archived_harness: Harness) -> None:
    lease = await lost(archived_harness)
    await report_late(lease)

    await archived_harness.queue.dead.retry(lease.id)

    found = await notes(archived_harness, lease)
    assert (found["before"], found["before_in"], found["before_out"]) == ("750000", "13", "4")
    assert not {"late", "late_in", "late_out"} & set(found)


async def test_tokens_without_a_cost_are_counted_and_archived(archived_harness: Harness) -> None:
    lease = await lost(archived_harness)

    await report_late(lease, usd=0)
    await report_late(lease)

    ((_, facts),) = await lines(archived_harness)
    assert (facts["micro_usd"], facts["tokens_in"], facts["tokens_out"]) == ("0", "3", "4")
    found = await notes(archived_harness, lease)
    assert (found["micro_usd"], found["tokens_in"], found["tokens_out"]) == ("500000", "13", "4")


async def test_without_an_archive_a_late_cost_counts_for_its_life(harness: Harness) -> None:
    lease = await lost(harness)

    await report_late(lease)

    assert await harness.client.xlen(harness.keys.outbox()) == 0
    found = await notes(harness, lease)
    assert (found["micro_usd"], "late" in found) == ("750000", False)
