"""Submitting: many tasks in one call, each with its own result."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.core.counts import answer_all
from rqueue.errors import (
    Forbidden,
    InvalidGraph,
    Overloaded,
    RQueueError,
    ScriptFault,
    TooManyLanes,
)
from rqueue.store.replies import NO_DEPENDENCY, ok, text
from rqueue.store.shard import TRIES, ending
from rqueue.task.definition import fields_of
from rqueue.task.fields import CREATORS, INBOX
from rqueue.task.ids import TaskId, external_key, new_task_id, new_task_ids
from rqueue.task.lane import Lane, signature

if TYPE_CHECKING:
    from rqueue.errors import Deed
    from rqueue.store.library import Argument
    from rqueue.store.runner import Reply
    from rqueue.store.shard import Shard, Terms

NAME_TAKEN = (
    "its external_id is that of a task which is neither dead nor cancelled; give it another"
)
# Tasks per call: while the server processes one page the next is made, so the first is small and
# each is twice the one before; the largest stops the server for about a millisecond.
FIRST_PAGE, LAST_PAGE = 16, 64
# Dependencies that the tasks of one call may have, and the fewest letters that one of them takes.
MOST_DEPENDENCIES, DEPENDENCY_LETTERS = 500, 29
# Length of a reply without a word about any task: OK, and whether waiting claims remain to be
# answered.
PLAIN_REPLY = 2


class Row(NamedTuple):
    """A row of lua/task/submit.lua."""

    task: str
    place: str
    definition: bytes
    special: str = ""


class Draft(NamedTuple):
    """A task ready to be sent: its lane and place in it, what is special about it, its tenant, and
    who submits it, if that is known.
    """

    lane: Lane
    base: int
    definition: bytes
    more: str = ""
    submit_facts: str = ""
    key: str = ""
    by: str = ""

    def place(self, line: int) -> str:
        """Its place as moves read it, with the number of its lane's line in the call."""
        return f"{line}@{self.key} {self.base}" if self.key else f"{line} {self.base}"


class Page:
    """The drafts of one call, by one principal. Their ids are made when they are first
    sent, and stay.
    """

    __slots__ = ("drafts", "ids")

    def __init__(self, drafts: Sequence[Draft], ids: Sequence[TaskId] = ()) -> None:
        self.drafts = drafts
        self.ids = ids

    def task_ids(self) -> Sequence[TaskId]:
        """The ids, the same each time the page is sent."""
        if not self.ids:
            self.ids = new_task_ids(len(self.drafts))
        return self.ids


class SubmitResult(NamedTuple):
    """The task for a draft: a new one, or one that existed before."""

    id: TaskId
    created: bool


async def submit(
    shard: Shard,
    drafts: Sequence[Draft],
    *,
    ids: Sequence[TaskId] = (),
    replicas: int | None = None,
) -> list[SubmitResult | RQueueError]:
    """Each draft's result, in order. Sent again it creates nothing and returns the same.

    With `ids`, one for each draft, the tasks get these; an existing task is not changed. With
    `replicas` (default: the queue's setting), returns after so many replicas have the tasks.
    """
    if replicas is None:
        replicas = shard.terms.wait_replicas
    pages = list(pages_of(drafts, ids))
    if replicas:
        replies: list[Reply | RQueueError] = [
            await submit_page(shard, page, replicas) for page in pages
        ]
    else:
        replies = await shard.run_all(
            "task/submit", [partial(call_of, shard, page) for page in pages]
        )
    answers: list[SubmitResult | RQueueError] = []
    for page, reply in zip(pages, replies, strict=True):
        answers += answered(shard, page, reply)
    # Each page answers a bounded number of waiting claims.
    if any(isinstance(reply, list) and int(reply[1]) for reply in replies):
        await answer_all(shard)
    return answers


def pages_of(drafts: Sequence[Draft], ids: Sequence[TaskId] = ()) -> Iterator[Page]:
    """The drafts, with their ids where given, in the portions that are sent."""
    start, size = 0, FIRST_PAGE
    while start < len(drafts):
        end = fitting(drafts, start, min(start + size, len(drafts)))
        yield Page(drafts[start:end], ids[start:end])
        start, size = end, min(2 * size, LAST_PAGE)


def fitting(drafts: Sequence[Draft], start: int, end: int) -> int:
    """Where a call's tasks end: before the first with another principal, or with too many
    dependencies; at least one task.
    """
    left, by = MOST_DEPENDENCIES, drafts[start].by
    for at in range(start, end):
        if drafts[at].by != by:
            return at
        if drafts[at].submit_facts:
            left -= len(drafts[at].submit_facts) // DEPENDENCY_LETTERS
            if left < 0:
                return max(at, start + 1)
    return end


async def submit_one(shard: Shard, draft: Draft) -> SubmitResult | RQueueError:
    """`submit` for a single draft; what is the same for a lane is made once."""
    if shard.terms.wait_replicas:
        return (await submit(shard, [draft]))[0]
    lane, _, definition, more, submit_facts, _, by = draft
    task = new_task_id()
    words = [
        *opening(shard, lane, by),
        task[-26:],
        draft.place(1),
        definition,
        special(more, submit_facts),
    ]
    reply = await shard.runner.run_words("task/submit", words)
    if int(reply[1]):
        await answer_all(shard)
    if len(reply) == PLAIN_REPLY:
        return SubmitResult(task, True)
    return answered(shard, Page([draft], [task]), reply)[0]


