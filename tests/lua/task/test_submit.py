"""submit: new tasks, many in one call, independent of each other."""

from __future__ import annotations

import pytest

from rqueue.task.lane import Lane, signature
from tests.harness import Harness
from tests.lua.rows import DEFINITION, PLAIN, a_row, claim, everything, submit, submitted

AGEING = Lane("code", 0.1)


async def test_a_plain_task_is_one_hash_one_entry_and_one_place_in_its_lane(
    harness: Harness,
) -> None:
    row = a_row()

    reply = await submit(harness, [row])

    found = await everything(harness)
    (entry,) = found["ready"][0]
    assert reply == ["OK", 0]
    assert found == {
        "ready": ({entry: {"task": row.task}}, {}),
        "lanes": {signature(PLAIN): "1", "next": "1", "version": "*"},
        "lane:1": {row.task: 50_000_000.0},
        "stats": {"submitted": "1"},
        f"task:{row.task}": {
            "state": "READY",
            "lane": "1",
            "entry": entry,
            "score": "50000000",
            "def0": DEFINITION,
        },
    }


async def test_the_score_of_an_ageing_task_includes_its_time(harness: Harness) -> None:
    task = a_row()

    await submit(harness, [task], lanes=[AGEING])

    found = await everything(harness)
    (entry,) = found["ready"][0]
    created = int(entry.split("-")[0])
    score = found["lane:1"][task.task]
    # 0.1 points a minute are 5/3 millionths a ms; the entry may be a moment younger or older.
    assert abs(50_000_000 + created * 5 / 3 - score) < 100
    assert found[f"task:{task.task}"]["score"] == f"{score:.0f}"


async def test_many_tasks_of_one_call_share_lanes_and_a_count(harness: Harness) -> None:
    rows = [a_row(lane=1 + at % 2, base=at) for at in range(10)]

    reply = await submit(harness, rows, lanes=[PLAIN, Lane("mail", 0.0)])

    found = await everything(harness)
    assert reply == ["OK", 0]
    assert set(found) == {"ready", "lanes", "lane:1", "lane:2", "stats"} | {
        f"task:{row.task}" for row in rows
    }
    assert found["stats"] == {"submitted": "10"}
    assert found["lane:1"] == {row.task: float(at) for at, row in enumerate(rows) if at % 2 == 0}
    assert found["lane:2"] == {row.task: float(at) for at, row in enumerate(rows) if at % 2 == 1}
    assert [fields["task"] for fields in found["ready"][0].values()] == [r.task for r in rows]


async def test_a_repeated_id_creates_nothing(harness: Harness) -> None:
    rows = [
        a_row(),
        a_row(more={"idem": "k", "window": 1000, "unique": "until_done", "tags": ["a"]}),
        a_row(options={"delay": 1000}),
    ]
    first = await submit(harness, rows)
    before = await harness.dump()

    again = await submit(harness, rows)

    assert first == again == ["OK", 0]
    assert await harness.dump() == before


async def test_a_repeated_id_beside_a_new_one_creates_only_the_new_one(harness: Harness) -> None:
    old, new = a_row(), a_row()
    await submit(harness, [old])
    before = await everything(harness)

    assert await submit(harness, [old, new]) == ["OK", 0]

    found = await everything(harness)
    assert found[f"task:{old.task}"] == before[f"task:{old.task}"]
    assert set(found) - set(before) == {f"task:{new.task}"}
    assert list(found["lane:1"]) == [old.task, new.task]
    assert found["stats"] == {"submitted": "2"}


async def test_an_id_twice_in_one_call_is_one_task(harness: Harness) -> None:
    row = a_row()

    assert await submit(harness, [row, row]) == ["OK", 0]

    found = await everything(harness)
    assert [fields["task"] for fields in found["ready"][0].values()] == [row.task]
    assert found["stats"] == {"submitted": "1"}


