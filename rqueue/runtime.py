"""The composition root: the only place that turns settings into parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rqueue import embedded
from rqueue.current import Current
from rqueue.store.connection import Connection, connect
from rqueue.store.keys import Keys
from rqueue.store.reader import Reader
from rqueue.store.runner import Runner
from rqueue.store.shard import Shard, Terms

if TYPE_CHECKING:
    from rqueue.settings import Settings


@dataclass(frozen=True, slots=True)
class Runtime:
    """One queue's parts, made from its settings."""

    settings: Settings
    connection: Connection
    shard: Shard
    reader: Reader

    async def aclose(self) -> None:
        """Closes the running loop's connections."""
        await self.connection.aclose()


def open_runtime(settings: Settings) -> Runtime:
    """The parts of a queue; an embedded server is started if it is wanted."""
    server = settings.server()
    url = embedded.start(server) if isinstance(server, Path) else server
    connection = connect(url, timeout_sec=settings.call_timeout_sec, block_sec=settings.park_sec)
    return assemble(settings, connection)


def assemble(settings: Settings, connection: Connection, *, strict: bool = True) -> Runtime:
    """The parts of a queue over a connection that is there."""
    keys = Keys(settings.namespace, settings.name)
    runner, current = Runner(connection, strict=strict), Current(settings)
    shard = Shard(runner, keys, terms_of(settings), lambda: current.rules)
    reader = Reader(shard, lease_ms=ms(settings.lease_sec))
    return Runtime(settings, connection, shard, reader)


def terms_of(settings: Settings) -> Terms:
    """The settings in the scripts' units."""
    # An ended task is kept at least until no re-sent submit can find it missing.
    shortest = 2 * settings.call_timeout_sec
    return Terms(
        archive=settings.archive != "none",
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
        max_result_bytes=settings.max_result_bytes,
    )


def ms(seconds: float) -> int:
    """Seconds as the server counts."""
    return round(seconds * 1000)
