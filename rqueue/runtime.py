"""The composition root: the only place that turns settings into parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rqueue import embedded
from rqueue.archive.connection import Archive
from rqueue.archive.reader import ArchiveReader
from rqueue.artifacts.shelf import Shelf
from rqueue.clock import SYSTEM
from rqueue.current import Current
from rqueue.model.shelf import Directory, Rules, place_of
from rqueue.store.connection import Connection, connect
from rqueue.store.keys import Keys
from rqueue.store.reader import Reader
from rqueue.store.runner import Runner
from rqueue.store.shard import Shard, Terms

if TYPE_CHECKING:
    from rqueue.settings import Settings


@dataclass(frozen=True, slots=True)
class Runtime:
    """One queue's parts, made from its settings. `past` reads the archive, where this process knows
    its server.
    """

    settings: Settings
    connection: Connection
    shard: Shard
    reader: Reader
    shelf: Shelf
    archive: Archive | None = None
    past: ArchiveReader | None = None

    @property
    def earlier(self) -> ArchiveReader | None:
        """What knows of tasks that completed before Redis forgot their keys, where that counts."""
        return self.past if self.settings.dedupe_archive else None

    async def aclose(self) -> None:
        """Closes the running loop's connections."""
        await self.connection.aclose()
        if self.archive is not None:
            await self.archive.aclose()


def open_runtime(settings: Settings) -> Runtime:
    """The parts of a queue; an embedded server is started if it is wanted."""
    server = settings.server()
    url = embedded.start(server) if isinstance(server, Path) else server
    connection = connect(url, timeout_sec=settings.call_timeout_sec, block_sec=settings.park_sec)
    return assemble(settings, connection)


def assemble(
    settings: Settings,
    connection: Connection,
    *,
    strict: bool = True,
    shelf: Shelf | None = None,
) -> Runtime:
    """The parts of a queue over a connection that is there."""
    keys = Keys(settings.namespace, settings.name)
    runner, current = Runner(connection, strict=strict), Current(settings)
    shard = Shard(runner, keys, terms_of(settings), lambda: current.rules)
    reader = Reader(shard, lease_ms=ms(settings.lease_sec))
    kept = shelf or shelf_of(settings)
    archive = archive_of(settings)
    past = None if archive is None else past_of(settings, archive)
    return Runtime(settings, connection, shard, reader, kept, archive, past)


def shelf_of(settings: Settings) -> Shelf:
    """Where the queue's artifacts are kept. A directory that nobody has chosen is right on one
    machine alone: large results go there by themselves only where the server is there, too.
    """
    url = settings.artifacts_url
    place = Directory(settings.data_dir / "artifacts") if url is None else place_of(url)
    by_themselves = url is not None or settings.embedded
    largest = settings.artifacts_max_result_bytes if by_themselves else 0
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
    """The archive of a queue that has one; which server that is, is asked when it is needed."""
    if settings.archive == "none":
        return None

    def locate() -> str:
        server = settings.archive_server()
        return embedded.start_postgres(server) if isinstance(server, Path) else str(server)

    own = settings.postgres_url is None and settings.embedded
    return Archive(locate, own=own, timeout_sec=settings.call_timeout_sec)


def past_of(settings: Settings, archive: Archive) -> ArchiveReader | None:
    """What reads the archive; None where only others know where it is."""
    if not settings.embedded and settings.postgres_url is None:
        return None
    rate = round(settings.priority_boost_per_minute, 2)
    return ArchiveReader(archive, settings.name, SYSTEM, rate=rate)


def terms_of(settings: Settings) -> Terms:
    """The settings in the scripts' units."""
    # An ended task is kept at least until no re-sent submit can find it missing.
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
        park_ms=ms(settings.park_sec),
        handoff_ms=ms(settings.handoff_sec),
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
    """Seconds as the server counts."""
    return round(seconds * 1000)
