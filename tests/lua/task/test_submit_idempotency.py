"""submit: one task for one idempotency key."""

from __future__ import annotations

from typing import Any

import pytest

from rqueue.core.leases import HeldLease, Settled, complete, start
from rqueue.task.lane import Lane
from tests.harness import Harness
from tests.lua.rows import BASE, PLAIN, a_row, claim, everything, held, pttl, submit, submitted

WINDOW = 60_000
UNTIL_DONE = {"idem": "key", "window": WINDOW, "unique": "until_done"}
UNTIL_START = {"idem": "key", "window": WINDOW, "unique": "until_start"}
RULES = ("keep", "replace", "debounce")


def call_options(rule: str, **options: Any) -> dict[str, Any]:
    return options if rule == "keep" else {"if_exists": rule, **options}


async def test_the_key_names_its_task_and_does_not_expire(harness: Harness) -> None:
    task = await submitted(harness, more=UNTIL_DONE)

    assert (await everything(harness))["idem:key"] == task
    assert await pttl(harness, "idem:key") == -1


async def test_keep_returns_the_existing_task_and_changes_nothing(
    harness: Harness,
) -> None:
    first = await submitted(harness, more=UNTIL_DONE)
    before = await harness.dump()
    second, other = a_row(more=UNTIL_DONE, definition="{}"), a_row()

    reply = await submit(harness, [second])

    assert reply == await submit(harness, [second]) == ["OK", 0, 0, "EXISTS", first]
    assert await harness.dump() == before
    assert await submit(harness, [second, other]) == ["OK", 0, 0, "EXISTS", first]
    assert f"task:{other.task}" in await everything(harness)


async def test_two_tasks_of_one_call_with_one_key_are_one_task(harness: Harness) -> None:
    first, second = a_row(more=UNTIL_DONE), a_row(more=UNTIL_DONE)

    assert await submit(harness, [first, second]) == ["OK", 0, 1, "EXISTS", first.task]

    assert (await everything(harness))["stats"] == {"submitted": "1"}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("begun", [0, 1], ids=["claimed", "running"])
async def test_a_leased_task_is_never_changed(harness: Harness, rule: str, begun: int) -> None:
    lease = await held(harness, start=begun, more=UNTIL_DONE)
    before = await harness.dump()

    reply = await submit(harness, [a_row(more=UNTIL_DONE, options=call_options(rule, delay=1000))])

    assert reply == ["OK", 0, 0, "EXISTS", lease.task]
    assert await harness.dump() == before


async def test_replace_cancels_the_waiting_one_and_takes_its_key(harness: Harness) -> None:
    first = await submitted(harness, more=UNTIL_DONE)
    row = a_row(more=UNTIL_DONE, options={"if_exists": "replace"})

    reply = await submit(harness, [row])

    found = await everything(harness)
    old = found[f"task:{first}"]
    assert reply == ["OK", 0]
    assert (old["state"], old["why"]) == ("CANCELLED", f"replaced by {row.task}")
    assert (
        0
        < await pttl(harness, f"task:{first}")
        <= harness.queue._internals.shard.terms.result_ttl_ms
    )
    assert found["idem:key"] == row.task
    assert list(found["lane:1"]) == [row.task]
    assert [fields["task"] for fields in found["ready"][0].values()] == [row.task]
    assert found["stats"] == {"submitted": "2", "1:CANCELLED": "1"}
    assert set(found) == {
        "ready", "lanes", "lane:1", "stats", "idem:key", "events",
        f"task:{first}", f"task:{row.task}",
    }  # fmt: skip


async def test_a_repeated_replace_replaces_nothing_more(harness: Harness) -> None:
    await submitted(harness, more=UNTIL_DONE)
    row = a_row(more=UNTIL_DONE, options={"if_exists": "replace"})
    await submit(harness, [row])
    before = await harness.dump()

    assert await submit(harness, [row]) == ["OK", 0]

    assert await harness.dump() == before


