"""What a running task says of itself, kept while its lease is held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.errors import LeaseLost
from rqueue.model.checked import within_a_year
from rqueue.model.codec import encode
from rqueue.model.ids import TaskId
from rqueue.store.replies import ok, text
from rqueue.store.shard import MICRO

if TYPE_CHECKING:
    from rqueue.model.note import Note
    from rqueue.store.leases import Held
    from rqueue.store.shard import Shard

KEEP_LINES = 100
MAX_LINE = 2000


async def note(shard: Shard, held: Held, said: Note, *, seq: int) -> None:
    """Keeps it; raises LeaseLost where the lease is not held, InvalidTask where it cannot be kept.

    `seq` rises with each note of an attempt: sent again, one is not kept twice.
    """
    row = (
        held.task,
        held.token,
        seq,
        b"" if said.progress is None else encode(said.progress, field="progress"),
        b"" if said.checkpoint is None else encode(said.checkpoint, field="checkpoint"),
        said.line[:MAX_LINE].encode(errors="replace"),
        round(said.usd * MICRO),
        said.tokens_in,
        said.tokens_out,
        within_a_year("seconds", said.extend_sec),
        shard.terms.timeout_ms,
    )
    reply = await shard.run("task/note", {"keep": KEEP_LINES}, [row])
    (word,) = ok("task/note", held.task, reply)
    if text(word) != "OK":
        raise LeaseLost(TaskId.from_ulid(held.task), held.token)
