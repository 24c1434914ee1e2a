"""`rqueue counts, queues, events`."""

from __future__ import annotations

import pytest

from rqueue import Queue
from rqueue.runtime import assemble
from rqueue.settings.load import Settings
from tests.cli.conftest import Shell, columns
from tests.harness import NAME, Harness


async def test_each_event_is_one_line(harness: Harness, shell: Shell) -> None:
    await harness.queue.limits.open_breaker("code", 60)
    lease = await harness.running("review")
    await lease.fail("error", "no", permanent=True)

    opened, dead = await shell.lines("events")

    assert "breaker.opened" in opened
    assert "Circuit breaker OPEN for code" in opened
    assert f"Task {lease.id} moved to dead letter queue: error" in dead
    assert "critical" in dead


async def test_events_are_filtered_as_json(harness: Harness, shell: Shell) -> None:
    await harness.queue.limits.open_breaker("code", 60)
    lease = await harness.running("review")
    await lease.fail("error", "no", permanent=True)
    opened, dead = await shell.json("events")

    assert await shell.json("events", "--event", "task.*") == [dead]
    assert await shell.json("events", "--task", lease.id) == [dead]
    assert await shell.json("events", "--after", opened["id"]) == [dead]
    assert await shell.json("events", "--after", "$") == []
    assert (opened["subject"], opened["detail"]) == ("code", {"for_ms": 60000})


@pytest.mark.parametrize("words", [("--after", "yesterday"), ("--event", "task.unheard_of")])
async def test_invalid_event_filters_are_wrong_usage(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    found = await shell.run("events", *words)

    assert found.exit_code == 2
    assert words[1] in found.stderr or "after" in found.stderr


async def test_control_characters_of_an_event_are_escaped(harness: Harness, shell: Shell) -> None:
    await harness.client.xadd(harness.keys.events(), {"event": "\x1b[2J", "detail": "\r\nfake"})

    (line,) = await shell.lines("events")

    assert line.isprintable()


async def test_reading_after_a_deleted_event_is_exit_3(harness: Harness, shell: Shell) -> None:
    for _ in range(3):
        await harness.queue.limits.open_breaker("code", 60)
    first, *_ = await shell.json("events")
    await harness.client.xtrim(harness.keys.events(), maxlen=1, approximate=False)

    found = await shell.run("events", "--after", first["id"])

    assert found.exit_code == 3
    assert f"events after {first['id']} were deleted" in found.stderr


async def test_counts_are_by_type_and_state(harness: Harness, shell: Shell) -> None:
    await harness.running("code")
    await harness.queue.enqueue("docs")
    await harness.queue.pause(type="docs")

    result = await shell.run("counts")

    head, *rows = [columns(line) for line in result.stdout.splitlines()]
    table = {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}
    assert (table["code"]["RUNNING"], table["docs"]["READY"]) == ("1", "1")
    assert (table["all"]["RUNNING"], table["all"]["READY"]) == ("1", "1")
    assert result.stderr == "rqueue: paused: type=docs\n"
    (document,) = await shell.json("counts")
    assert (document["live"], document["submitted"], document["paused"]) == (2, 2, ["type=docs"])


async def test_every_queue_of_the_server_is_listed(harness: Harness, shell: Shell) -> None:
    await harness.running()
    connection = harness.queue._internals.runtime.connection
    other = Queue("another", runtime=assemble(Settings(name="another", url=""), connection))
    await other.enqueue("code")
    await other.pause()
    await harness.client.set("elsewhere", 1)

    lines = await shell.lines("queues")

    assert [columns(line) for line in lines[1:]] == [
        ["another", "1", "0", "0", "0", "0", "queue"],
        [NAME, "0", "0", "1", "0", "0"],
    ]
    assert [line["queue"] for line in await shell.json("queues")] == ["another", NAME]
