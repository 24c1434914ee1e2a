"""The parts of one queue, made from its settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rqueue.artifacts.place import Directory, Rules, place_of
from rqueue.artifacts.shelf import Shelf
from rqueue.clock import SYSTEM
from rqueue.core.reader import Reader
from rqueue.settings.live import LiveSettings
from rqueue.store.connection import Connection, connect
from rqueue.store.keys import Keys
from rqueue.store.runner import Runner
from rqueue.store.shard import Shard, Terms

if TYPE_CHECKING:
    from rqueue.archive.connection import Archive
    from rqueue.archive.reader import ArchiveReader
    from rqueue.settings.load import Settings


def has_server(settings: Settings) -> bool:
    """Whether this process can reach the archive; one that only writes the outbox need not."""
    return settings.embedded or settings.postgres_url is not None


@dataclass(frozen=True, slots=True)
class Runtime:
    """One queue's parts. `archive_reader` is None where this process cannot reach the archive."""

    settings: Settings
    connection: Connection
    shard: Shard
    reader: Reader
    shelf: Shelf
    archive: Archive | None = None
    archive_reader: ArchiveReader | None = None

    @property
    def earlier(self) -> ArchiveReader | None:
        """What knows of tasks that completed before Redis forgot their keys, where that counts."""
        return self.archive_reader if self.settings.dedupe_archive else None

    async def aclose(self) -> None:
        """Closes the running loop's connections."""
        await self.connection.aclose()
        if self.archive is not None:
            await self.archive.aclose()


def open_runtime(settings: Settings) -> Runtime:
    """The parts of a queue; starts the embedded server where configured."""
    server = settings.server()
    if isinstance(server, Path):
        from rqueue import embedded  # noqa: PLC0415 - most queues have a server of their own

        server = embedded.start(server)
    connection = connect(
        server, timeout_sec=settings.call_timeout_sec, block_sec=settings.claim_wait_sec
    )
    return assemble(settings, connection)


def assemble(
    settings: Settings,
    connection: Connection,
    *,
    shelf: Shelf | None = None,
    runner: Runner | None = None,
) -> Runtime:
    """The parts of a queue over an existing connection."""
    keys = Keys(settings.namespace, settings.name)
    moves, current = runner or Runner(connection), LiveSettings(settings)
    shard = Shard(moves, keys, terms_of(settings), lambda: current.rules)
    reader = Reader(shard, lease_ms=ms(settings.lease_sec))
    artifact_shelf = shelf or shelf_of(settings)
    archive = archive_of(settings)
    archive_reader = None if archive is None else reader_of_archive(settings, archive)
    return Runtime(settings, connection, shard, reader, artifact_shelf, archive, archive_reader)


def shelf_of(settings: Settings) -> Shelf:
    """The queue's artifact store. The default directory is right on one machine only: large results
    become artifacts there only where the server is embedded, too.
    """
    url = settings.artifacts_url
    place = Directory(settings.data_dir / "artifacts") if url is None else place_of(url)
    keeps_results = url is not None or settings.embedded
    largest = settings.artifacts_max_result_bytes if keeps_results else 0
    return Shelf(
        place,
        Rules(
            max_bytes=settings.artifacts_max_bytes,
            max_result_bytes=min(largest, settings.artifacts_max_bytes),
            timeout_sec=settings.artifacts_timeout_sec,
        ),
        queue=f"{settings.namespace}/{settings.name}",
    )


def archive_of(settings: Settings) -> Archive | None:
    """The archive of a queue that has one; its server is located at first use."""
    if settings.archive == "none":
        return None
    from rqueue.archive.connection import Archive  # noqa: PLC0415 - only queues with an archive

    def locate() -> str:
        server = settings.archive_server()
        if not isinstance(server, Path):
            return str(server)
        from rqueue import embedded  # noqa: PLC0415 - most archives have a server of their own

        return embedded.start_postgres(server)

    own = settings.postgres_url is None and settings.embedded
    return Archive(locate, own=own, timeout_sec=settings.call_timeout_sec)


def reader_of_archive(settings: Settings, archive: Archive) -> ArchiveReader | None:
    """What reads the archive; None where only others know where it is."""
    if not settings.embedded and settings.postgres_url is None:
        return None
    from rqueue.archive.reader import ArchiveReader  # noqa: PLC0415 - only queues with an archive

    rate = round(settings.priority_boost_per_minute, 2)
    return ArchiveReader(archive, settings.name, SYSTEM, rate=rate)


def terms_of(settings: Settings) -> Terms:
    """The settings in the moves' units."""
    # An ended task is kept at least until no repeated submit can find it missing.
    shortest = 2 * settings.call_timeout_sec
    return Terms(
        archive=settings.archive != "none",
        max_outbox=settings.max_outbox,
        result_ttl_ms=ms(max(settings.result_ttl_sec, shortest)),
        dedupe_window_ms=ms(settings.dedupe_window_sec),
        max_lanes=settings.max_lanes,
        lease_ms=ms(settings.lease_sec),
        claim_ms=ms(settings.claim_ttl_sec),
        timeout_ms=ms(settings.timeout_sec),
        grace_ms=ms(settings.timeout_grace_sec),
        claim_wait_ms=ms(settings.claim_wait_sec),
        delivery_ms=ms(settings.delivery_sec),
        memo_ms=ms(settings.claim_memo_sec),
        wait_replicas=settings.wait_replicas,
        max_nodes=settings.max_dag_nodes,
        spawn_rule=settings.spawn_policy,
        default_role=settings.default_role,
        inbox_role=settings.inbox_role,
        max_steps=settings.max_steps,
        max_artifacts=settings.max_artifacts,
        max_result_bytes=settings.max_result_bytes,
        keep_reviews=settings.keep_reviews,
    )


def ms(seconds: float) -> int:
    """Seconds in ms."""
    return round(seconds * 1000)
