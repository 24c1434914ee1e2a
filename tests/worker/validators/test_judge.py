"""Judges: functions of the queue, and endpoints."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rqueue import Context, State
from rqueue.errors import ConfigError, TaskDead
from rqueue.task.attempt.outcome import AttemptRecord, Reason
from rqueue.worker.validators import judge
from tests.harness import Harness, opened
from tests.servers import Server
from tests.worker.running import ended, working

Answer = Callable[[dict[str, Any]], tuple[int, bytes]]


async def judged(harness: Harness, **options: Any) -> AttemptRecord | None:
    """The failure of an output that a judge refuses; None if it passes."""

    @harness.queue.task("code", validation="llm-judge", max_attempts=1, **options)
    async def code(topic: str) -> dict[str, int]:
        return {"words": len(topic)}

    async with working(harness.queue):
        handle = await code.enqueue("bees")
        try:
            await handle.result(timeout=20)
        except TaskDead:
            return (await harness.task(handle.id)).failure_history[0]
    return None


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (True, None),
        ((True, "good"), None),
        (False, "llm-judge: refused without a reason"),
        ((False, ""), "llm-judge: refused without a reason"),
        ((False, "no bees"), "llm-judge: no bees"),
    ],
)
async def test_a_judge_returns_a_verdict_with_a_reason(
    harness: Harness, answer: Any, error: str | None
) -> None:
    @harness.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> Any:
        assert (output, criteria, ctx.task.payload) == ({"words": 4}, "short", {"topic": "bees"})
        return answer

    record = await judged(harness, validation_schema="short")

    assert (record and record.error) == error
    assert record is None or record.reason is Reason.INVALID_OUTPUT


@pytest.mark.parametrize("answer", [None, "yes", 1, (1, "x"), (True, 7), {}])
async def test_an_invalid_answer_leaves_the_output_unchecked(harness: Harness, answer: Any) -> None:
    @harness.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> Any:
        return answer

    record = await judged(harness)

    assert record is not None
    assert record.reason is Reason.ERROR
    assert "llm-judge could not be checked: a judge returns True or False" in record.error


@pytest.mark.parametrize("error", [ValueError("broke"), SystemExit(3), asyncio.CancelledError()])
async def test_a_judge_that_raises_ends_the_attempt_and_not_the_worker(
    harness: Harness, error: BaseException
) -> None:
    @harness.queue.judge
    async def judge(ctx: Context, output: Any, criteria: Any) -> bool:
        raise error

    record = await judged(harness)

    assert record is not None
    assert record.error.startswith("llm-judge could not be checked: ")


async def test_a_judge_has_a_time_limit(server: Server) -> None:
    async with opened(server, judge_timeout_sec=0.2) as harness:

        @harness.queue.judge
        async def judge(ctx: Context, output: Any, criteria: Any) -> bool:
            await asyncio.Event().wait()
            return True

        record = await judged(harness)

    assert record is not None
    assert "no answer within 0.2 s (judge_timeout_sec)" in record.error


async def test_a_queue_has_one_judge_which_is_a_coroutine_function(harness: Harness) -> None:
    async def judge(ctx: Context, output: Any, criteria: Any) -> bool:
        return True

    async def another(ctx: Context, output: Any, criteria: Any) -> bool:
        return True

    harness.queue.judge(judge)
    harness.queue.judge(judge)
    with pytest.raises(ConfigError, match="is already set"):
        harness.queue.judge(another)
    with pytest.raises(ConfigError, match="judge: must be an async def"):
        harness.queue.judge(lambda *_: True)  # type: ignore[type-var]


@asynccontextmanager
async def endpoint(answer: Answer) -> AsyncIterator[tuple[int, list[Any]]]:
    """An HTTP server with this answer; its port, and the requests with their authorization."""
    requests: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = {name.lower(): value for name, _, value in (one.partition(": ") for one in head)}
        body = json.loads(await reader.readexactly(int(fields["content-length"])))
        requests.append((head[0], body, fields.get("authorization")))
        status, data = answer(body)
        top = f"HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-length: {len(data)}\r\n\r\n"
        writer.write(top.encode() + data)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], requests


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((200, b'{"pass": true}'), None),
        ((200, b'{"pass": false, "reason": "no bees"}'), "llm-judge: no bees"),
        ((200, b'{"pass": "yes"}'), "a judge returns True or False"),
        ((200, b'["pass"]'), "its answer is not a JSON object"),
        ((200, b"pass"), "its answer is not JSON"),
        ((200, b"x" * 100_000), "longer than 65536 bytes"),
        ((500, b'{"pass": true}'), "HTTP status 500"),
        ((302, b'{"pass": true}'), "HTTP status 302"),
    ],
)
async def test_an_http_endpoint_can_be_the_judge(
    server: Server, answer: tuple[int, bytes], error: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with endpoint(lambda _: answer) as (port, requests):
        url = f"http://ann:secret@127.0.0.1:{port}/judge"
        async with opened(server, judge_url=url) as harness:
            record = await judged(harness, validation_schema=["short"])
            settings = repr(harness.queue.settings)

    ((head, body, authorization),) = requests
    assert (error is None) is (record is None)
    assert record is None or (error or "") in record.error
    assert head == "POST /judge HTTP/1.1"
    assert body.pop("task").startswith("task_")
    assert body == {
        "type": "code",
        "attempt": 1,
        "payload": {"topic": "bees"},
        "output": {"words": 4},
        "criteria": ["short"],
    }
    assert authorization is not None
    assert "secret" not in caplog.text + settings


async def test_a_rate_limited_endpoint_parks_the_task(
    server: Server,
) -> None:
    async with (
        endpoint(lambda _: (429, b"")) as (port, _),
        opened(server, judge_url=f"http://127.0.0.1:{port}") as harness,
    ):

        @harness.queue.task("code", validation="llm-judge", max_attempts=1)
        async def code() -> int:
            return 1

        async with working(harness.queue):
            handle = await code.enqueue()
            task = await ended(harness.queue, handle.id, State.RETRYING)

    assert (task.attempts, task.parks, task.failure_reason) == (0, 1, "rate_limit")


async def test_an_unavailable_endpoint_leaves_the_output_unchecked(server: Server) -> None:
    async with opened(server, judge_url="http://127.0.0.1:1") as harness:
        record = await judged(harness)

    assert record is not None
    assert record.reason is Reason.ERROR
    assert "llm-judge could not be checked: " in record.error


async def test_a_judge_function_takes_precedence_over_an_endpoint(server: Server) -> None:
    async with opened(server, judge_url="http://127.0.0.1:1") as harness:

        @harness.queue.judge
        async def judge(ctx: Context, output: Any, criteria: Any) -> bool:
            return True

        assert await judged(harness) is None


async def test_an_endpoint_without_httpx_is_refused_at_the_start(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "httpx", None)

    with pytest.raises(ConfigError, match=r"install rqueue\[validation\]"):
        judge.HttpJudge("http://127.0.0.1:1")
