"""cancel: a DAG is given up whole; from the first call on nothing of it is handed out."""

from __future__ import annotations

import pytest

from rqueue.errors import LeaseLost
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.dag.planted import DIAMOND, a_plant, fan, planted, run, running, settled
from tests.lua.dag.test_submit import LANE, TASK
from tests.lua.rows import a_row, submit
from tests.lua.task.keys_after import ask

ENDED = {"finished": "*", "settled": "cancel r", "state": "CANCELLED", "why": "no need"}


async def test_all_of_it_ends(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)

    assert await plant.cancel("no need") == ["OK", 0, 4]

    found = await plant.after()
    left = found.pop("cancelling")
    assert left == {f"children {name}": "cascade cancelled" for name in "abc"}
    assert found == LANE | {
        "dag:D": {
            "cancelled": "4", "closing": "cancelled", "created": "*", "dead": "0", "edges": "4",
            "before": "0", "finished": "*", "on_failure": "hold", "open": "0", "request": "r",
            "status": "cancelled", "total": "4", "why": "no need",
        },
        "members:D": ["a", "b", "c", "d"],
        "dags": ["D"],
        "unfinished": {"forget D": "0"},
        "task:a": TASK | ENDED | {"flags": "dD", "entry": "*"},
        "task:b": TASK | ENDED | {"flags": "oD", "up0": "a", "down": "d"},
        "task:c": TASK | ENDED | {"flags": "oD", "up0": "a", "down": "d"},
        "task:d": TASK | ENDED | {"flags": "uD", "up0": "b c"},
        "ready": ([], {}),
        "events": [
            *({"event": "task.cancelled", "task": name, "detail": "no need"} for name in "abcd"),
            {"event": "dag.cancelled", "dag": "D", "detail": "4"},
        ],
        "stats": {"1:CANCELLED": 4, "submitted": 4},
    }  # fmt: skip


async def test_many_end_in_pages(harness: Harness) -> None:
    plant = await planted(harness, fan(599))

    assert await plant.cancel("no need") == ["OK", 1, 250]
    assert await plant.steps() == {"cancel": "250"}
    assert await plant.cancel("no need") == ["OK", 1, 500]
    assert await plant.cancel("no need") == ["OK", 0, 600]

    assert await plant.facts() == ("cancelled", "0", "0", "600")
    assert await plant.steps() == {"forget": "0"}


async def test_nothing_of_it_is_handed_out_from_the_first_call_on(harness: Harness) -> None:
    plant = await planted(harness, {str(at): [] for at in range(30)})
    other = (await harness.queue.enqueue("code")).id

    await plant.cancel("no need", limit=1)

    leases = await harness.queue.claim(worker="w1", n=50)
    assert [lease.id for lease in leases] == [other]
    found = await plant.after()
    assert len(found["held:D"]) == 29
    assert found["stats"]["1:READY"] == 29
    await plant.cancel(limit=50)
    assert not {"held:D", "lane:1"} & set(await plant.after())
    assert await plant.facts() == ("cancelled", "0", "0", "30")


async def test_the_services_go_on_where_a_caller_died(harness: Harness) -> None:
    plant = await planted(harness, fan(9))
    await plant.cancel("no need", limit=2)

    await settled(harness)

    assert await plant.facts() == ("cancelled", "0", "0", "10")
    assert "cancelling" not in await plant.after()