@lru_cache(maxsize=4096)
def opening(shard: Shard, lane: Lane, by: str) -> tuple[Argument, ...]:
    """The arguments of a submit before its rows, for tasks of one lane."""
    args = {"root": shard.root, **common(shard, (lane,), by)}
    return tuple(shard.runner.moves["task/submit"].pack(shard.move_keys["task/submit"], args))


async def submit_page(shard: Shard, page: Page, replicas: int) -> Reply:
    """One call's reply, after the replicas have it."""
    args, rows = call_of(shard, page)
    return await shard.run("task/submit", args, rows, replicas=replicas)


def call_of(shard: Shard, page: Page) -> tuple[dict[str, Argument], list[Row]]:
    """The arguments and rows of one call."""
    indexes: dict[Lane, int] = {}
    rows: list[Row] = []
    last: Lane | None = None
    by = ""
    for task, draft in zip(page.task_ids(), page.drafts, strict=True):
        lane, base, definition, more, submit_facts, key, by = draft
        # Neighbours mostly share their lane; its hash costs more than all else here.
        if lane is not last:
            index, last = indexes.setdefault(lane, len(indexes) + 1), lane
        place = draft.place(index) if key else f"{index} {base}"
        rows.append(Row(task[-26:], place, definition, special(more, submit_facts)))
    return common(shard, tuple(indexes), by), rows


def special(more: str, submit_facts: str) -> str:
    """The special facts of a task, as the move reads them; "" for a plain one."""
    return f"{more}\n{submit_facts}" if more or submit_facts else ""


def common(shard: Shard, lanes: tuple[Lane, ...], by: str) -> dict[str, Argument]:
    """The arguments of a call for tasks of these lanes by one principal."""
    return {
        "lanes": lanes_text(lanes),
        "max_lanes": shard.terms.max_lanes,
        "tries": TRIES,
        "how": ending(shard.terms),
        "who": who_of(shard.terms, (by,)) if by else "",
        "most": most_of(shard.terms),
    }


def most_of(terms: Terms) -> Argument:
    """How many ended tasks may wait for the archive, as moves read it: 0 for any number, "" where
    this client has no archive.
    """
    return terms.max_outbox if terms.archive else ""


def archive_full(waiting: str) -> Overloaded:
    """The refusal of a queue whose archive does not keep up."""
    return Overloaded(f"{waiting} ended tasks wait for the archive (max_outbox)")


@lru_cache(maxsize=4096)
def lanes_text(lanes: tuple[Lane, ...]) -> str:
    """The lanes of a call as the move reads them; usually the same few."""
    return "\n".join(line_of(lane) for lane in lanes)


def line_of(lane: Lane) -> str:
    """A lane and the price of the tasks that enter it, in one line."""
    price = f"${lane.price}" if lane.price else ""
    return f"{lane.micro_rate}{price} {signature(lane)}"


def answered(
    shard: Shard, page: Page, reply: Reply | RQueueError
) -> list[SubmitResult | RQueueError]:
    """The result of each draft of one call."""
    if isinstance(reply, RQueueError):
        return [reply] * len(page.drafts)
    rest = ok("task/submit", "", reply)
    answers: list[SubmitResult | RQueueError] = [SubmitResult(task, True) for task in page.ids]
    for at in range(1, len(rest), 3):
        index, word, detail = int(rest[at]), text(rest[at + 1]), text(rest[at + 2])
        answers[index] = exception(shard, page, index, word, detail=detail)
    return answers


def exception(
    shard: Shard, page: Page, index: int, word: str, *, detail: str
) -> SubmitResult | RQueueError:
    """The result of a draft for which the move has returned a word."""
    match word:
        case "EXISTS":
            return SubmitResult(TaskId.from_ulid(detail), created=False)
        case "LANES":
            return TooManyLanes(shard.terms.max_lanes)
        case "FORBIDDEN":
            return forbidden(detail)
        case "FULL":
            return archive_full(detail)
        case "PARENT":
            return InvalidGraph(
                NO_DEPENDENCY,
                (page.ids[index], dependency_named(page.drafts[index], detail)),
            )
        case _:
            return ScriptFault("task/submit", [word, detail])


def dependency_named(draft: Draft, detail: str) -> str:
    """The dependency that a refusal means, as its producer wrote it."""
    if not detail.startswith("@"):
        return TaskId.from_ulid(detail)
    task_ids: Any = fields_of(draft.definition).get("depends_on", ())
    return next((str(name) for name in task_ids if external_key(name) == detail[1:]), detail)


@lru_cache(maxsize=4096)
def who_of(terms: Terms, principals: tuple[str, ...]) -> str:
    """The submitting principals as moves read them, see lua/lib/core; "" for none."""
    if not principals:
        return ""
    by = [[one, terms.inbox_role if one == INBOX else terms.default_role] for one in principals]
    return json.dumps({"by": by, "may": CREATORS}, separators=(",", ":"))


def forbidden(refused: str, deed: Deed = "create this") -> Forbidden:
    """The error for a refusal `<principal> <role>`."""
    principal, _, role = refused.partition(" ")
    return Forbidden(principal, role, deed)
