"""Handlers that are callables other than plain functions."""

from __future__ import annotations

import functools
from typing import Annotated

from rqueue import Context, depends
from tests.harness import Harness
from tests.worker.running import working


class Scale:
    """A callable object."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    async def __call__(self, ctx: Context, n: int) -> int:
        return n * self.factor * ctx.attempt

    def plainly(self, n: int) -> int:
        return n * self.factor


async def scaled(n: int, factor: int = 1) -> int:
    return n * factor


def euro() -> str:
    return "EUR"


async def priced(n: int, unit: Annotated[str, depends(euro)]) -> str:
    return f"{n} {unit}"


async def test_callable_objects_methods_and_partials_run(harness: Harness) -> None:
    queue = harness.queue
    queue.task("object")(Scale(2))
    queue.task("method")(Scale(3).plainly)
    queue.task("partial")(functools.partial(scaled, factor=4))
    queue.task("provided")(priced)
    found = {}

    async with working(queue):
        for type in queue._internals.registry.handlers:
            found[type] = await (await queue.enqueue(type, {"n": 5})).result(timeout=10)

    assert found == {"object": 10, "method": 15, "partial": 20, "provided": "5 EUR"}
