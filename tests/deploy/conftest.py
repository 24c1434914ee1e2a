"""Each kind of server with the users of deploy/redis/users.acl, and a queue of each role."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from rqueue import Queue
from rqueue.store.library import library
from tests.deploy.access import admin, allowed, refused, url_of
from tests.harness import NAME
from tests.postgres import Database
from tests.servers import KINDS, Server


@dataclass(frozen=True, slots=True)
class RoleQueues:
    """One queue, as each role uses it."""

    server: Server
    producer: Queue
    worker: Queue
    scheduler: Queue
    reader: Queue


@pytest.fixture(params=KINDS)
def acl_server(
    request: pytest.FixtureRequest, running: Callable[[str], Server]
) -> Iterator[Server]:
    """Each kind of server, empty, with the users and without functions: each server checks rights
    inside of functions in its own way.
    """
    chosen = request.config.getoption("--servers")
    if chosen and request.param not in chosen.split(","):
        pytest.skip("not among --servers")
    server = running(request.param)
    server.flush()
    with admin(server) as client:
        client.function_flush("SYNC")
    with allowed(server):
        yield server


@pytest.fixture
async def queues(acl_server: Server, pg: Database) -> AsyncIterator[RoleQueues]:
    """A queue of each role, on a server with the functions. No command may be refused."""
    with admin(acl_server) as client:
        client.function_load(library().source)
    common: dict[str, Any] = {"archive": "postgres", "lease_sec": 60.0}
    serving: dict[str, Any] = {
        "postgres_url": pg.url,
        "sinks": ({"kind": "log", "name": "ops"},),
        "retention": {"completed_days": 30},
    }
    async with AsyncExitStack() as stack:

        async def queue(role: str, **settings: Any) -> Queue:
            found = Queue(NAME, url=url_of(acl_server, role), **common, **settings)
            return await stack.enter_async_context(found)

        yield RoleQueues(
            acl_server,
            await queue("producer"),
            await queue("worker"),
            await queue("scheduler", **serving),
            await queue("reader"),
        )
    assert refused(acl_server) == set()
