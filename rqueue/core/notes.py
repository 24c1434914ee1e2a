"""What a running task reports about itself, stored while its lease is held."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from rqueue.errors import ArtifactRefused, BudgetExceeded, InvalidTask, LeaseLost
from rqueue.store.replies import ok, text
from rqueue.task.artifact import line_of
from rqueue.task.attempt.outcome import Reason
from rqueue.task.codec import encode
from rqueue.task.fields import micro_usd, within_a_year
from rqueue.task.ids import ArtifactId, TaskId

if TYPE_CHECKING:
    from rqueue.core.leases import HeldLease
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard
    from rqueue.task.artifact import Artifact
    from rqueue.task.task import Note


KEEP_LINES = 100
MAX_LINE = 2000
# The most that one note may add.
MOST_USD = 1_000_000
MOST_TOKENS = 10**12


async def note(shard: Shard, held: HeldLease, content: Note, *, seq: int | None = None) -> None:
    """Stores a note. Raises LeaseLost where the lease is not held, InvalidTask where the note
    cannot be stored, BudgetExceeded where it is stored and the run exceeds its budget. The cost of
    a run that lost its lease is counted once all the same: the LeaseLost has `counted`.

    `seq` rises with each note of an attempt: sent again, a note is not stored twice. Leases held by
    hand have none: several processes may report about one run, and each call has a name.
    """
    check_cost(content)
    row = (
        held.task,
        held.token,
        "" if seq is None else seq,
        b"" if content.progress is None else encode(content.progress, field="progress"),
        b"" if content.checkpoint is None else encode(content.checkpoint, field="checkpoint"),
        content.line[:MAX_LINE].encode(errors="replace"),
        micro_usd(content.usd),
        content.tokens_in,
        content.tokens_out,
        within_a_year("seconds", content.extend_sec),
        shard.terms.timeout_ms,
        content.model,
    )
    args: dict[str, Argument] = {"keep": KEEP_LINES, "archive": int(shard.terms.archive)}
    args |= shard.request_args() if seq is None else {"request": "", "memo_ms": 0}
    reply = await shard.run("task/note", args, [row])
    (word,) = ok("task/note", held.task, reply)
    match text(word):
        case "OK":
            return
        case Reason.BUDGET_EXCEEDED:
            raise BudgetExceeded(TaskId.from_ulid(held.task))
        case word:
            raise LeaseLost(TaskId.from_ulid(held.task), held.token, word == "LATE")


def check_cost(content: Note) -> None:
    """Raises InvalidTask where a reported cost is negative, too large or not a number."""
    if not 0 <= content.usd <= MOST_USD:
        raise InvalidTask("usd", f"is a number of dollars from 0 to {MOST_USD}")
    for field, tokens in (("tokens_in", content.tokens_in), ("tokens_out", content.tokens_out)):
        if not isinstance(tokens, int) or not 0 <= tokens <= MOST_TOKENS:
            raise InvalidTask(field, f"is a whole number from 0 to {MOST_TOKENS}")


async def step(shard: Shard, held: HeldLease, name: str, result: bytes = b"") -> bytes:
    """Stores the result of a step, unless one is stored under its name, and returns what is stored:
    nothing where nothing is and none was given. Raises LeaseLost where the lease is not held,
    InvalidTask where the result cannot be stored.
    """
    terms = shard.terms
    if len(result) > terms.max_result_bytes:
        rule = f"gave {len(result)} bytes of JSON; {terms.max_result_bytes} are allowed"
        raise InvalidTask(f"step {name}", f"{rule} (max_result_bytes): store a reference instead")
    args: dict[str, Argument] = {
        "task": held.task,
        "token": held.token,
        "name": name,
        "result": result,
        "most": terms.max_steps,
    }
    reply = await shard.run("task/step", args)
    match text(reply[0]):
        case "LOST":
            raise LeaseLost(TaskId.from_ulid(held.task), held.token)
        case "FULL":
            rule = f"is one more than the {terms.max_steps} that a task may keep (max_steps)"
            raise InvalidTask(f"step {name}", rule)
        case _:
            (kept,) = ok("task/step", held.task, reply)
            return bytes(kept)


START = "0"
# Keys per page: each is read whole, and a definition or a result may be large.
PAGE = 50
# Length of an id: the prefix, the underscore and the ULID.
LENGTH = 30


async def attach(shard: Shard, held: HeldLease, artifact: Artifact) -> None:
    """Records an artifact with the task that put it. Raises LeaseLost where the lease is not held,
    ArtifactRefused where the task has too many.
    """
    most = shard.terms.max_artifacts
    args: dict[str, Argument] = {
        "task": held.task,
        "token": held.token,
        "artifact": artifact.id,
        "facts": line_of(artifact),
        "most": most,
    }
    reply = await shard.run("task/attach", args)
    match text(reply[0]):
        case "LOST":
            raise LeaseLost(TaskId.from_ulid(held.task), held.token)
        case "FULL":
            rule = f"is one more than the {most} that a task may put (max_artifacts)"
            raise ArtifactRefused(artifact.reference, rule)
        case _:
            ok("task/attach", held.task, reply)


async def mentioned(shard: Shard) -> AsyncIterator[ArtifactId]:
    """Every artifact that a stored task of the shard refers to during the walk."""
    cursor = START
    while True:
        args: dict[str, Argument] = {"cursor": cursor, "limit": PAGE}
        following, *found = ok("repair/mentions", "", await shard.run("repair/mentions", args))
        for word in found:
            try:
                # A text that begins like an id counts as that id.
                yield ArtifactId.parse(text(word)[:LENGTH])
            except InvalidTask:
                continue
        cursor = text(following)
        if cursor == START:
            return
