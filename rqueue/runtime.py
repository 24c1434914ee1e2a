"""The parts of one queue, built from its settings. The only module that reads all settings."""

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
    """Returns whether this process can connect to the archive. A process that only writes the
    outbox does not need to.
    """
    return settings.embedded or settings.postgres_url is not None


@dataclass(frozen=True, slots=True)
class Runtime:
    """The parts of one queue. `archive_reader` is None if this process cannot read the archive."""

    settings: Settings
    connection: Connection
    shard: Shard
    reader: Reader
    shelf: Shelf
    archive: Archive | None = None
    archive_reader: ArchiveReader | None = None

    @property
    def earlier(self) -> ArchiveReader | None:
        """The archive to ask for completed tasks before a submit; None without `dedupe_archive`."""
        return self.archive_reader if self.settings.dedupe_archive else None

    async def aclose(self) -> None:
        """Closes the connections of the running event loop."""
        await self.connection.aclose()
        if self.archive is not None:
            await self.archive.aclose()


def open_runtime(settings: Settings) -> Runtime:
    """Builds the parts of a queue. Starts the embedded server if one is configured."""
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
    """Builds the parts of a queue over an existing connection."""
    keys = Keys(settings.namespace, settings.name)
    moves, current = runner or Runner(connection), LiveSettings(settings)
    shard = Shard(moves, keys, terms_of(settings), lambda: current.rules)
    reader = Reader(shard, lease_ms=ms(settings.lease_sec))
    artifact_shelf = shelf or shelf_of(settings)
    archive = archive_of(settings)
    archive_reader = None if archive is None else reader_of_archive(settings, archive)
    return Runtime(settings, connection, shard, reader, artifact_shelf, archive, archive_reader)


def shelf_of(settings: Settings) -> Shelf:
    """Returns the queue's artifact store.

    Without `artifacts_url` it is a local directory, which other machines cannot read. Then large
    results become artifacts only if the server is embedded too.
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
    """Returns the archive of the queue, None without one. Its server is located at first use."""
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
    """Returns the reader of the archive; None if this process does not know its server."""
    if not settings.embedded and settings.postgres_url is None:
        return None
    from rqueue.archive.reader import ArchiveReader  # noqa: PLC0415 - only queues with an archive

    rate = round(settings.priority_boost_per_minute, 2)
    return ArchiveReader(archive, settings.name, SYSTEM, rate=rate)


def terms_of(settings: Settings) -> Terms:
    """Converts the settings to the units of the moves."""
    # A repeated submit must still find the ended task, so it is kept longer than calls are re-sent.
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
    """Converts seconds to milliseconds."""
    return round(seconds * 1000)