async def test_dependents_of_a_replaced_task_are_cancelled(harness: Harness) -> None:
    first = await submitted(harness, more=UNTIL_DONE)
    child = await submitted(harness, options={"parents": [first]})
    await submitted(harness, more=UNTIL_DONE, options={"if_exists": "replace"})

    await harness.promoter.tick()

    found = await everything(harness)
    assert found[f"task:{child}"]["state"] == "CANCELLED"
    assert found[f"task:{child}"]["why"] == f"Parent task_{first} cancelled"
    assert not {"cancelling", "blocked", f"waits:{child}"} & set(found)


async def test_a_task_cannot_depend_on_the_task_it_replaces(harness: Harness) -> None:
    first = await submitted(harness, more=UNTIL_DONE)
    before = await harness.dump()
    row = a_row(more=UNTIL_DONE, options={"if_exists": "replace", "parents": [first]})

    assert await submit(harness, [row]) == ["OK", 0, 0, "PARENT", first]

    assert await harness.dump() == before


async def test_a_replaced_task_goes_to_the_outbox(archived_harness: Harness) -> None:
    harness = archived_harness
    first = await submitted(harness, more=UNTIL_DONE)

    await submitted(harness, more=UNTIL_DONE, options={"if_exists": "replace"})

    found = await everything(harness)
    assert list(found["outbox"][0].values()) == [{first: "1 CANCELLED"}]
    assert found["stats"]["outbox"] == "1"
    assert await pttl(harness, f"task:{first}") == -1


async def test_debounce_gives_the_waiting_one_the_new_definition_and_time(harness: Harness) -> None:
    first = await submitted(harness, more=UNTIL_DONE, definition="x" * 513)
    row = a_row(more=UNTIL_DONE, options=call_options("debounce", delay=60_000), definition="new")

    reply = await submit(harness, [row])

    found = await everything(harness)
    task = found[f"task:{first}"]
    assert reply == ["OK", 0, 0, "EXISTS", first]
    assert (task["state"], task["def0"]) == ("PENDING", "new")
    assert found["delayed"] == {first: float(task["due"])}
    assert found[f"waits:{first}"] == {"@time"}
    assert found["stats"] == {"submitted": "1", "1:PENDING": "1"}
    assert found["ready"] == ({}, {})
    assert set(found) == {
        "ready", "lanes", "stats", "idem:key", "delayed", "blocked",
        f"task:{first}", f"waits:{first}",
    }  # fmt: skip


async def test_debounce_without_a_time_changes_only_definition_and_priority(
    harness: Harness,
) -> None:
    first = await submitted(harness, more=UNTIL_DONE)
    before = await everything(harness)
    row = a_row(more=UNTIL_DONE, options=call_options("debounce"), definition="new", base=7)

    await submit(harness, [row])

    before[f"task:{first}"] |= {"def0": "new", "score": "7", "debounced": f"{row.task} "}
    before["lane:1"] = {first: 7.0}
    assert await everything(harness) == before


async def test_a_repeated_debounce_after_another_changes_nothing(harness: Harness) -> None:
    await submitted(harness, more=UNTIL_DONE)
    rows = [
        a_row(more=UNTIL_DONE, options=call_options("debounce"), definition=text)
        for text in ("v1", "v2")
    ]
    for row in rows:
        await submit(harness, [row])
    before = await everything(harness)

    reply = await submit(harness, [rows[0]])

    assert reply[3] == "EXISTS"
    assert await everything(harness) == before


