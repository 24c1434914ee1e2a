"""The roles of principals, kept where the scripts that create tasks look them up."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from rqueue.errors import Forbidden
from rqueue.model.role import CREATORS, INBOX
from rqueue.store.replies import ok, text

if TYPE_CHECKING:
    from rqueue.model.role import Role
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard, Terms


async def roles(shard: Shard) -> dict[str, str]:
    """Every principal that was given a role, by name, and which."""
    (found,) = ok("role/list", "", await shard.run("role/list"))
    flat = [text(word) for word in found]
    return dict(sorted(zip(flat[::2], flat[1::2], strict=True)))


async def set_role(shard: Shard, principal: str, role: Role) -> None:
    """Gives a principal a role."""
    args: dict[str, Argument] = {
        "principal": principal,
        "role": role,
        "events": shard.terms.events,
    }
    ok("role/set", principal, await shard.run("role/set", args))


async def drop_role(shard: Shard, principal: str) -> None:
    """Takes a principal's role away: it has the queue's default again."""
    args: dict[str, Argument] = {"principal": principal, "events": shard.terms.events}
    ok("role/drop", principal, await shard.run("role/drop", args))


@lru_cache(maxsize=4096)
def who_of(terms: Terms, principals: tuple[str, ...]) -> str:
    """Who asks for tasks, as scripts read it, see lua/include/role_refused.lua; "" for nobody."""
    if not principals:
        return ""
    by = [[one, terms.inbox_role if one == INBOX else terms.default_role] for one in principals]
    return json.dumps({"by": by, "may": CREATORS}, separators=(",", ":"))


def forbidden(refused: str) -> Forbidden:
    """The refusal that a script means by `<principal> <role>`."""
    principal, _, role = refused.partition(" ")
    return Forbidden(principal, role)
