"""facts: what is kept of several DAGs, in one call."""

from __future__ import annotations

from rqueue.store.outbox import read_dags
from tests.house import House
from tests.lua.dag.planted import a_plant, planted


async def test_each_is_told_as_it_stands(house: House) -> None:
    one, two = await planted(house, {"a": []}), await planted(house, {"a": [], "b": ["a"]})
    before = await house.dump()

    found = await read_dags(house.queue.shard, [one.dag, two.dag])

    assert [fields["total"] for fields in found] == ["1", "2"]
    assert {fields["status"] for fields in found} == {"pending"}
    assert await house.dump() == before


async def test_what_is_not_there_or_not_written_yet_is_empty(house: House) -> None:
    half = await a_plant(house, {"a": []}).written()

    found = await read_dags(house.queue.shard, ["01ARZ3NDEKTSV4RRFFQ69G5FAV", half.dag])

    assert found == [{}, {}]