async def test_a_step_of_one_that_has_ended_meanwhile_does_not_stay(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": [], "c": []})
    await run(plant, c="done", b="done")
    await plant.cancel("no need", limit=1)
    assert await plant.facts() == ("cancelled", "0", "0", "1")
    assert "cancel" in await plant.steps()

    await settled(harness)

    assert await plant.steps() == {}


async def test_who_holds_one_is_fenced(harness: Harness) -> None:
    plant = await planted(harness, {"a": []})
    (lease,) = await running(harness)

    await plant.cancel("no need")

    with pytest.raises(LeaseLost):
        await lease.complete()


async def test_tasks_that_are_not_committed_yet_end_too(harness: Harness) -> None:
    plant = await a_plant(harness, fan(5)).written()
    await plant.commit(limit=2)

    assert await plant.cancel("no need") == ["OK", 0, 6]
    assert await plant.commit(total="") == ["OK", 0]

    assert await plant.counted() == {"CANCELLED": 6}
    assert (await plant.after())["stats"] == {"1:CANCELLED": 6, "submitted": 6}


async def test_those_outside_that_wait_for_it_end_with_its_name(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": ["a"]})
    outside = a_plant(harness, {"x": [], "y": ["x"]}, outside={"x": [plant.ids["b"].ulid]})
    await outside.written()
    await outside.commit()

    await plant.cancel("no need")
    await settled(harness)

    assert await outside.counted() == {"CANCELLED": 2}
    task = await harness.queue.get(outside.ids["x"])
    assert task.cancel_reason == f"Parent {plant.ids['b']} cancelled"
    assert await outside.facts() == ("cancelled", "0", "0", "2")


async def test_what_is_dead_stays_so_until_it_is_resolved(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": []})
    await run(plant, a="dead")

    assert await plant.cancel("no need") == ["OK", 0, 1]

    assert await plant.facts() == ("failed", "0", "1", "1")
    await harness.queue.dead.discard(plant.ids["a"])
    assert await plant.facts() == ("cancelled", "0", "0", "2")


async def test_where_only_the_dead_are_left_there_is_nothing_to_give_up(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": ["a"]})
    await run(plant, a="dead")
    await plant.cancel("no need")
    before = await harness.dump()

    assert await plant.cancel("no need", request="another") == ["STATE", "failed"]
    assert await harness.dump() == before


async def test_what_others_give_up_for_it_is_counted(harness: Harness) -> None:
    plant = await planted(harness, fan(5), on_failure="fail_fast")
    await run(plant, a="dead")
    assert await plant.cancel(limit=2, request="keeper") == ["OK", 1, 1]

    assert await plant.cancel("no need", limit=2) == ["OK", 1, 3]
    assert await plant.cancel(limit=9, request="keeper") == ["OK", 0, 5]

    assert await plant.cancel("no need", limit=2) == ["OK", 0, 5]
    assert await plant.cancel("no need", request="another") == ["STATE", "failed"]


async def test_what_a_cascade_of_it_cancels_first_is_counted(harness: Harness) -> None:
    plant = await planted(harness, fan(5))
    assert await plant.cancel("no need", limit=1) == ["OK", 1, 1]
    await harness.promoter.tick()

    assert await plant.cancel("no need") == ["OK", 0, 6]


async def test_one_that_has_ended_says_so(harness: Harness) -> None:
    plant = await planted(harness, {"a": []})
    await run(plant, a="done")
    before = await harness.dump()

    assert await plant.cancel("no need") == ["STATE", "completed"]
    assert await harness.dump() == before


async def test_sent_again_it_says_the_same(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)
    await plant.cancel("no need")
    before = await harness.dump()

    assert await plant.cancel("no need") == ["OK", 0, 4]
    assert await plant.cancel("no need", request="another") == ["STATE", "cancelled"]
    assert await harness.dump() == before


async def test_without_a_reason_it_only_goes_on(harness: Harness) -> None:
    plant = await planted(harness, DIAMOND)
    before = await harness.dump()

    assert await plant.cancel() == ["OK", 0, 0]
    assert await harness.dump() == before


async def test_what_nobody_sees_is_gone(harness: Harness) -> None:
    plant = await a_plant(harness, DIAMOND).written()
    before = await harness.dump()

    assert await plant.cancel("no need") == ["GONE"]
    assert await a_plant(harness, DIAMOND).cancel("no need") == ["GONE"]
    assert await harness.dump() == before


async def test_a_task_cannot_join_one_that_is_given_up(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": []})
    await running(harness)
    await plant.cancel("no need", limit=1)
    child = a_row(ask={"parents": [plant.ids["b"].ulid]})

    assert await submit(harness, [child]) == ["OK", 0]

    assert await plant.field("total") == "2"
    await settled(harness)
    assert (await harness.queue.get(f"task_{child.task}")).state == "CANCELLED"


async def test_all_go_to_the_archive(archived_harness: Harness) -> None:
    plant = await planted(archived_harness, {"a": [], "b": ["a"]})

    await plant.cancel("no need")

    found = await plant.after()
    assert found["outbox"] == [{"a": "1 CANCELLED", "b": "1 CANCELLED"}]
    assert found["stats"]["outbox"] == 2


async def test_who_waits_for_its_end_is_told(harness: Harness) -> None:
    plant = await planted(harness, {"a": []})
    args: dict[str, Argument] = {"box": "x", "keep_ms": 60_000}
    assert await ask(harness, "task/watch", args, [(f"dag_{plant.dag}",)]) == ["OK", "pending"]

    await plant.cancel("no need")

    found = await plant.after()
    assert found["mail:x"] == ["ended dag_D"]
    assert "watchers:dag_D" not in found
    assert await ask(harness, "task/watch", args, [(f"dag_{plant.dag}",)]) == ["OK", "cancelled"]


async def test_the_call_that_began_it_does_not_begin_again(harness: Harness) -> None:
    plant = await planted(harness, {"a": [], "b": [], "c": []})
    await run(plant, a="dead")
    assert await plant.cancel("enough", limit=1) == ["OK", 1, 0]
    # Another finishes it, and the dead task is revived, before its caller goes on.
    assert await plant.cancel(limit=9, request="other") == ["OK", 0, 2]
    await harness.queue.dead.retry(plant.ids["a"])

    assert await plant.cancel("enough", limit=1) == ["OK", 0, 2]

    assert await plant.states() == {"a": "READY", "b": "CANCELLED", "c": "CANCELLED"}
