"""`rqueue ping` and `rqueue doctor`: whether the server is there, and fit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from rqueue.cli.fleet import beside
from rqueue.cli.session import on_server
from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.policy.checkup import Finding, Level, judge_queue, judge_server
from rqueue.store.checkup import read_queue, read_server
from rqueue.store.queues import find_queues
from rqueue.store.reaping import clock

if TYPE_CHECKING:
    from rqueue.cli.output import Columns, Printer
    from rqueue.queue import Queue

PING_SEC = 5.0
FINDINGS: Columns[Finding] = {
    "": lambda finding: finding.level,
    "WHAT": lambda finding: finding.what,
    "FOUND": lambda finding: finding.found,
    "DO": lambda finding: finding.advice,
}


@click.command()
@click.option("--timeout", type=float, default=PING_SEC, show_default=True, help="Seconds.")
@on_server
async def ping(queue: Queue, out: Printer, *, timeout: float, **_: object) -> None:  # noqa: ASYNC109 (its option)
    """See whether the server answers.

    Exit 0 if it does, 4 if it does not in time.
    """
    connection = queue.runtime.connection
    before = SYSTEM.monotonic()
    try:
        async with asyncio.timeout(timeout):
            await connection.call(clock, what="TIME", timeout_sec=timeout)
    except TimeoutError:
        raise StoreUnavailable(f"{connection.address} within {timeout:g} s") from None
    took_ms = (SYSTEM.monotonic() - before) * 1000
    document = {"address": connection.address, "took_ms": round(took_ms, 2)}
    out.one(document, f"{connection.address} answered after {took_ms:.1f} ms")


@click.command()
@on_server
async def doctor(queue: Queue, out: Printer, name: str | None) -> None:
    """Check the server and its queues, and say what to do.

    Without --queue every queue that is found on the server is looked at. Exit 1 when something
    must be done.
    """
    findings = judge_server(await read_server(queue.shard, SYSTEM))
    findings += await queues_of(queue, name)
    out.rows(findings, FINDINGS, document_of)
    if any(finding.level is Level.FAIL for finding in findings):
        raise click.exceptions.Exit(1)


async def queues_of(queue: Queue, name: str | None) -> list[Finding]:
    """What is found about the queue, or about every queue."""
    try:
        connection, namespace = queue.runtime.connection, queue.settings.namespace
        names = [name] if name else await find_queues(connection, namespace)
        findings: list[Finding] = []
        for one in names:
            findings += judge_queue(await read_queue(beside(queue, one).shard, one))
    except ConfigError as error:
        return [Finding(Level.WARN, "queues", str(error), "see the line about permissions")]
    return findings


def document_of(finding: Finding) -> dict[str, str]:
    """A finding for programs."""
    return {
        "level": finding.level,
        "what": finding.what,
        "found": finding.found,
        "advice": finding.advice,
    }
