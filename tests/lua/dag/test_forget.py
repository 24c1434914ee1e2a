"""forget: the keys of a DAG's tasks expire when the DAG has ended, and not before."""

from __future__ import annotations

import pytest

from rqueue.core.outbox import GROUP
from rqueue.store.library import Argument
from tests.harness import Harness
from tests.lua.dag.dags import StoredDag, committed_dag, fan, run, running, settled
from tests.lua.rows import pttl
from tests.lua.task.keyspace import all_keys, expiring_keys, run_move

CHAIN = {"a": [], "b": ["a"]}


async def ending(dag: StoredDag) -> set[str]:
    return await expiring_keys(dag.harness, **dag.names)


async def archived(harness: Harness, *over: str) -> None:
    """The archive has seen everything that has ended, and that these DAGs are over."""
    entries = await harness.client.xrange(harness.keys.outbox())
    args: dict[str, Argument] = {"group": GROUP, "ttl": 60_000, "dags": " ".join(over)}
    await run_move(harness, "archive/acknowledge", args, [(entry,) for entry, _ in entries])


async def test_nothing_expires_before_the_end(harness: Harness) -> None:
    dag = await committed_dag(harness, CHAIN)
    (lease,) = await running(harness)
    await lease.complete("out")

    await settled(harness)

    assert await ending(dag) == set()
    assert (await all_keys(harness, **dag.names))["result:a"] == '"out"'


async def test_everything_expires_after_it(harness: Harness) -> None:
    more = {"a": {"ext": "own", "tags": ["t"]}}
    dag = await committed_dag(harness, CHAIN, more=more, follow="{}")
    (lease,) = await running(harness)
    await lease.complete("out")
    await harness.queue.cancel(dag.ids["b"])
    await harness.promoter.tick()
    assert await dag.steps() == {"forget": "0"}

    assert await dag.forget() == ["OK", 0]

    assert await ending(dag) == {
        "task:a", "task:b", "result:a", "dag:D", "members:D", "follow:D", "ext:own",
    }  # fmt: skip
    assert 30_000 < await pttl(harness, f"task:{dag.ids['a'].ulid}") <= 60_000
    found = await dag.after()
    assert not {"unfinished", "tag:t"} & set(found)


async def test_many_tasks_expire_in_bounded_steps(harness: Harness) -> None:
    dag = await committed_dag(harness, fan(5))
    await dag.cancel("no need")

    assert [await dag.forget(limit=4) for _ in range(3)] == [["OK", 1], ["OK", 0], ["OK", 0]]

    assert len(await ending(dag)) == 8


async def test_a_task_with_a_longer_ttl_is_kept_longer(harness: Harness) -> None:
    dag = await committed_dag(harness, {"a": []}, more={"a": {"ttl": 120_000}})
    await run(dag, a="done")

    await dag.forget()

    assert await pttl(harness, f"task:{dag.ids['a'].ulid}") > 60_000


async def test_a_task_archived_after_the_end_expires_with_its_acknowledgement(
    archived_harness: Harness,
) -> None:
    harness = archived_harness
    dag = await committed_dag(harness, CHAIN)
    await run(dag, a="done", b="done")
    await dag.forget(archive=1)
    assert await ending(dag) == set()

    await archived(harness, "other", dag.ulid)

    assert {"dag:D", "members:D", "task:a", "task:b"} <= await ending(dag)


async def test_a_task_archived_before_the_end_expires_at_the_end(archived_harness: Harness) -> None:
    harness = archived_harness
    dag = await committed_dag(harness, CHAIN)
    await run(dag, a="done")
    await archived(harness)
    assert await ending(dag) == set()
    assert (await dag.after())["task:a"]["archived"] == "1"
    await run(dag, b="done")

    await dag.forget(archive=1)

    assert await ending(dag) == {"task:a"}
    await archived(harness, dag.ulid)
    assert {"dag:D", "members:D", "task:a", "task:b"} <= await ending(dag)


async def test_a_dag_that_is_archived_first_expires_with_the_last_step(
    archived_harness: Harness,
) -> None:
    harness = archived_harness
    dag = await committed_dag(harness, fan(3))
    await dag.cancel("no need")

    await archived(harness, dag.ulid)

    assert "dag:D" not in await ending(dag)
    assert (await dag.after())["dag:D"]["archived"] == "1"
    await dag.forget(archive=1)
    assert {"dag:D", "members:D"} <= await ending(dag)


async def test_a_task_that_outlived_its_dag_expires_with_its_acknowledgement(
    archived_harness: Harness,
) -> None:
    harness = archived_harness
    dag = await committed_dag(harness, {"a": []})
    await run(dag, a="done")
    await harness.client.delete(harness.keys.dag(dag.ulid))

    await archived(harness)

    assert await ending(dag) == {"task:a"}


async def test_an_unfinished_dag_is_not_changed(harness: Harness) -> None:
    dag = await committed_dag(harness, CHAIN)
    before = await harness.dump()

    assert await dag.forget() == ["OK", 0]
    assert await harness.dump() == before
    assert await ending(dag) == set()


@pytest.mark.parametrize("swept", [True, False])
async def test_a_dag_whose_row_does_not_contain_its_end_stays(
    archived_harness: Harness, swept: bool
) -> None:
    harness = archived_harness
    dag = await committed_dag(harness, CHAIN)
    await run(dag, a="done", b="done")
    if swept:
        await dag.forget(archive=1)

    await archived(harness)
    await dag.forget(archive=1)

    assert await ending(dag) == {"task:a", "task:b"}
    assert "archived" not in (await dag.after())["dag:D"]
