"""Builds the services of a queue's scheduler from its settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rqueue.dags.resumer import Resumer
from rqueue.fleet.bad_workers import BadWorkerDrainer
from rqueue.fleet.unserved import UnservedReporter
from rqueue.inbox.reader import Inbox
from rqueue.maintenance.janitor import Janitor
from rqueue.maintenance.promoter import Promoter
from rqueue.maintenance.reaper import Reaped, Reaper
from rqueue.maintenance.rescorer import Rescorer
from rqueue.maintenance.sweeper import Sweeper
from rqueue.notices.notifier import notifiers
from rqueue.notices.store import forget
from rqueue.process.service import Paced, Service
from rqueue.producer.drafts import Drafter
from rqueue.runtime import has_server

if TYPE_CHECKING:
    from random import Random

    from rqueue.archive.archiver import Archiver
    from rqueue.archive.connection import Archive
    from rqueue.archive.reader import ArchiveReader
    from rqueue.clock import Clock
    from rqueue.core.reader import Reader
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard


# Interval of the inbox service.
INBOX_SEC = 0.2


@dataclass(frozen=True, slots=True)
class ServiceParts:
    """The parts that the services of a queue need."""

    shard: Shard
    reader: Reader
    settings: Settings
    archive: Archive | None
    clock: Clock
    random: Random
    earlier: ArchiveReader | None = None


def scheduler_services(parts: ServiceParts, name: str) -> list[Service]:
    """Builds the services of a queue's scheduler; `name` identifies the process in Redis."""
    inbox = Inbox(
        parts.shard, parts.settings, clock=parts.clock, reader=name, earlier=parts.earlier
    )
    services = [
        *standard_services(
            parts.shard, parts.reader, parts.settings, clock=parts.clock, random=parts.random
        ),
        Paced("inbox", INBOX_SEC, inbox.tick),
    ]
    if parts.archive is not None and has_server(parts.settings):
        services += archive_services(parts, parts.archive, name)
    return services


def archive_services(parts: ServiceParts, archive: Archive, name: str) -> list[Service]:
    """Builds all services of an archive. Any number of each may run at the same time."""
    return [archiver_of(parts, archive, name), *maintenance_services(parts, archive)]


def maintenance_services(parts: ServiceParts, archive: Archive) -> list[Service]:
    """Builds the services that maintain the archive itself."""
    from rqueue.archive.maintenance.metrics import Recorder  # noqa: PLC0415
    from rqueue.archive.maintenance.retention import Pruner  # noqa: PLC0415 - the archive's package is an extra

    services: list[Service] = [Recorder(parts.shard, archive, parts.settings)]
    if not parts.settings.retention.is_for_ever:
        services.append(Pruner(archive, parts.settings, parts.clock))
    return services


def archiver_of(parts: ServiceParts, archive: Archive, name: str) -> Archiver:
    """Builds the service that copies ended tasks from the outbox to the archive."""
    # The archive's own package is an extra.
    from rqueue.archive.archiver import Archiver  # noqa: PLC0415
    from rqueue.archive.writer import Writer, extras_of  # noqa: PLC0415

    extras = extras_of(parts.settings)
    writer = Writer(archive, parts.settings.name, parts.clock, extras)
    return Archiver(parts.shard, parts.reader, writer, name=name)


PROMOTE_SEC = 1.0


def standard_services(
    shard: Shard, reader: Reader, settings: Settings, *, clock: Clock, random: Random
) -> list[Service]:
    """Builds the services that every shard needs."""
    promoter = Promoter(shard)
    reaper = Reaper(shard, reader, settings, clock=clock, random=random)

    async def reap() -> Reaped:
        reaped = await reaper.tick()
        if reaped.retrying:
            # Most of them are due now; do not wait for the next tick of the promoter.
            await promoter.tick()
        return reaped

    return [
        Paced("promoter", PROMOTE_SEC, promoter.tick),
        Paced("reaper", reaper.interval_sec, reap),
        Resumer(shard, Drafter(settings, clock)),
        Rescorer(shard, reader),
        Sweeper(shard),
        Janitor(
            shard,
            forget_sinks=partial(forget, shard, silent_ms=round(settings.notice_keep_sec * 1000)),
        ),
        UnservedReporter(shard, settings),
        *([BadWorkerDrainer(shard, settings)] if settings.bad_workers.enabled else []),
        *notifiers(shard, settings, clock=clock, random=random),
    ]
