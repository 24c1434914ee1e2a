"""The roles of principals, stored in Redis and checked by the moves that create tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.core.submit import forbidden, who_of
from rqueue.producer import arguments
from rqueue.store.replies import ok, text

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard
    from rqueue.task.fields import Role


async def roles(shard: Shard) -> dict[str, str]:
    """Returns the stored roles by principal."""
    (found,) = ok("role/list", "", await shard.run("role/list"))
    flat = [text(word) for word in found]
    return dict(sorted(zip(flat[::2], flat[1::2], strict=True)))


async def set_role(shard: Shard, principal: str, role: Role, *, by: str | None) -> None:
    """Sets the role of a principal. Raises Forbidden if the caller's role does not allow it."""
    await change(shard, "role/set", principal, {"role": role}, by=by)


async def drop_role(shard: Shard, principal: str, *, by: str | None) -> None:
    """Removes a principal's role, so that the queue's default applies. Raises Forbidden."""
    await change(shard, "role/drop", principal, {}, by=by)


async def change(
    shard: Shard, move: str, principal: str, args: dict[str, Argument], *, by: str | None
) -> None:
    """Changes the role of a principal on behalf of `by`; None stands for no principal."""
    given: dict[str, Argument] = {
        "principal": principal,
        "events": shard.terms.events,
        "who": who_of(shard.terms, (by,) if by else ()),
        **args,
        **shard.request_args(),
    }
    reply = await shard.run(move, given)
    if text(reply[0]) == "FORBIDDEN":
        raise forbidden(text(reply[1]), "change roles")
    ok(move, principal, reply)


class Roles:
    """`queue.roles`. The queue's own principal makes the changes, so its role must allow them."""

    def __init__(self, shard: Shard, *, by: str | None) -> None:
        self._shard = shard
        self._by = by

    async def list(self) -> dict[str, str]:
        """Returns the stored roles by principal. All other principals have `default_role`."""
        return await roles(self._shard)

    async def set(self, principal: str, role: Role) -> None:
        """Sets the role of a principal: `orchestrator` and `human` may create any task, `agent` may
        only spawn tasks in its own DAG. Raises InvalidTask for an invalid name or role, and
        Forbidden if this queue's own principal is an agent.
        """
        who, what = arguments.principal_of("principal", principal), arguments.role_of(role)
        await set_role(self._shard, who, what, by=self._by)

    async def drop(self, principal: str) -> None:
        """Removes a principal's role, so that `default_role` applies. Raises Forbidden as `set`
        does.
        """
        who = arguments.principal_of("principal", principal)
        await drop_role(self._shard, who, by=self._by)
