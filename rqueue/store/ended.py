"""Reads what is kept of tasks that have ended, many at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from rqueue.errors import ScriptFault
from rqueue.store.kept import NUL, PIECES, Kept, Plain, is_torn, kept_in
from rqueue.store.replies import ok
from rqueue.store.shard import BYTES

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

# Tasks that are looked at together.
PAGE = 500
# Results that are shorter are read at a glance.
SHORT = 2_048


async def read_ended(shard: Shard, tasks: Sequence[str]) -> AsyncIterator[Sequence[Kept | Plain]]:
    """What is kept of tasks that have ended, in their order, as much at a time as memory holds; an
    empty hash where nothing is. Of one that has a key of another type nothing can be read: it
    stands in no other's way.
    """
    for start in range(0, len(tasks), PAGE):
        page = tasks[start : start + PAGE]
        found = await glance(shard, page)
        while left := [place for place, one in enumerate(found) if one is None]:
            whole = await read_whole(shard, [page[place] for place in left])
            for place, one in zip(left, whole, strict=False):
                found[place] = one
            end = left[len(whole)] if len(whole) < len(left) else len(page)
            yield [one for one in found[:end] if one is not None]
            page, found = page[end:], found[end:]
        yield [one for one in found if one is not None]


async def glance(shard: Shard, page: Sequence[str]) -> list[Kept | Plain | None]:
    """The plain tasks among these, which have ended; None for any other, and for all where the
    server is a cluster.

    Without a script, which costs the server three times as much: it makes a Lua string of each
    word, to no end. The result is read first: what is deleted meanwhile has no hash then. One that
    still ran could complete between the two, and would be told without its result.
    """
    connection = shard.runner.connection
    if connection.cluster:
        return [None] * len(page)
    commands: list[tuple[Argument, ...]] = []
    for task in page:
        commands.append(("GETRANGE", shard.keys.result(task), 0, SHORT - 1))
        commands.append(("HGETALL", shard.keys.task(task)))
    try:
        found = await connection.ask_together(commands, what="ended")
    except ScriptFault as fault:
        if "WRONGTYPE" not in str(fault.reply):
            raise
        return [None] * len(page)
    return [plain_in(*pair) for pair in zip(found[::2], found[1::2], strict=True)]


def plain_in(result: bytes, flat: Sequence[bytes]) -> Plain | None:
    """A task with nothing but a hash and a short result; None for any other."""
    # In any order: that of a hash with a long value is the server's own.
    names = flat[::2]
    words = NUL.join(flat)
    is_whole = len(result) < SHORT and words.count(NUL) == len(flat) - 1
    if not is_whole or b"flags" in names or PIECES[0] not in names:
        return None
    return Plain(words, b"", result)


async def read_whole(shard: Shard, page: Sequence[str]) -> list[Kept | Plain]:
    """What is kept of the first of these tasks, with all that stands beside them, as much as one
    call reads.
    """
    try:
        found = await read(shard, page, joined=True)
        for place, row in enumerate(found):
            if is_torn(row):
                (found[place],) = await read(shard, [page[place]], joined=False)
    except ScriptFault as fault:
        if "WRONGTYPE" not in str(fault.reply):
            raise
        return [Kept(())] if len(page) == 1 else await read_whole(shard, page[: len(page) // 2])
    return [kept_in(*row) for row in found]


async def read(shard: Shard, tasks: Sequence[str], *, joined: bool) -> list[Any]:
    """The rows of some tasks, plain ones with their words joined or not."""
    args: dict[str, Argument] = {"limit": BYTES, "joined": int(joined)}
    reply = await shard.run("queue/ended", args, [(task,) for task in tasks])
    return list(ok("queue/ended", "", reply))
