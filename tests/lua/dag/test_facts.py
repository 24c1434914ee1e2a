"""facts: what is kept of several DAGs, in one call."""

from __future__ import annotations

from rqueue.core.outbox import read_dags
from tests.harness import Harness
from tests.lua.dag.planted import a_plant, planted


async def test_each_is_told_as_it_stands(harness: Harness) -> None:
    one, two = await planted(harness, {"a": []}), await planted(harness, {"a": [], "b": ["a"]})
    before = await harness.dump()

    found = await read_dags(harness.queue._internals.shard, [one.dag, two.dag])

    assert [fields["total"] for fields in found] == ["1", "2"]
    assert {fields["status"] for fields in found} == {"pending"}
    assert await harness.dump() == before


async def test_what_is_not_there_or_not_written_yet_is_empty(harness: Harness) -> None:
    half = await a_plant(harness, {"a": []}).written()

    found = await read_dags(
        harness.queue._internals.shard, ["01ARZ3NDEKTSV4RRFFQ69G5FAV", half.dag]
    )

    assert found == [{}, {}]
