"""Submits: ids from the caller, and the sizes of pages."""

from __future__ import annotations

from rqueue.core.submit import SubmitResult, pages_of, submit
from rqueue.task.ids import new_task_ids
from tests.harness import Harness


async def test_tasks_on_all_pages_have_the_given_ids(harness: Harness) -> None:
    ids = new_task_ids(150)
    drafts = [
        harness.queue._internals.drafter.draft({"type": "code", "payload": n}) for n in range(150)
    ]

    answers = await submit(harness.queue._internals.shard, drafts, ids=ids)

    assert answers == [SubmitResult(task, True) for task in ids]
    for at in (0, 15, 16, 149):
        assert (await harness.task(ids[at])).payload == at


async def test_an_existing_id_is_not_changed(harness: Harness) -> None:
    ids = new_task_ids(2)
    one, two, three = (
        harness.queue._internals.drafter.draft({"type": "code", "payload": n}) for n in range(3)
    )
    await submit(harness.queue._internals.shard, [one], ids=ids[:1])

    answers = await submit(harness.queue._internals.shard, [three, two], ids=ids)

    assert answers == [SubmitResult(task, True) for task in ids]
    assert [(await harness.task(task)).payload for task in ids] == [0, 1]
    assert (await harness.queue.counts()).submitted == 2


async def test_tasks_with_many_dependencies_are_sent_in_smaller_pages(harness: Harness) -> None:
    above = new_task_ids(200)
    many = harness.queue._internals.drafter.draft({"type": "code", "depends_on": above})
    more = harness.queue._internals.drafter.draft(
        {"type": "code", "depends_on": [*above, *new_task_ids(300)]}
    )
    plain = harness.queue._internals.drafter.draft({"type": "code"})

    pages = list(pages_of([plain, many, many, many, more, plain, more]))

    assert [len(page.drafts) for page in pages] == [3, 1, 2, 1]
