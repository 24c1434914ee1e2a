"""An example of a user's module: a queue, and functions that handle its tasks."""

from __future__ import annotations

import asyncio
from typing import Any

from rqueue import Context, Queue, Reject, Retry, RetryPolicy

SETTINGS: dict[str, Any] = {"retry": RetryPolicy.fixed(10), "max_result_bytes": 1024}


class Shop:
    """One queue with handlers that end in every way. `seen` contains their arguments."""

    def __init__(self, url: str, *, queue: Queue | None = None, **settings: Any) -> None:
        self.queue = queue = queue or Queue("shop", url=url, **{**SETTINGS, **settings})
        self.seen: list[Any] = []
        self.resize = queue.task("resize")(self.resized)
        self.plain = queue.task("plain")(self.counted)
        self.flaky = queue.task("flaky", max_attempts=3)(self.tried)
        self.later = queue.task("later")(self.postponed)
        self.parent = queue.task("parent")(self.waiting)
        self.refuse = queue.task("refuse")(refused)
        self.slow = queue.task("slow", timeout_sec=0.05, max_attempts=1)(slept)
        self.large = queue.task("large", max_attempts=1)(filled)
        self.proved = queue.task(
            "proved",
            validation=["decision-report", "llm-judge"],
            validation_schema={"llm-judge": "more"},
            max_attempts=3,
        )(self.reported)
        queue.judge(self.judged)
        self.liar = queue.task("liar", max_attempts=1)(lied)

    async def resized(self, ctx: Context, path: str, width: int = 800) -> str:
        self.seen.append((path, ctx.attempt))
        await ctx.progress({"width": width})
        await ctx.checkpoint({"path": path})
        await ctx.log(f"attempt {ctx.attempt}")
        await ctx.spend(0.25, tokens_in=3)
        await ctx.step("look", str.upper, path)
        await ctx.extend(60)
        return f"{width}/{path}"

    async def reported(self, ctx: Context, good: int) -> dict[str, Any]:
        report = {"tried": ctx.attempt} if ctx.attempt > 1 else {}
        return {"decisionReport": report, "good": ctx.attempt >= good}

    async def judged(self, ctx: Context, output: Any, criteria: Any) -> tuple[bool, str]:
        self.seen.append((criteria, ctx.attempt, len(await ctx.previous_attempts())))
        return output["good"], "not good"

    def counted(self, n: int) -> int:
        self.seen.append(n)
        return n + 1

    async def tried(self, ctx: Context, good: int) -> int:
        self.seen.append(ctx.attempt)
        if ctx.attempt < good:
            raise ConnectionError(f"attempt {ctx.attempt}")
        return ctx.attempt

    async def postponed(self, ctx: Context, after: float) -> str:
        self.seen.append(ctx.attempt)
        if ctx.attempt == 1:
            raise Retry(after=after)
        return "done"

    async def waiting(self, n: int) -> int:
        child = await self.plain.enqueue(n)
        found: Any = await child.result(timeout=5)
        return int(found) * 10


async def refused() -> None:
    raise Reject("never")


async def slept() -> None:
    await asyncio.sleep(60)


async def filled() -> str:
    return "x" * 5000


async def lied() -> int:
    return "no number"  # type: ignore[return-value]
