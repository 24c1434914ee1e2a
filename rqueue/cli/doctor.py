"""`rqueue ping` and `rqueue doctor`: whether the server is there, and fit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from rqueue.cli.fleet import beside
from rqueue.cli.session import on_server
from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.policy.archiving import OutboxFacts, judge_archive, judge_outbox, judge_saying
from rqueue.policy.checkup import Finding, Level, judge_queue, judge_server
from rqueue.services.roster import has_server
from rqueue.store.checkup import read_queue, read_server
from rqueue.store.outbox import is_joined, oldest_ms
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
            looked_at = beside(queue, one)
            findings += judge_queue(await read_queue(looked_at.shard, one))
            findings += await archive_of(looked_at)
    except ConfigError as error:
        return [Finding(Level.WARN, "queues", str(error), "see the line about permissions")]
    return findings


async def archive_of(queue: Queue) -> list[Finding]:
    """What is found about a queue's archive, and about what waits for it."""
    counted, oldest = await queue.counts(), await oldest_ms(queue.shard)
    archive = queue.runtime.archive
    joined = await is_joined(queue.shard)
    findings = judge_saying(queue.name, says=archive is not None, joined=joined)
    if archive is None and oldest is None:
        return findings
    most = queue.settings.max_outbox
    findings += [judge_outbox(OutboxFacts(queue.name, counted.outbox, oldest, most))]
    if archive is not None and has_server(queue.settings):
        # The archive's own package is an extra.
        from rqueue.archive.health import read_health  # noqa: PLC0415

        findings += judge_archive(await read_health(archive, queue.name))
        await archive.aclose()
    return findings


def document_of(finding: Finding) -> dict[str, str]:
    """A finding for programs."""
    return {
        "level": finding.level,
        "what": finding.what,
        "found": finding.found,
        "advice": finding.advice,
    }
