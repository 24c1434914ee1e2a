"""Who serves a shard: the services of its scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rqueue.services.inbox import Inbox
from rqueue.services.scheduler import standard
from rqueue.services.service import Paced, Service

if TYPE_CHECKING:
    from random import Random

    from rqueue.archive.connection import Archive
    from rqueue.archive.reader import ArchiveReader
    from rqueue.clock import Clock
    from rqueue.services.archiver import Archiver
    from rqueue.settings import Settings
    from rqueue.store.reader import Reader
    from rqueue.store.shard import Shard

# How long an entry of the inbox may wait.
INBOX_SEC = 0.2


@dataclass(frozen=True, slots=True)
class Place:
    """What the services of a queue work with."""

    shard: Shard
    reader: Reader
    settings: Settings
    archive: Archive | None
    clock: Clock
    random: Random
    earlier: ArchiveReader | None = None


def roster(place: Place, name: str) -> list[Service]:
    """The services of a queue's scheduler; `name` is what they are known by at the servers."""
    inbox = Inbox(
        place.shard, place.settings, clock=place.clock, reader=name, earlier=place.earlier
    )
    services = [
        *standard(
            place.shard, place.reader, place.settings, clock=place.clock, random=place.random
        ),
        Paced("inbox", INBOX_SEC, inbox.tick),
    ]
    if place.archive is not None and has_server(place.settings):
        services += archiving(place, place.archive, name)
    return services


def has_server(settings: Settings) -> bool:
    """Whether this process knows where the archive is; one that only writes the outbox need not."""
    return settings.embedded or settings.postgres_url is not None


def archiving(place: Place, archive: Archive, name: str) -> list[Service]:
    """All that an archive needs, whoever runs it; of each any number may run."""
    return [archiver_of(place, archive, name), *upkeep_of(place, archive)]


def upkeep_of(place: Place, archive: Archive) -> list[Service]:
    """The services that keep the archive itself in order."""
    from rqueue.services.pruner import Pruner  # noqa: PLC0415 - the archive's package is an extra
    from rqueue.services.recorder import Recorder  # noqa: PLC0415

    services: list[Service] = [Recorder(place.shard, archive, place.settings)]
    if not place.settings.retention.is_for_ever:
        services.append(Pruner(archive, place.settings, place.clock))
    return services


def archiver_of(place: Place, archive: Archive, name: str) -> Archiver:
    """The service that empties the outbox."""
    # The archive's own package is an extra.
    from rqueue.archive.writer import Writer, extras_of  # noqa: PLC0415
    from rqueue.services.archiver import Archiver  # noqa: PLC0415

    extras = extras_of(place.settings)
    writer = Writer(archive, place.settings.name, place.clock, extras)
    return Archiver(place.shard, place.reader, writer, name=name)
