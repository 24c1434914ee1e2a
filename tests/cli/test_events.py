"""`rqueue events` and `rqueue notifier`: what happened, and telling others of it."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shell
from tests.harness import Harness


async def test_what_happened_is_one_line_each(harness: Harness, shell: Shell) -> None:
    await harness.queue.limits.open_breaker("code", 60)
    lease = await harness.running("review")
    await lease.fail("error", "no", permanent=True)

    opened, dead = await shell.lines("events")

    assert "breaker.opened" in opened
    assert "Circuit breaker OPEN for code" in opened
    assert f"Task {lease.id} moved to dead letter queue: error" in dead
    assert "critical" in dead


async def test_programs_get_json_and_may_choose(harness: Harness, shell: Shell) -> None:
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
async def test_wrong_words_are_wrong_usage(
    harness: Harness, shell: Shell, words: tuple[str, ...]
) -> None:
    found = await shell.run("events", *words)

    assert found.exit_code == 2
    assert words[1] in found.stderr or "after" in found.stderr


async def test_no_terminal_is_commanded_by_an_event(harness: Harness, shell: Shell) -> None:
    await harness.client.xadd(harness.keys.events(), {"event": "\x1b[2J", "detail": "\r\nfake"})

    (line,) = await shell.lines("events")

    assert line.isprintable()


async def test_events_that_are_gone_are_told_so(harness: Harness, shell: Shell) -> None:
    for _ in range(3):
        await harness.queue.limits.open_breaker("code", 60)
    first, *_ = await shell.json("events")
    await harness.client.xtrim(harness.keys.events(), maxlen=1, approximate=False)

    found = await shell.run("events", "--after", first["id"])

    assert found.exit_code == 3
    assert f"events after {first['id']} were deleted" in found.stderr


async def test_a_notifier_without_sinks_says_so(harness: Harness, shell: Shell) -> None:
    found = await shell.run("notifier")

    assert found.exit_code == 5
    assert "sinks: there are none" in found.stderr


async def test_a_notifier_without_its_secret_says_so(harness: Harness, shell: Shell) -> None:
    hook = '[{"kind":"webhook","name":"h","url":"https://e.org","secret_env":"NO_SUCH_SECRET"}]'
    shell.env["RQUEUE_SINKS"] = hook

    found = await shell.run("notifier")

    assert found.exit_code == 5
    assert "sinks.h.secret_env: the variable NO_SUCH_SECRET is not set" in found.stderr
