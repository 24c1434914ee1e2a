"""Going through everything of a shard, a page at a time, and putting right what is found wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.store.replies import ok, text

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

START = "0"
# Things a page: each is looked up by itself, and a page stops the server for a few milliseconds.
PAGE = 250
# A task may have thousands of parents: each look is at a few of them, chosen by chance.
PARENTS = 8


class Names(NamedTuple):
    """A page of key names after the root; the cursor is START at the end."""

    cursor: str
    names: list[str]


class Repairs(NamedTuple):
    """Where to go on, and how many things were put right."""

    cursor: str
    number: int


async def walk(
    shard: Shard, kinds: Iterable[str], cursor: str = START, *, limit: int = PAGE
) -> Names:
    """A page of the shard's keys of these kinds."""
    args: dict[str, Argument] = {"kinds": json.dumps(list(kinds)), "cursor": cursor, "limit": limit}
    following, *found = ok("queue/walk", "", await shard.run("queue/walk", args))
    return Names(text(following), [text(name) for name in found])


async def mend(shard: Shard, tasks: Sequence[str]) -> int:
    """Puts tasks back into the indexes that their states name; how many were missing in one."""
    rows = [(task,) for task in tasks]
    reply = await shard.run("queue/mend", {"parents": PARENTS}, rows)
    return int(ok("queue/mend", "", reply)[0])


async def prune(shard: Shard, key: str, cursor: str = START, *, limit: int = PAGE) -> Repairs:
    """Takes out of a page of an index the tasks that are not what it lists."""
    args: dict[str, Argument] = {
        "index": key.removeprefix(shard.root),
        "cursor": cursor,
        "limit": limit,
    }
    following, number = ok("queue/prune", "", await shard.run("queue/prune", args))
    return Repairs(text(following), int(number))


async def sweep(shard: Shard, after: str = "", *, limit: int = PAGE) -> Repairs:
    """Takes out of a page of the stream what is not its task's entry, or lease; "" at the end."""
    args: dict[str, Argument] = {"from": f"({after}" if after else "-", "limit": limit}
    last, number = ok("queue/sweep", "", await shard.run("queue/sweep", args))
    return Repairs(text(last), int(number))


async def orphans(shard: Shard, *, limit: int = PAGE) -> list[str]:
    """Some of the tasks that a claim found without their entry."""
    key = shard.keys.orphans()
    found: Any = await shard.runner.connection.call(
        lambda client: client.srandmember(key, limit), what="orphans"
    )
    return [text(task) for task in found]


async def dismiss(shard: Shard, *, silent_ms: int, limit: int = PAGE) -> int:
    """Forgets workers that were silent for so long and hold nothing; how many."""
    args: dict[str, Argument] = {"silent_ms": silent_ms, "limit": limit}
    return int(ok("queue/dismiss", "", await shard.run("queue/dismiss", args))[0])


async def tidy(shard: Shard, names: Sequence[str], *, silent_ms: int) -> int:
    """Drops what is left of conversations that are over, of the keys named; how much."""
    rows = [(name,) for name in names]
    reply = await shard.run("queue/tidy", {"silent_ms": silent_ms}, rows)
    return int(ok("queue/tidy", "", reply)[0])
