"""escalate: a dead task stays dead and is marked, and who did so is kept; once for each asking."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rqueue import State
from rqueue.errors import WrongState
from rqueue.store.scripts import Argument
from tests.house import House
from tests.lua.task.afterwards import LANES, W1, afterwards, ask
from tests.lua.task.test_discard import dead

TERMS: dict[str, Argument] = {"request": "r1", "how": '{"events":1000,"reviews":0}'}
SAID = {"by": "human:ada", "resolution": "escalate", "cause": "needs_human", "note": "pay it?"}


def row(task: Any, life: int = 1, said: dict[str, str] = SAID) -> tuple[Argument, ...]:
    return (task.ulid, life, json.dumps(said))


async def test_an_escalated_task_stays_dead_and_is_marked(house: House) -> None:
    task = await dead(house)
    before = await afterwards(house, a=task)

    said = await ask(house, "task/escalate", TERMS, [row(task)])

    assert said == ["OK", "OK"]
    found = await afterwards(house, a=task)
    marks = {"reviewed": "*", "resolution": "escalate"}
    event = {"event": "task.escalated", "task": "a", "detail": "needs_human"}
    assert found == before | LANES | W1 | {
        "task:a": before["task:a"] | marks,
        "reviews": [{"task": "a", "life": "1", "at": "*", **SAID}],
        "events": [*before["events"], event],
    }
    now = await house.task(task)
    assert (now.state, now.reviewed, now.resolution) == (State.DEAD_LETTERED, True, "escalate")


async def test_sent_again_it_says_the_same_and_changes_nothing(house: House) -> None:
    task = await dead(house)
    first = await ask(house, "task/escalate", TERMS, [row(task)])
    before = await house.dump()

    assert await ask(house, "task/escalate", TERMS, [row(task)]) == first
    assert await house.dump() == before


async def test_a_late_copy_is_not_another_review_whatever_came_between(house: House) -> None:
    task = await dead(house)
    first = await ask(house, "task/escalate", TERMS, [row(task)])
    await ask(house, "task/escalate", TERMS | {"request": "r2"}, [row(task)])
    await house.queue.revive(task)
    before = await house.dump()

    assert await ask(house, "task/escalate", TERMS, [row(task)]) == first
    assert await house.dump() == before


@pytest.mark.parametrize("how", ["revive", "discard"])
async def test_what_has_been_decided_about_is_not_handed_on(house: House, how: str) -> None:
    task = await dead(house)
    await getattr(house.queue, how)(task)
    before = await house.dump()

    said = await ask(house, "task/escalate", TERMS, [row(task)])

    assert said == ["OK", f"DECIDED:{'READY' if how == 'revive' else 'CANCELLED'}"]
    assert await house.dump() == before


async def test_another_asking_is_another_review(house: House) -> None:
    task = await dead(house)
    await ask(house, "task/escalate", TERMS, [row(task)])

    await ask(house, "task/escalate", TERMS | {"request": "r2"}, [row(task)])

    assert len((await afterwards(house))["reviews"]) == 2


async def test_only_the_dead_are_escalated_and_only_in_the_life_that_was_seen(house: House) -> None:
    task, lease = await dead(house), await house.running()
    before = await house.dump()
    rows = [row(lease.id), row(task, 2)]

    said = await ask(house, "task/escalate", TERMS, [*rows, ("0" * 26, 1, "")])

    assert said == ["OK", "STATE:RUNNING", "STATE:DEAD_LETTERED", "GONE"]
    assert await house.dump() == before
    with pytest.raises(WrongState):
        await house.queue.resolve(lease.id, "escalate")


async def test_an_escalated_task_may_be_revived_and_discarded(house: House) -> None:
    first, second = await dead(house), await dead(house)
    await ask(house, "task/escalate", TERMS, [row(first), row(second)])

    await house.queue.revive(first)
    await house.queue.discard(second)

    assert [(await house.task(one)).state for one in (first, second)] == ["READY", "CANCELLED"]


async def test_reviews_are_capped_where_there_is_no_archive(house: House) -> None:
    task = await dead(house)
    for n in range(300):
        how = {"request": f"r{n}", "how": '{"events":9,"reviews":20}'}
        await ask(house, "task/escalate", how, [row(task)])

    assert 20 <= await house.client.xlen(house.keys.reviews()) <= 120
