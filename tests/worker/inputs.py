"""Handlers that return their arguments, in a module that a subprocess can import."""

from __future__ import annotations

from rqueue import Context


async def on_loop(ctx: Context, n: int) -> list[object]:
    return [n, list(ctx.references.values())]


def in_thread(ctx: Context, n: int) -> list[object]:
    return [n, list(ctx.references.values())]