async def test_an_id_of_a_leased_or_ended_task_is_known_too(harness: Harness) -> None:
    row = a_row()
    await submit(harness, [row])
    (lease,) = await harness.queue.claim(worker="w1")
    await lease.start()
    await lease.complete("done")
    before = await harness.dump()

    assert await submit(harness, [row]) == ["OK", 0]

    assert await harness.dump() == before


@pytest.mark.parametrize("lane", [PLAIN, AGEING], ids=["strict", "ageing"])
async def test_a_thousand_equal_tasks_are_claimed_in_the_order_of_the_call(
    harness: Harness, lane: Lane
) -> None:
    rows = [a_row() for _ in range(1000)]

    await submit(harness, rows, lanes=[lane])

    given: list[str] = []
    for seq in range(1, 11):
        given += [row.task for row in (await claim(harness, 100, seq=seq))[3:]]
    assert given == [row.task for row in rows]


@pytest.mark.parametrize("size", [15, 64, 65, 128, 129, 511, 512])
async def test_a_small_definition_is_in_the_hash_in_pieces(harness: Harness, size: int) -> None:
    body = "".join(chr(97 + at % 26) for at in range(size))

    task = await submitted(harness, definition=body)

    found = await everything(harness)
    pieces = {k: v for k, v in found[f"task:{task}"].items() if k.startswith("def")}
    assert pieces == {f"def{at // 64}": body[at : at + 64] for at in range(0, size, 64)}
    assert f"def:{task}" not in found
    assert (await claim(harness))[3].definition == body.encode()


async def test_a_large_definition_has_a_key_of_its_own(harness: Harness) -> None:
    body = "x" * 513

    task = await submitted(harness, definition=body)

    found = await everything(harness)
    assert found[f"def:{task}"] == body
    assert set(found[f"task:{task}"]) == {"state", "lane", "entry", "score"}
    assert set(found) == {"ready", "lanes", "lane:1", "stats", f"task:{task}", f"def:{task}"}
    assert (await claim(harness))[3].definition == body.encode()


async def test_tags_an_external_id_and_a_deadline_are_indexed(harness: Harness) -> None:
    more = {"tags": ["a:b", "c/d"], "ext": "sha", "deadline": 99, "on_deadline": "fail"}
    row = a_row(more=more)

    await submit(harness, [row])

    found = await everything(harness)
    assert set(found) == {
        *("ready", "lanes", "lane:1", "stats", f"task:{row.task}"),
        *("tag:a:b", "tag:c/d", "ext:sha", "deadlines"),
    }
    assert found["ext:sha"] == row.task
    assert found["deadlines"] == {row.task: 99.0}
    assert list(found["tag:a:b"]) == list(found["tag:c/d"]) == [row.task]
    assert found[f"task:{row.task}"]["more"] == row.special.split("\n")[0]
    assert found[f"task:{row.task}"]["flags"] == "m"


async def test_a_lane_too_many_is_refused_and_leaves_nothing(harness: Harness) -> None:
    rows = [a_row(lane=1), a_row(lane=2), a_row(lane=2, more={"tags": ["t"]}), a_row(lane=1)]

    reply = await submit(harness, rows, lanes=[PLAIN, Lane("mail", 0.0)], max_lanes=1)

    found = await everything(harness)
    assert reply == ["OK", 0, 1, "LANES", "", 2, "LANES", ""]
    assert set(found) == {
        *("ready", "lanes", "lane:1", "stats"),
        *(f"task:{rows[at].task}" for at in (0, 3)),
    }
    assert found["lanes"] == {signature(PLAIN): "1", "next": "1", "version": "*"}
    assert found["stats"] == {"submitted": "2"}


async def test_a_refused_task_leaves_an_empty_server_empty(harness: Harness) -> None:
    missing = {"parents": ["NOBODY"], "delay": 5, "if_exists": "replace"}
    more = {"idem": "k", "ext": "e", "tags": ["t"], "deadline": 1}

    reply = await submit(harness, [a_row(more=more, options=missing)])

    assert reply == ["OK", 0, 0, "PARENT", "NOBODY"]
    assert await harness.dump() == {}
