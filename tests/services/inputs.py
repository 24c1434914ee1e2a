"""Handlers that tell what they were given, where a process of its own can import them."""

from __future__ import annotations

from rqueue import Context


async def on_loop(ctx: Context, n: int) -> list[object]:
    return [n, list(ctx.references.values())]


def in_thread(ctx: Context, n: int) -> list[object]:
    return [n, list(ctx.references.values())]
