"""The roles of principals, kept where the scripts that create tasks look them up."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from rqueue.errors import Forbidden
from rqueue.model.role import CREATORS, INBOX
from rqueue.store.replies import ok, text

if TYPE_CHECKING:
    from rqueue.errors.submitting import Deed
    from rqueue.model.role import Role
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard, Terms


async def roles(shard: Shard) -> dict[str, str]:
    """Every principal that was given a role, by name, and which."""
    (found,) = ok("role/list", "", await shard.run("role/list"))
    flat = [text(word) for word in found]
    return dict(sorted(zip(flat[::2], flat[1::2], strict=True)))


async def set_role(shard: Shard, principal: str, role: Role, *, by: str | None) -> None:
    """Gives a principal a role; raises Forbidden where the role of who asks forbids it."""
    await change(shard, "role/set", principal, {"role": role}, by=by)


async def drop_role(shard: Shard, principal: str, *, by: str | None) -> None:
    """Takes a principal's role away: it has the queue's default again. Raises Forbidden."""
    await change(shard, "role/drop", principal, {}, by=by)


async def change(
    shard: Shard, script: str, principal: str, args: dict[str, Argument], *, by: str | None
) -> None:
    """Changes what the role of a principal is, asked for by another, or by nobody."""
    given: dict[str, Argument] = {
        "principal": principal,
        "events": shard.terms.events,
        "who": who_of(shard.terms, (by,) if by else ()),
        **args,
        **shard.by_hand(),
    }
    reply = await shard.run(script, given)
    if text(reply[0]) == "FORBIDDEN":
        raise forbidden(text(reply[1]), "change roles")
    ok(script, principal, reply)


@lru_cache(maxsize=4096)
def who_of(terms: Terms, principals: tuple[str, ...]) -> str:
    """Who asks, as scripts read it, see lua/include/role_refused.lua; "" for nobody."""
    if not principals:
        return ""
    by = [[one, terms.inbox_role if one == INBOX else terms.default_role] for one in principals]
    return json.dumps({"by": by, "may": CREATORS}, separators=(",", ":"))


def forbidden(refused: str, deed: Deed = "create this") -> Forbidden:
    """The refusal that a script means by `<principal> <role>`."""
    principal, _, role = refused.partition(" ")
    return Forbidden(principal, role, deed)