async def test_a_debounce_by_a_task_of_another_kind_replaces_the_waiting_one(
    harness: Harness,
) -> None:
    first = await submitted(harness, more=UNTIL_DONE)
    tagged = a_row(more={**UNTIL_DONE, "tags": ["t"]}, options=call_options("debounce"))
    other = a_row(lane=2, more={**UNTIL_DONE, "tags": ["t"]}, options=call_options("debounce"))

    replies = [
        await submit(harness, [row], lanes=[PLAIN, Lane("mail", 0.0)]) for row in (tagged, other)
    ]

    found = await everything(harness)
    assert replies == [["OK", 0], ["OK", 0]]
    assert found[f"task:{first}"]["state"] == found[f"task:{tagged.task}"]["state"] == "CANCELLED"
    assert (found["lane:2"], found["idem:key"]) == ({other.task: float(BASE)}, other.task)
    assert list(found["tag:t"]) == [other.task]


async def test_another_debounce_restarts_the_delay(harness: Harness) -> None:
    first = await submitted(harness, more=UNTIL_DONE, options={"delay": 1000})

    await submit(harness, [a_row(more=UNTIL_DONE, options=call_options("debounce", delay=60_000))])

    found = await everything(harness)
    task = found[f"task:{first}"]
    assert int(task["due"]) - int(task["created"]) >= 60_000
    assert found["stats"] == {"submitted": "1", "1:PENDING": "1"}


@pytest.mark.parametrize("at_claim", [True, False], ids=["claim", "start"])
async def test_until_start_releases_the_key_when_the_task_starts(
    harness: Harness, at_claim: bool
) -> None:
    first = await submitted(harness, more=UNTIL_START)
    reply = await claim(harness, start=int(at_claim))
    if not at_claim:
        assert (await everything(harness))["idem:key"] == first
        assert await start(harness.queue._internals.shard, [HeldLease(first, reply[3].token)]) == [
            "OK"
        ]

    assert "idem:key" not in await everything(harness)
    second = await submitted(harness, more=UNTIL_START)
    assert (await everything(harness))["idem:key"] == second


@pytest.mark.parametrize("rule", RULES)
async def test_a_completed_task_blocks_within_its_window(harness: Harness, rule: str) -> None:
    lease = await held(harness, more=UNTIL_DONE)
    await complete(harness.queue._internals.shard, [Settled(*lease, b"")])
    before = await harness.dump()

    reply = await submit(harness, [a_row(more=UNTIL_DONE, options=call_options(rule))])

    assert reply == ["OK", 0, 0, "EXISTS", lease.task]
    assert await harness.dump() == before
    assert 0 < await pttl(harness, "idem:key") <= WINDOW


async def test_a_completed_task_blocks_even_after_its_keys_have_expired(harness: Harness) -> None:
    lease = await held(harness, more=UNTIL_DONE)
    await complete(harness.queue._internals.shard, [Settled(*lease, b"")])
    await harness.client.delete(harness.keys.task(lease.task))

    reply = await submit(harness, [a_row(more=UNTIL_DONE, options=call_options("replace"))])

    assert reply == ["OK", 0, 0, "EXISTS", lease.task]


async def test_a_dead_task_never_blocks(harness: Harness) -> None:
    await submitted(harness, more=UNTIL_DONE)
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.fail("error", "no", permanent=True)

    second = await submitted(harness, more=UNTIL_DONE)

    assert (await everything(harness))["idem:key"] == second


async def test_a_cancelled_task_never_blocks(harness: Harness) -> None:
    first = await submitted(harness, more=UNTIL_DONE)
    await harness.queue.cancel(f"task_{first}")

    second = await submitted(harness, more=UNTIL_DONE)

    assert (await everything(harness))["idem:key"] == second


async def test_an_external_id_names_one_task_until_it_is_dead_or_cancelled(
    harness: Harness,
) -> None:
    first = await harness.queue.enqueue("code", {"n": 1}, external_id="mine")

    again = await harness.queue.enqueue("code", {"n": 2}, external_id="mine")

    assert (again.id, again.created) == (first.id, False)
    await harness.queue.cancel(first.id)
    assert (await harness.queue.enqueue("code", {"n": 3}, external_id="mine")).created
