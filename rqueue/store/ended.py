"""Reads what is kept of tasks that have ended, many at a time: nothing of it changes any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rqueue.errors import ScriptFault
from rqueue.store.kept import NUL, PIECES, Kept, Plain, is_torn, kept_in
from rqueue.store.replies import ok
from rqueue.store.shard import BYTES

if TYPE_CHECKING:
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

# Tasks that are read together; fewer where they are large.
PAGE = 500
# Results that are shorter are read at a glance.
SHORT = 2_048
# The name of a field among the words of a hash: what tells that there is more of a task, and the
# first piece of a short definition.
FLAGS, PIECE = b"\0flags\0", b"\0%b\0" % PIECES[0]


async def read_page(shard: Shard, page: Sequence[str]) -> list[Kept | Plain]:
    """What is kept of the first of these tasks, as many as are read together; an empty hash where
    nothing is. Of one that has a key of another type nothing can be read: it stands in no other's
    way.
    """
    page = page[:PAGE]
    found = await glance(shard, page)
    left = [place for place, one in enumerate(found) if one is None]
    whole = await read_whole(shard, [page[place] for place in left]) if left else []
    for place, one in zip(left, whole, strict=False):
        found[place] = one
    if len(whole) < len(left):
        del found[left[len(whole)] :]
    return [one for one in found if one is not None]


async def glance(shard: Shard, page: Sequence[str]) -> list[Kept | Plain | None]:
    """The plain tasks among these; None for any other, and for all where the server is a cluster.

    Without a script, which costs the server three times as much: it makes a Lua string of each
    word, to no end. The result is read first: what is deleted meanwhile has no hash then.
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
    words = NUL.join(flat)
    is_whole = len(result) < SHORT and words.count(NUL) == len(flat) - 1
    # A value that reads like a name costs a second look, no more.
    if not is_whole or FLAGS in words or PIECE not in words:
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
