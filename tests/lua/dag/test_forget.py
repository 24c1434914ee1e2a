"""forget: the keys of a DAG's tasks expire when the DAG has ended, and not before."""

from __future__ import annotations

import pytest

from rqueue.core.outbox import GROUP
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.dag.planted import Planted, fan, planted, run, running, settled
from tests.lua.rows import pttl
from tests.lua.task.keys_after import afterwards, ask, expiring

CHAIN = {"a": [], "b": ["a"]}


async def ending(plant: Planted) -> set[str]:
    return await expiring(plant.harness, **plant.names)


async def archived(harness: Harness, *over: str) -> None:
    """The archive has seen everything that has ended, and that these DAGs are over."""
    entries = await harness.client.xrange(harness.keys.outbox())
    args: dict[str, Argument] = {"group": GROUP, "ttl": 60_000, "dags": " ".join(over)}
    await ask(harness, "archive/acknowledge", args, [(entry,) for entry, _ in entries])


async def test_nothing_expires_before_the_end(harness: Harness) -> None:
    plant = await planted(harness, CHAIN)
    (lease,) = await running(harness)
    await lease.complete("out")

    await settled(harness)

    assert await ending(plant) == set()
    assert (await afterwards(harness, **plant.names))["result:a"] == '"out"'


async def test_everything_expires_after_it(harness: Harness) -> None:
    more = {"a": {"ext": "own", "tags": ["t"]}}
    plant = await planted(harness, CHAIN, more=more, follow="{}")
    (lease,) = await running(harness)
    await lease.complete("out")
    await harness.queue.cancel(plant.ids["b"])
    await harness.promoter.tick()
    assert await plant.steps() == {"forget": "0"}

    assert await plant.forget() == ["OK", 0]

    assert await ending(plant) == {
        "task:a", "task:b", "result:a", "dag:D", "members:D", "follow:D", "ext:own",
    }  # fmt: skip
    assert 30_000 < await pttl(harness, f"task:{plant.ids['a'].ulid}") <= 60_000
    found = await plant.after()
    assert not {"unfinished", "tag:t"} & set(found)


async def test_many_go_in_bounded_steps(harness: Harness) -> None:
    plant = await planted(harness, fan(5))
    await plant.cancel("no need")

    assert [await plant.forget(limit=4) for _ in range(3)] == [["OK", 1], ["OK", 0], ["OK", 0]]

    assert len(await ending(plant)) == 8


async def test_a_task_may_ask_to_be_kept_longer(harness: Harness) -> None:
    plant = await planted(harness, {"a": []}, more={"a": {"ttl": 120_000}})
    await run(plant, a="done")

    await plant.forget()

    assert await pttl(harness, f"task:{plant.ids['a'].ulid}") > 60_000


async def test_the_archive_lets_go_of_what_it_sees_after_the_end(archived_harness: Harness) -> None:
    harness = archived_harness
    plant = await planted(harness, CHAIN)
    await run(plant, a="done", b="done")
    await plant.forget(archive=1)
    assert await ending(plant) == set()

    await archived(harness, "other", plant.dag)

    assert {"dag:D", "members:D", "task:a", "task:b"} <= await ending(plant)


async def test_what_the_archive_saw_before_the_end_goes_with_it(archived_harness: Harness) -> None:
    harness = archived_harness
    plant = await planted(harness, CHAIN)
    await run(plant, a="done")
    await archived(harness)
    assert await ending(plant) == set()
    assert (await plant.after())["task:a"]["archived"] == "1"
    await run(plant, b="done")

    await plant.forget(archive=1)

    assert await ending(plant) == {"task:a"}
    await archived(harness, plant.dag)
    assert {"dag:D", "members:D", "task:a", "task:b"} <= await ending(plant)


async def test_a_dag_that_the_archive_saw_first_goes_with_the_last_step(
    archived_harness: Harness,
) -> None:
    harness = archived_harness
    plant = await planted(harness, fan(3))
    await plant.cancel("no need")

    await archived(harness, plant.dag)

    assert "dag:D" not in await ending(plant)
    assert (await plant.after())["dag:D"]["archived"] == "1"
    await plant.forget(archive=1)
    assert {"dag:D", "members:D"} <= await ending(plant)


async def test_the_archive_lets_go_of_what_has_outlived_its_dag(archived_harness: Harness) -> None:
    harness = archived_harness
    plant = await planted(harness, {"a": []})
    await run(plant, a="done")
    await harness.client.delete(harness.keys.dag(plant.dag))

    await archived(harness)

    assert await ending(plant) == {"task:a"}


async def test_without_an_end_there_is_nothing_to_do(harness: Harness) -> None:
    plant = await planted(harness, CHAIN)
    before = await harness.dump()

    assert await plant.forget() == ["OK", 0]
    assert await harness.dump() == before
    assert await ending(plant) == set()


@pytest.mark.parametrize("swept", [True, False])
async def test_a_dag_whose_row_does_not_say_that_it_is_over_stays(
    archived_harness: Harness, swept: bool
) -> None:
    harness = archived_harness
    plant = await planted(harness, CHAIN)
    await run(plant, a="done", b="done")
    if swept:
        await plant.forget(archive=1)

    await archived(harness)
    await plant.forget(archive=1)

    assert await ending(plant) == {"task:a", "task:b"}
    assert "archived" not in (await plant.after())["dag:D"]
