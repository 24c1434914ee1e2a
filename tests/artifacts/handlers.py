"""Handlers that put, read and return artifacts, importable by other processes."""

from __future__ import annotations

from pathlib import Path

from rqueue import Artifact, Context

LARGE = "x" * 400_000


async def write(ctx: Context) -> Artifact:
    put = await ctx.artifacts.put("a report", name="report.md", media_type="text/markdown")
    assert await put.get() == b"a report"
    return put


def write_plainly(ctx: Context) -> Artifact:
    artifacts = ctx.sync.artifacts
    put = artifacts.put("a report", name="report.md", media_type="text/markdown")
    assert artifacts.get(put) == b"a report"
    assert artifacts.info(put.reference) == put
    return put


async def read(ctx: Context, report: Artifact) -> list[str]:
    found = [(await ctx.artifacts.get(report)).decode(), report.name]
    return [*found, *[(await one.get()).decode() for one in ctx.references.values()]]


def read_plainly(ctx: Context, report: Artifact, folder: str) -> list[str]:
    path = ctx.sync.artifacts.save(report, Path(folder) / "saved")
    looked = [ctx.sync.artifacts.get(one) for one in ctx.references.values()]
    return [path.read_text(), report.name, *[one.decode() for one in looked]]


async def large() -> str:
    return LARGE


def large_plainly() -> str:
    return LARGE


async def length(text: str) -> int:
    return len(text)
