"""`rqueue ping` and `rqueue doctor`: whether the server answers and is set up correctly."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from rqueue.cli.session import on_server
from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError, StoreUnavailable
from rqueue.finding import Finding, Level

if TYPE_CHECKING:
    from rqueue.cli.output.tables import Columns, Printer
    from rqueue.queue import Queue

PING_SEC = 5.0
FINDINGS: Columns[Finding] = {
    "": lambda finding: finding.level,
    "WHAT": lambda finding: finding.what,
    "FOUND": lambda finding: finding.found,
    "DO": lambda finding: finding.advice,
}


@click.command()
@click.option(
    "--timeout", type=float, default=PING_SEC, show_default=True, help="Timeout in seconds."
)
@on_server
async def ping(queue: Queue, out: Printer, *, timeout: float, **_: object) -> None:  # noqa: ASYNC109 (its option)
    """Check whether the server answers.

    Exit 0 if it answers in time, else 4.
    """
    from rqueue.core.timers import clock  # noqa: PLC0415 - commands import what they call

    connection = queue._internals.runtime.connection
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
    """Check the server and its queues, and print what to fix.

    Without --queue, all queues on the server are checked. Exit 1 if a check fails.
    """
    from rqueue.doctor import judge_server, read_server  # noqa: PLC0415

    facts = await read_server(queue._internals.shard, SYSTEM)
    findings = judge_server(facts)
    if facts.missing is None:
        findings += await queues_of(queue, name)
    out.rows(findings, FINDINGS, document_of)
    if any(finding.level is Level.FAIL for finding in findings):
        raise click.exceptions.Exit(1)


async def queues_of(queue: Queue, name: str | None) -> list[Finding]:
    """The findings about the named queue, or about every queue."""
    from rqueue.cli.queues import other_queue  # noqa: PLC0415
    from rqueue.core.counts import find_queues  # noqa: PLC0415
    from rqueue.doctor import judge_queue, read_queue  # noqa: PLC0415

    try:
        connection, namespace = queue._internals.runtime.connection, queue.settings.namespace
        names = [name] if name else await find_queues(connection, namespace)
        findings: list[Finding] = []
        for one in names:
            other = other_queue(queue, one)
            findings += judge_queue(await read_queue(other._internals.shard, one))
            findings += await archive_of(other)
    except ConfigError as error:
        return [Finding(Level.WARN, "queues", str(error), "see the line about permissions")]
    return findings


async def archive_of(queue: Queue) -> list[Finding]:
    """The findings about a queue's archive and its outbox."""
    from rqueue.archive.health import (  # noqa: PLC0415
        OutboxFacts,
        judge_archive,
        judge_configuration,
        judge_outbox,
        read_health,
    )
    from rqueue.core.outbox import is_joined, oldest_ms  # noqa: PLC0415
    from rqueue.runtime import has_server  # noqa: PLC0415

    counted, oldest = await queue.counts(), await oldest_ms(queue._internals.shard)
    archive = queue._internals.runtime.archive
    joined = await is_joined(queue._internals.shard)
    findings = judge_configuration(queue.name, configured=archive is not None, joined=joined)
    if archive is None and oldest is None:
        return findings
    most = queue.settings.max_outbox
    findings += [judge_outbox(OutboxFacts(queue.name, counted.outbox, oldest, most))]
    if archive is not None and has_server(queue.settings):
        findings += judge_archive(await read_health(archive, queue.name))
        await archive.aclose()
    return findings


def document_of(finding: Finding) -> dict[str, str]:
    """A finding as a JSON document."""
    return {
        "level": finding.level,
        "what": finding.what,
        "found": finding.found,
        "advice": finding.advice,
    }
