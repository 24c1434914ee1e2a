"""facts: the hashes of several DAGs, in one call."""

from __future__ import annotations

from rqueue.core.outbox import read_dags
from tests.harness import Harness
from tests.lua.dag.dags import committed_dag, unsent_dag


async def test_each_hash_is_returned_as_it_is(harness: Harness) -> None:
    one, two = (
        await committed_dag(harness, {"a": []}),
        await committed_dag(harness, {"a": [], "b": ["a"]}),
    )
    before = await harness.dump()

    found = await read_dags(harness.queue._internals.shard, [one.ulid, two.ulid])

    assert [fields["total"] for fields in found] == ["1", "2"]
    assert {fields["status"] for fields in found} == {"pending"}
    assert await harness.dump() == before


async def test_an_unknown_or_uncommitted_dag_has_an_empty_hash(harness: Harness) -> None:
    half = await unsent_dag(harness, {"a": []}).written()

    found = await read_dags(
        harness.queue._internals.shard, ["01ARZ3NDEKTSV4RRFFQ69G5FAV", half.ulid]
    )

    assert found == [{}, {}]
