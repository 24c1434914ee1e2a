"""The store's connection for a queue on the model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rqueue.store.connection import Connection, ServerInfo
from rqueue.task.state import State
from tests.reference.moves.call import encoded, text
from tests.reference.moves.leases import lane_table

if TYPE_CHECKING:
    from rqueue.store.keys import Keys
    from rqueue.store.library import Argument
    from tests.reference.model import Model
    from tests.reference.queue.model_server import ModelServer

T = TypeVar("T")

MOST_SEQ = 2**63
INFO = ServerInfo(name="memory", version=(7, 0), run_id="memory", cluster=False)


class ModelConnection(Connection):
    """Answers every call at once, after other coroutines had a chance to run, as with a server."""

    def __init__(self, server: ModelServer, keys: Keys, *, timeout_sec: float) -> None:
        super().__init__("memory", unopened, timeout_sec=timeout_sec)
        self.server = server
        self.plain = PlainCommands(server, keys)

    @property
    def client(self) -> Any:
        """The few plain commands that the store sends."""
        return self.plain

    async def call(
        self,
        send: Callable[[Any], Awaitable[T]],
        *,
        what: str = "redis",
        timeout_sec: float | None = None,
    ) -> T:
        """Runs plain commands."""
        await asyncio.sleep(0)
        # They never block, so the lock is not held while other coroutines run.
        with self.server.lock:
            return await send(self.plain)

    async def execute(self, commands: Iterable[Sequence[Argument]], *, what: str) -> list[Any]:
        """Runs moves. Returns their replies."""
        return [await self.execute_one(words, what=what) for words in commands]

    async def execute_one(self, words: Sequence[Argument], *, what: str) -> Any:
        """Runs a move. Returns its reply."""
        await asyncio.sleep(0)
        _, sha, *rest = words
        return self.server.run(text(sha), rest)

    async def wait(self, words: Sequence[Argument], wait_sec: float, *, what: str) -> Any:
        """Returns the next line of a mailbox. Other blocking commands time out."""
        command, *keys, _ = words
        if command != "BLPOP":
            await asyncio.sleep(wait_sec)
            return None
        boxes = [self.plain.box_of(text(key)) for key in keys]
        line = await self.server.next_mail(boxes, wait_sec)
        return None if line is None else (keys[0], line)

    async def server_info(self) -> ServerInfo:
        """A server that never restarts."""
        return INFO

    async def aclose(self) -> None:
        """Does nothing: no connection was opened."""


def unopened() -> Any:
    """Fails: no client may be opened."""
    raise AssertionError("the queue is in memory")


class PlainCommands:
    """The commands that the store sends besides moves, with the replies of redis-py."""

    def __init__(self, server: ModelServer, keys: Keys) -> None:
        self.server = server
        self.keys = keys

    @property
    def model(self) -> Model:
        """The model at the present time."""
        self.server.model.now_ms = self.server.clock.now_ms()
        return self.server.model

    def box_of(self, key: str) -> str:
        """The mailbox of a key."""
        return key.removeprefix(self.keys.mail(""))

    async def time(self) -> tuple[int, int]:
        """The clock in seconds and microseconds."""
        seconds, ms = divmod(self.server.clock.now_ms(), 1000)
        return seconds, ms * 1000

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        """The table of lanes; the model has no other hash."""
        found = lane_table(self.model) if key == self.keys.lanes() else {}
        return {name.encode(): value.encode() for name, value in found.items()}

    async def hget(self, key: str, field: str) -> bytes | None:
        """The lane of a task."""
        found = self.model.find(key.removeprefix(self.keys.task("")))
        return None if found is None else str(found.lane).encode()

    async def exists(self, key: str) -> int:
        """Whether a task exists, or an archive was joined."""
        if key == self.keys.archiving():
            return int(self.model.archiving is not None)
        return int(self.model.find(key.removeprefix(self.keys.task(""))) is not None)

    async def get(self, key: str) -> bytes | None:
        """The task with an external id."""
        found = self.model.by_external_id(key.removeprefix(self.keys.external("")))
        return None if found is None else found.id.encode()

    async def zscan(
        self, key: str, cursor: int, count: int = 0
    ) -> tuple[int, list[tuple[bytes, float]]]:
        """All members of an index."""
        return 0, [(task.encode(), 0.0) for task in self.members(key)]

    async def zcount(self, key: str, low: object, high: float) -> int:
        """The number of deadlines until then."""
        return len([at for at in self.model.deadlines.values() if at <= high])

    async def zrange(self, key: str, start: int, stop: int) -> list[bytes]:
        """The tasks with the nearest deadlines."""
        found = sorted(self.model.deadlines.items(), key=lambda item: (item[1], item[0]))
        return [task.encode() for task, _ in found[start : stop + 1]]

    async def srandmember(self, key: str, count: int) -> list[bytes]:
        """The model has no orphans."""
        return []

    async def xrevrange(
        self, key: str, high: str, low: str, count: int
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """The last reviews; the model records no events."""
        found = await self.xrange(key, low, high, MOST_SEQ)
        return found[::-1][:count]

    async def xrange(
        self, key: str, low: str, high: str, count: int
    ) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """The reviews between two entries; the model has no other stream and records no events."""
        if not key.endswith("reviews"):
            return []
        after = low.startswith("(")
        first, last = place(low.removeprefix("("), 0), place(high, MOST_SEQ)
        found = {
            entry: row
            for entry, row in self.model.reviews.items()
            if first <= place(entry, 0) <= last and not (after and place(entry, 0) == first)
        }
        rows = sorted(found.items(), key=lambda one: place(one[0], 0))[:count]
        return [
            (entry.encode(), {name.encode(): value.encode() for name, value in row.items()})
            for entry, row in rows
        ]

    async def xinfo_consumers(self, key: str, group: str) -> list[dict[str, Any]]:
        """The owners of leases."""
        return [
            {"name": owner.encode(), "idle": 0}
            for owner in sorted({record.owner for record in self.model.leased()})
        ]

    def members(self, key: str) -> list[str]:
        """The tasks of an index, from their states."""
        model, keys = self.model, self.keys
        if key == keys.blocked():
            return [record.id for record in model.among(State.PENDING)]
        if key == keys.delayed():
            return list(model.delayed())
        if key == keys.dead():
            return [record.id for record in model.among(State.DEAD_LETTERED)]
        for number in model.lanes.values():
            if key == keys.lane(number):
                return model.lane(number)
        tag = key.removeprefix(keys.tag_list(""))
        tagged = (r for r in model.tasks.values() if tag in r.special.tags)
        return [r.id for r in tagged if r.state not in (State.COMPLETED, State.CANCELLED)]

    async def hset(self, key: str, field: str, value: str) -> None:
        """Does nothing: the use of a library is not recorded."""

    # WAIT is answered with the number of replicas that was requested.

    def pipeline(self, *, transaction: bool) -> ModelPipeline:
        """A move followed by WAIT."""
        return ModelPipeline(self.server)


def place(entry: str, seq: int) -> tuple[float, int]:
    """The position of a stream entry; `seq` is used where the id has none."""
    if entry in "-+":
        return (float("-inf") if entry == "-" else float("inf")), seq
    ms, _, rest = entry.partition("-")
    return int(ms), int(rest or seq)


class ModelPipeline:
    """A move and a WAIT in one pipeline."""

    def __init__(self, server: ModelServer) -> None:
        self.server = server
        self.replies: list[Any] = []

    def execute_command(self, command: str, *words: Any) -> None:
        """Runs the move, or answers the WAIT."""
        if command == "WAIT":
            self.replies.append(words[0])
        else:
            sha, *rest = words
            self.replies.append(self.server.run(sha, rest))

    async def execute(self, *, raise_on_error: bool = True) -> list[Any]:
        """The replies in order; none is an error."""
        del raise_on_error
        replies: list[Any] = encoded(self.replies)
        return replies
