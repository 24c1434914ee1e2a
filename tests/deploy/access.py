"""The users of deploy/redis/users.acl on a test's server, and the commands that it has refused
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from rqueue.store.keys import Keys
from tests.harness import NAME
from tests.servers import Server

FILE = Path(__file__).parents[2] / "deploy" / "redis" / "users.acl"
PASSWORD = "secret"
# Commands that are sent and not needed. The driver sends CLIENT SETINFO, which Redis 7.0 does not
# have, so that no rule may name it; `rqueue doctor` reads the snapshots of a server.
OPTIONAL = {"client|setinfo", "config|get"}


def lines() -> list[str]:
    """The lines of the file for this test's queue, changed as the page on deployment describes."""
    shown, own = Keys("rq", "queue").root, Keys("rq", NAME).root
    return FILE.read_text("utf-8").replace(shown, own).splitlines()


def names() -> list[str]:
    return [line.split()[1] for line in lines()]


def url_of(server: Server, role: str) -> str:
    """The URL of the server for a role."""
    return f"{server.url}?username=rqueue-{role}&password={PASSWORD}"


@contextmanager
def admin(server: Server) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.plain_url, protocol=2) as client:
        yield client


@contextmanager
def client_of(server: Server, role: str) -> Iterator[redis.Redis]:
    """A plain client of a role."""
    options = {"username": f"rqueue-{role}", "password": PASSWORD}
    with redis.Redis.from_url(server.plain_url, protocol=2, **options) as client:
        yield client


@contextmanager
def allowed(server: Server) -> Iterator[None]:
    """Enables the users to log in."""
    with admin(server) as client:
        for line in lines():
            _, name, *rules = line.split()
            client.execute_command("ACL", "SETUSER", name, *rules)
            client.execute_command("ACL", "SETUSER", name, "on", f">{PASSWORD}")
        client.execute_command("ACL", "LOG", "RESET")
        try:
            yield
        finally:
            client.execute_command("ACL", "DELUSER", *names())


def refused(server: Server) -> set[tuple[str, str, str]]:
    """What the users of roles were refused: user, reason and object."""
    with admin(server) as client:
        client.set_response_callback("ACL LOG", lambda reply, **_: reply)
        rows: list[Any] = client.execute_command("ACL", "LOG", 1000)
    found = set()
    for row in rows:
        facts = {name.decode(): value for name, value in zip(row[::2], row[1::2], strict=True)}
        user, reason, what = (facts[name].decode() for name in ("username", "reason", "object"))
        if user in names() and what not in OPTIONAL:
            found.add((user.removeprefix("rqueue-"), reason, what))
    return found
