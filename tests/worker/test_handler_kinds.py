"""Handlers on the event loop, in threads and in processes: an exception fails their
attempt only.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from rqueue import State
from rqueue.errors import ConfigError, InvalidTask, TaskDead
from rqueue.task.attempt.outcome import Reason
from rqueue.worker.attempt import described
from rqueue.worker.handler import Handler, Kind
from tests.harness import Harness
from tests.worker import functions
from tests.worker.running import ended, working

RAISED = {
    "CancelledError": (Reason.CANCELLED, "by its own code"),
    "SystemExit": (Reason.ERROR, "SystemExit: 3"),
    "KeyboardInterrupt": (Reason.ERROR, "KeyboardInterrupt"),
    "RecursionError": (Reason.ERROR, "maximum recursion depth"),
    "MemoryError": (Reason.CRASH, "MemoryError"),
    "huge": (Reason.ERROR, "ValueError: xxx"),
    "Unprintable": (Reason.ERROR, "Unprintable"),
    "Unpicklable": (Reason.ERROR, "kept"),
    "StopIteration": (Reason.ERROR, "StopIteration"),
    "GeneratorExit": (Reason.ERROR, "GeneratorExit"),
}
PLAIN_AND_ASYNC = {"plain": functions.raises, "async": functions.raises_on_a_loop}


@pytest.mark.parametrize(
    ("kind", "function"),
    [("async", "async"), ("thread", "plain"), ("process", "plain"), ("process", "async")],
)
async def test_any_exception_fails_the_attempt_and_not_the_worker(
    harness: Harness, kind: Kind, function: str
) -> None:
    harness.queue.task("raises", kind=kind, max_attempts=1)(PLAIN_AND_ASYNC[function])

    async with working(harness.queue, concurrency=2):
        handles = {
            what: await harness.queue.enqueue("raises", {"what": what}, max_attempts=1)
            for what in RAISED
        }
        for what, (reason, message) in RAISED.items():
            found = await ended(harness.queue, handles[what].id, State.DEAD_LETTERED)
            error = found.failure_history[-1].error
            assert (what, found.failure_reason) == (what, reason)
            assert message in error
            assert len(error) < 10_000


def test_the_beginning_and_the_end_of_a_long_error_are_kept() -> None:
    found = described(ValueError("x" * 10_000_000 + "the end"))

    assert found.startswith("ValueError: xxx")
    assert found.endswith("the end")
    assert len(found) < 8100


@pytest.mark.parametrize("kind", ["thread", "process"])
@pytest.mark.parametrize("what", ["nan", "deep", "huge", "odd"])
async def test_a_result_that_cannot_be_stored_fails_the_attempt(
    harness: Harness, kind: Kind, what: str
) -> None:
    harness.queue.task("gives", kind=kind)(functions.gives)

    async with working(harness.queue):
        handle = await harness.queue.enqueue("gives", {"what": what}, max_attempts=1)
        with pytest.raises(TaskDead) as raised:
            await handle.result(timeout=10)

    assert raised.value.reason == Reason.INVALID_OUTPUT
    assert "result" in raised.value.message


class Reading(BaseModel):
    at: str
    value: Any


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (Any, float("nan")),
        (dict, {"a": [float("inf")]}),
        (float, float("-inf")),
        (Reading, Reading(at="noon", value=float("nan"))),
        (list[Reading], [Reading(at="noon", value=[float("nan")])]),
    ],
)
def test_nan_and_infinity_are_not_stored(type: Any, value: Any) -> None:
    def gives() -> Any: ...

    gives.__annotations__["return"] = type

    with pytest.raises(InvalidTask, match="NaN or infinite"):
        Handler("gives", gives, "thread").encoded(value, 1000)


async def test_a_coroutine_function_does_not_run_in_a_thread(harness: Harness) -> None:
    with pytest.raises(ConfigError, match="plain function"):
        harness.queue.task("thread", kind="thread")(functions.where_on_a_loop)


async def test_a_nested_function_cannot_run_in_a_process(harness: Harness) -> None:
    def within() -> None: ...

    with pytest.raises(ConfigError, match="define it with `def` at module level"):
        harness.queue.task("within", kind="process")(within)
    with pytest.raises(ConfigError, match="task nameless"):
        harness.queue.task("nameless", kind="process")(lambda: None)


async def test_a_function_hidden_by_another_of_its_name_is_refused_by_the_worker(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.queue.task("echo", kind="process")(functions.echo)
    monkeypatch.setattr(functions, "echo", functions.gives)

    with pytest.raises(ConfigError, match="another function from"):
        harness.queue.worker()
    monkeypatch.delattr(functions, "echo")
    with pytest.raises(ConfigError, match="does not exist"):
        harness.queue.worker()


async def test_a_function_of_the_main_module_is_refused_by_the_worker_with_advice(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions.echo, "__module__", "__main__")
    harness.queue.task("echo", kind="process")(functions.echo)

    with pytest.raises(ConfigError, match="rqueue worker MODULE:QUEUE"):
        harness.queue.worker()
    harness.queue.worker(types=["other"])


async def test_a_decorated_function_is_found_by_its_name(harness: Harness) -> None:
    handler = harness.queue.task("where", kind="process")(functions.where).handler

    assert isinstance(handler, Handler)
    assert handler.import_path == ("tests.worker.functions", "where")
