"""Reads what is stored of ended tasks, many at a time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rqueue.errors import ScriptFault
from rqueue.store.replies import ok
from rqueue.store.shard import BYTES

if TYPE_CHECKING:
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard


# Tasks per page.
PAGE = 500
# Shorter results are read together with the hash.
SHORT = 2_048


async def read_ended(
    shard: Shard, tasks: Sequence[str]
) -> AsyncIterator[Sequence[EndedTask | PlainTask]]:
    """What is stored of ended tasks, in their order, in portions that fit into memory; an empty
    hash where nothing is stored. A task that has a key of another type cannot be read; the others
    are read all the same.
    """
    for start in range(0, len(tasks), PAGE):
        page = tasks[start : start + PAGE]
        found = await read_plain(shard, page)
        while left := [place for place, one in enumerate(found) if one is None]:
            whole = await read_whole(shard, [page[place] for place in left])
            for place, one in zip(left, whole, strict=False):
                found[place] = one
            end = left[len(whole)] if len(whole) < len(left) else len(page)
            yield [one for one in found[:end] if one is not None]
            page, found = page[end:], found[end:]
        yield [one for one in found if one is not None]


async def read_plain(shard: Shard, page: Sequence[str]) -> list[EndedTask | PlainTask | None]:
    """The plain tasks among these ended ones; None for any other, and for all on a cluster.

    Plain commands, no move: a Lua function costs the server three times as much, because it
    makes a Lua string of each word. The result is read first: a task that is deleted meanwhile then
    has no hash. A task that still ran could complete between the two reads, and would be returned
    without its result.
    """
    connection = shard.runner.connection
    if connection.cluster:
        return [None] * len(page)
    commands: list[tuple[Argument, ...]] = []
    for task in page:
        commands.append(("GETRANGE", shard.keys.result(task), 0, SHORT - 1))
        commands.append(("HGETALL", shard.keys.task(task)))
    try:
        found = await connection.execute_together(commands, what="ended")
    except ScriptFault as fault:
        if "WRONGTYPE" not in str(fault.reply):
            raise
        return [None] * len(page)
    return [plain_in(*pair) for pair in zip(found[::2], found[1::2], strict=True)]


def plain_in(result: bytes, flat: Sequence[bytes]) -> PlainTask | None:
    """A task with nothing but a hash and a short result; None for any other."""
    # A hash with a long value has no fixed order of fields.
    names = flat[::2]
    words = NUL.join(flat)
    is_whole = len(result) < SHORT and words.count(NUL) == len(flat) - 1
    if not is_whole or b"flags" in names or PIECES[0] not in names:
        return None
    return PlainTask(words, b"", result)


async def read_whole(shard: Shard, page: Sequence[str]) -> list[EndedTask | PlainTask]:
    """All that is stored of the first of these tasks, as many as one call reads."""
    try:
        found = await read(shard, page, joined=True)
        for place, row in enumerate(found):
            if is_torn(row):
                (found[place],) = await read(shard, [page[place]], joined=False)
    except ScriptFault as fault:
        if "WRONGTYPE" not in str(fault.reply):
            raise
        return (
            [EndedTask(())] if len(page) == 1 else await read_whole(shard, page[: len(page) // 2])
        )
    return [ended_in(*row) for row in found]


async def read(shard: Shard, tasks: Sequence[str], *, joined: bool) -> list[Any]:
    """The rows of some tasks, the words of plain ones joined or not."""
    args: dict[str, Argument] = {"limit": BYTES, "joined": int(joined)}
    reply = await shard.run("archive/read", args, [(task,) for task in tasks])
    return list(ok("archive/read", "", reply))


NUL = b"\0"
# Fields of a task's hash that hold a short definition.
PIECES = tuple(b"def%d" % digit for digit in range(8))
T = TypeVar("T")
Flat = Sequence[bytes]


@dataclass(slots=True)
class EndedTask:
    """All that is stored of an ended task: its hash as a flat list, and the keys beside it."""

    flat: Flat
    definition: bytes = b""
    result: bytes = b""
    failures: Flat = ()
    notes: Flat = ()
    logs: Flat = ()
    parents: Flat = ()
    steps: Flat = ()

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        beside = (self.flat, self.failures, self.notes, self.logs, self.parents, self.steps)
        words = sum(len(word) for part in beside for word in part)
        return words + len(self.definition) + len(self.result)

    def unpacked(self) -> EndedTask:
        """Returns itself."""
        return self


class PlainTask(NamedTuple):
    """A task with nothing beside its hash except perhaps a result.

    The words of the hash are one text, separated by NUL: nearly all tasks are plain, and most are
    never unpacked. `definition` is empty where its pieces are among the words.
    """

    words: bytes
    definition: bytes
    result: bytes

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return len(self.words) + len(self.definition) + len(self.result)

    def unpacked(self) -> EndedTask:
        """The same task with its words split."""
        flat = self.words.split(NUL)
        return EndedTask(flat, self.definition or joined(flat), self.result)


def is_torn(row: Sequence[Any]) -> bool:
    """Whether a word of a joined hash contains a NUL."""
    words, count = row[0], row[1]
    return isinstance(words, bytes) and words.count(NUL) != max(count - 1, 0)


def ended_in(
    words: bytes | Flat, count: int, definition: bytes, *rest: Any
) -> EndedTask | PlainTask:
    """The task in a row of the reply; an empty hash where nothing is stored of it."""
    if not count:
        return EndedTask((), definition, *rest)
    if isinstance(words, bytes):
        return PlainTask(words, definition, *rest)
    return EndedTask(words, definition or joined(words), *rest)


def joined(flat: Flat) -> bytes:
    """The definition whose pieces are fields of a hash."""
    fields = dict(pairs(flat))
    return b"".join([fields.get(piece, b"") for piece in PIECES])


def pairs(words: Sequence[T]) -> Iterator[tuple[T, T]]:
    """The names and values of a flat list."""
    return zip(words[::2], words[1::2], strict=True)


def snapshot_in(copy: bytes) -> EndedTask:
    """The snapshot of a task that was made before it may be retried; raises ValueError where it
    cannot be read. The bytes of its parts are unchanged.
    """
    found: Any = json.loads(copy.decode(errors="surrogateescape"))
    hash = found["task"]
    return EndedTask(
        flat=[raw(word) for pair in hash.items() for word in pair],
        definition=raw(found["def"]),
        failures=[raw(each) for each in found["failures"]],
        notes=[raw(word) for pair in dict(found["notes"]).items() for word in pair],
        logs=[raw(each) for each in found["logs"]],
        parents=[raw(each) for each in found["parents"]],
        steps=[raw(each) for each in found["steps"]],
    )


def raw(word: str) -> bytes:
    """The bytes that a text of a snapshot encodes."""
    return str(word).encode(errors="surrogateescape")
