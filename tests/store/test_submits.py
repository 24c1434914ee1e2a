"""A submit whose ids the caller gives."""

from __future__ import annotations

from rqueue.model.ids import new_task_ids
from rqueue.store.submits import Taken, pages_of, submit
from tests.house import House


async def test_tasks_get_the_ids_they_are_given_through_all_pages(house: House) -> None:
    ids = new_task_ids(150)
    drafts = [house.queue.drafter.draft({"type": "code", "payload": n}) for n in range(150)]

    answers = await submit(house.queue.shard, drafts, ids=ids)

    assert answers == [Taken(task, True) for task in ids]
    for at in (0, 15, 16, 149):
        assert (await house.task(ids[at])).payload == at


async def test_an_id_that_is_there_already_is_left_as_it_is(house: House) -> None:
    ids = new_task_ids(2)
    one, two, three = (house.queue.drafter.draft({"type": "code", "payload": n}) for n in range(3))
    await submit(house.queue.shard, [one], ids=ids[:1])

    answers = await submit(house.queue.shard, [three, two], ids=ids)

    assert answers == [Taken(task, True) for task in ids]
    assert [(await house.task(task)).payload for task in ids] == [0, 1]
    assert (await house.queue.counts()).submitted == 2


async def test_tasks_that_wait_for_many_go_in_smaller_portions(house: House) -> None:
    above = new_task_ids(200)
    many = house.queue.drafter.draft({"type": "code", "depends_on": above})
    more = house.queue.drafter.draft({"type": "code", "depends_on": [*above, *new_task_ids(300)]})
    plain = house.queue.drafter.draft({"type": "code"})

    pages = list(pages_of([plain, many, many, many, more, plain, more]))

    assert [len(page.drafts) for page in pages] == [3, 1, 2, 1]
