"""Assertions about enqueued tasks: what they accept, and their messages."""

from __future__ import annotations

import pytest

from rqueue.testing import Memory
from tests.testing.shop import Shop


async def test_tasks_are_found_by_parts_of_their_payload_and_options(
    shop: Shop, held: Memory
) -> None:
    first = await shop.resize.options(priority=5).enqueue("a.png", width=400)
    await shop.resize.enqueue("a.png")
    await held.run_until_idle()

    assert [task.id for task in held.assert_enqueued(shop.resize, {"width": 400})] == [first.id]
    held.assert_enqueued("resize", {"path": "a.png"}, count=2)
    held.assert_enqueued(shop.resize, priority=5, count=1)
    held.assert_not_enqueued(shop.resize, {"path": "b.png"})
    held.assert_not_enqueued(shop.plain)


async def test_the_message_lists_the_enqueued_tasks(shop: Shop, held: Memory) -> None:
    with pytest.raises(AssertionError, match="nothing"):
        held.assert_enqueued(shop.resize)
    await shop.queue.enqueue_many([shop.plain.call(n) for n in range(25)])

    with pytest.raises(AssertionError) as failed:
        held.assert_enqueued(shop.plain, {"n": 3}, count=2, priority=50)
    with pytest.raises(AssertionError, match="0 expected, 1 enqueued"):
        held.assert_not_enqueued(shop.plain, {"n": 7})

    words = str(failed.value)
    assert words.startswith("plain with {'n': 3}, priority=50: 2 expected, 1 enqueued")
    assert "  plain {'n': 0} READY" in words
    assert words.endswith("... and 5 more")


@pytest.mark.parametrize(
    ("payload", "wanted", "fits"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": None}, {"a": None}, True),
        ({}, {"a": None}, False),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ([1, 2], [1, 2], True),
        ("text", {"a": 1}, False),
    ],
)
async def test_a_mapping_may_have_more_items_and_other_values_must_be_equal(
    held: Memory, payload: object, wanted: object, fits: bool
) -> None:
    await held.queue.enqueue("code", payload)

    if fits:
        held.assert_enqueued("code", wanted)
    else:
        held.assert_not_enqueued("code", wanted)
