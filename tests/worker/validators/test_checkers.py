"""Patterns and schemas are checked in another process: the worker continues, whatever a task
contains.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rqueue.task.validation import Check
from rqueue.worker.validators.checkers import Checkers
from tests.worker.running import until

LONG_SEC = 30.0
# Backtracks practically without end: each a is in one group or the next.
CATASTROPHE = Check("regex", "(a+)+b")
VICTIM = "a" * 60


@pytest.fixture
async def checkers() -> AsyncIterator[Checkers]:
    made = Checkers()
    yield made
    await made.aclose()
    assert made.all == set()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    ("pattern", "output", "passes"),
    [
        ("[a-z]+", "words", True),
        ("[a-z]+", "words 7", False),
        ("(?s).*7.*", "words\n7", True),
        ("4.", 42, True),
        (r'\{"a":\["ü",null\]\}', {"a": ["ü", None]}, True),
        ("null", None, True),
    ],
)
async def test_a_pattern_matches_the_whole_text_or_the_json_of_other_outputs(
    checkers: Checkers, pattern: str, output: Any, passes: bool
) -> None:
    found = await checkers.check(Check("regex", pattern), output, LONG_SEC)

    assert found == ("" if passes else f"the result does not match {pattern!r}")


async def test_a_catastrophic_pattern_is_stopped_and_the_loop_runs_meanwhile(
    checkers: Checkers,
) -> None:
    steps = 0

    async def step() -> None:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0.005)

    stepping = asyncio.create_task(step())
    with pytest.raises(TimeoutError):
        await checkers.check(CATASTROPHE, VICTIM, 0.3)
    stepping.cancel()

    assert steps > 10
    assert checkers.all == set()
    assert await checkers.check(Check("regex", "a"), "a", LONG_SEC) == ""


@pytest.mark.parametrize("busy", [True, False])
async def test_a_check_that_is_cancelled_leaves_no_process(checkers: Checkers, busy: bool) -> None:
    if busy:
        await checkers.check(Check("regex", "a"), "a", LONG_SEC)
    checking = asyncio.create_task(checkers.check(CATASTROPHE, VICTIM, LONG_SEC))
    # The process runs the check, or is still starting.
    await until(lambda: checkers.all and not checkers.spare)
    (checker,) = checkers.all

    checking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await checking

    assert is_gone(checker.process.pid)
    assert checkers.all == set()


async def test_a_process_that_starts_during_close_is_ended_too(checkers: Checkers) -> None:
    # A check that does not end, in case the process has started by then.
    checking = asyncio.create_task(checkers.check(CATASTROPHE, VICTIM, LONG_SEC))
    await until(lambda: checkers.all)
    (checker,) = checkers.all

    await checkers.aclose()

    assert is_gone(checker.process.pid)
    with pytest.raises(BrokenPipeError):
        await checking


async def test_a_checker_ends_by_itself_after_the_time_limit(checkers: Checkers) -> None:
    checker = await checkers.acquire()
    checking = asyncio.create_task(checker.run(CATASTROPHE, VICTIM, 0.1))

    with pytest.raises(TimeoutError):
        await checking

    # The kernel ends the process a second later.
    assert await asyncio.wait_for(checker.process.wait(), 20) == -14


async def test_processes_are_reused_and_no_more_than_needed_are_started(
    checkers: Checkers,
) -> None:
    check = Check("regex", "a")
    await asyncio.gather(*[checkers.check(check, "a", LONG_SEC) for _ in range(3)])
    pids = {one.process.pid for one in checkers.all}

    for _ in range(5):
        await checkers.check(check, "a", LONG_SEC)

    assert len(pids) == 3
    assert {one.process.pid for one in checkers.all} == pids


async def test_a_dead_process_is_replaced(checkers: Checkers) -> None:
    check = Check("regex", "a")
    await checkers.check(check, "a", LONG_SEC)
    (checker,) = checkers.all
    checker.kill()
    await checker.process.wait()

    assert await checkers.check(check, "a", LONG_SEC) == ""


async def test_each_check_gets_its_own_answer(checkers: Checkers) -> None:
    texts = ["x" * 100_000, "y", 'with "quotes"\nand lines', "z"]
    for text in texts:
        assert await checkers.check(Check("regex", "y"), text, LONG_SEC) == (
            "" if text == "y" else "the result does not match 'y'"
        )


@pytest.mark.parametrize(
    ("schema", "output", "error"),
    [
        ({"type": "object", "required": ["a"]}, {"a": 1}, ""),
        ({"type": "object", "required": ["a"]}, {}, 'result: "a" is a required property'),
        (
            {"properties": {"a": {"items": {"type": "integer"}}}},
            {"a": [1, "x"]},
            'result[\'a\'][1]: "x" is not of type "integer"',
        ),
        (False, 1, "result: False schema does not allow 1"),
        ({"$ref": "http://127.0.0.1:1/x"}, 1, "not fetched"),
        ({"$ref": "file:///etc/passwd"}, 1, "not fetched"),
        ({"$schema": "http://127.0.0.1:1/x"}, 1, "the schema is invalid"),
        ({"type": "nonsense"}, 1, "the schema is invalid"),
    ],
)
async def test_schema_errors_name_the_location_and_no_reference_is_fetched(
    checkers: Checkers, schema: Any, output: Any, error: str
) -> None:
    found = await checkers.check(Check("json-schema", schema), output, LONG_SEC)

    assert error in found
    assert bool(error) is bool(found)


async def test_a_schema_that_exceeds_the_time_limit_is_stopped(checkers: Checkers) -> None:
    parts: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)
    }
    schema = {"$defs": {**parts, "d40": {"type": "string"}}, "$ref": "#/$defs/d0"}

    with pytest.raises(TimeoutError):
        await checkers.check(Check("json-schema", schema), "text", 0.3)


async def test_only_the_first_errors_are_reported(checkers: Checkers) -> None:
    check = Check("json-schema", {"items": {"type": "string"}})

    found = await checkers.check(check, list(range(1000)), LONG_SEC)

    assert len(found.splitlines()) == 5


async def test_an_interpreter_that_cannot_start_is_reported(
    checkers: Checkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")

    with pytest.raises(OSError, match="has ended"):
        await checkers.check(Check("regex", "a"), "a", LONG_SEC)
