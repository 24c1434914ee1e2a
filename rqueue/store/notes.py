"""What a running task says of itself, kept while its lease is held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rqueue.errors import BudgetExceeded, InvalidTask, LeaseLost
from rqueue.model.attempt import Reason
from rqueue.model.checked import within_a_year
from rqueue.model.codec import encode
from rqueue.model.ids import TaskId
from rqueue.model.money import micro_usd
from rqueue.store.replies import ok, text

if TYPE_CHECKING:
    from rqueue.model.note import Note
    from rqueue.store.leases import Held
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard

KEEP_LINES = 100
MAX_LINE = 2000
# What one note may add.
MOST_USD = 1_000_000
MOST_TOKENS = 10**12


async def note(shard: Shard, held: Held, said: Note, *, seq: int | None = None) -> None:
    """Keeps it; raises LeaseLost where the lease is not held, InvalidTask where it cannot be kept,
    BudgetExceeded where it is kept and the run costs too much. What a run that lost its lease has
    cost is counted all the same, once: the LeaseLost says so.

    `seq` rises with each note that a worker keeps of an attempt: sent again, one is not kept twice.
    By hand there is none: any number of processes may speak of one run, and each call has a name.
    """
    check_cost(said)
    row = (
        held.task,
        held.token,
        "" if seq is None else seq,
        b"" if said.progress is None else encode(said.progress, field="progress"),
        b"" if said.checkpoint is None else encode(said.checkpoint, field="checkpoint"),
        said.line[:MAX_LINE].encode(errors="replace"),
        micro_usd(said.usd),
        said.tokens_in,
        said.tokens_out,
        within_a_year("seconds", said.extend_sec),
        shard.terms.timeout_ms,
        said.model,
    )
    args: dict[str, Argument] = {"keep": KEEP_LINES, "archive": int(shard.terms.archive)}
    args |= shard.by_hand() if seq is None else {"request": "", "memo_ms": 0}
    reply = await shard.run("task/note", args, [row])
    (word,) = ok("task/note", held.task, reply)
    match text(word):
        case "OK":
            return
        case Reason.BUDGET_EXCEEDED:
            raise BudgetExceeded(TaskId.from_ulid(held.task))
        case word:
            raise LeaseLost(TaskId.from_ulid(held.task), held.token, word == "LATE")


def check_cost(said: Note) -> None:
    """Raises InvalidTask where what a run says it cost is no cost."""
    if not 0 <= said.usd <= MOST_USD:
        raise InvalidTask("usd", f"is a number of dollars from 0 to {MOST_USD}")
    for field, tokens in (("tokens_in", said.tokens_in), ("tokens_out", said.tokens_out)):
        if not isinstance(tokens, int) or not 0 <= tokens <= MOST_TOKENS:
            raise InvalidTask(field, f"is a whole number from 0 to {MOST_TOKENS}")
