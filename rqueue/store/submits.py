"""Submitting: many tasks in one script call, each with its own answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rqueue.errors import InvalidGraph, Overloaded, RQueueError, ScriptFault, TooManyLanes
from rqueue.model.definition import fields_of
from rqueue.model.ids import TaskId, external_key, new_task_id, new_task_ids
from rqueue.model.lane import Lane, signature
from rqueue.store.queue import answer_all
from rqueue.store.replies import ok, text
from rqueue.store.roles import forbidden, who_of
from rqueue.store.shard import TRIES, ending

if TYPE_CHECKING:
    from rqueue.store.runner import Reply
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard, Terms


# Tasks a call: while the server works on one page the next is made, so the first is small and
# each is twice the one before; the largest stops the server for about a millisecond.
FIRST_PAGE, LAST_PAGE = 16, 64
# Parents that the tasks of one call may wait for, and the fewest letters that one of them takes.
MOST_PARENTS, PARENT_LETTERS = 500, 29
# A reply with nothing to tell of any task: OK, and whether more who wait are to be answered.
PLAIN_REPLY = 2


class Row(NamedTuple):
    """One task as lua/task/submit.lua reads it."""

    task: str
    place: str
    definition: bytes
    special: str = ""


class Draft(NamedTuple):
    """One task ready to be sent: its lane, its place in it, what is special, its limit key, and who
    asks for it, if that is known.
    """

    lane: Lane
    base: int
    definition: bytes
    more: str = ""
    ask: str = ""
    key: str = ""
    by: str = ""

    def place(self, line: int) -> str:
        """Where it goes, as scripts read it, by the number of its lane's line in the call."""
        return f"{line}@{self.key} {self.base}" if self.key else f"{line} {self.base}"


class Page:
    """The drafts of one call, by one principal. Their ids are made when they are first sent, and
    kept.
    """

    __slots__ = ("drafts", "ids")

    def __init__(self, drafts: Sequence[Draft], ids: Sequence[TaskId] = ()) -> None:
        self.drafts = drafts
        self.ids = ids

    def named(self) -> Sequence[TaskId]:
        """The ids, the same for each time it is sent."""
        if not self.ids:
            self.ids = new_task_ids(len(self.drafts))
        return self.ids


class Taken(NamedTuple):
    """The task that answers for a draft: its own, or one that was there before."""

    id: TaskId
    created: bool


async def submit(
    shard: Shard,
    drafts: Sequence[Draft],
    *,
    ids: Sequence[TaskId] = (),
    replicas: int | None = None,
) -> list[Taken | RQueueError]:
    """Each draft's answer, in order. Sent again it creates nothing and says the same.

    With `ids`, one for each draft, the tasks get these; one that is there already is left as it
    is. With `replicas` (by default as the queue's terms say), after so many of them have it.
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
            "task/submit", [partial(asked, shard, page) for page in pages]
        )
    answers: list[Taken | RQueueError] = []
    for page, reply in zip(pages, replies, strict=True):
        answers += answered(shard, page, reply)
    # Each page answers a bounded number of those who wait.
    if any(isinstance(reply, list) and int(reply[1]) for reply in replies):
        await answer_all(shard)
    return answers


def pages_of(drafts: Sequence[Draft], ids: Sequence[TaskId] = ()) -> Iterator[Page]:
    """The drafts, with their ids where they have some, in the portions that are sent."""
    start, size = 0, FIRST_PAGE
    while start < len(drafts):
        end = fitting(drafts, start, min(start + size, len(drafts)))
        yield Page(drafts[start:end], ids[start:end])
        start, size = end, min(2 * size, LAST_PAGE)


def fitting(drafts: Sequence[Draft], start: int, end: int) -> int:
    """Where a call's tasks end: before the first that somebody else asks for, or that would wait
    for too much; at least one.
    """
    left, by = MOST_PARENTS, drafts[start].by
    for at in range(start, end):
        if drafts[at].by != by:
            return at
        if drafts[at].ask:
            left -= len(drafts[at].ask) // PARENT_LETTERS
            if left < 0:
                return max(at, start + 1)
    return end


async def submit_one(shard: Shard, draft: Draft) -> Taken | RQueueError:
    """`submit` for a single draft, with all that is the same for its lane made once."""
    if shard.terms.wait_replicas:
        return (await submit(shard, [draft]))[0]
    lane, _, definition, more, ask, _, by = draft
    task = new_task_id()
    words = [*opening(shard, lane, by), task[-26:], draft.place(1), definition, special(more, ask)]
    reply = await shard.runner.run_words("task/submit", words)
    if int(reply[1]):
        await answer_all(shard)
    if len(reply) == PLAIN_REPLY:
        return Taken(task, True)
    return answered(shard, Page([draft], [task]), reply)[0]


@lru_cache(maxsize=4096)
def opening(shard: Shard, lane: Lane, by: str) -> tuple[Argument, ...]:
    """The words of a submit before its rows, for tasks of one lane."""
    args = {"root": shard.root, **common(shard, (lane,), by)}
    return tuple(shard.runner.scripts["task/submit"].pack(shard.named["task/submit"], args))


async def submit_page(shard: Shard, page: Page, replicas: int) -> Reply:
    """One call's reply, after the replicas have it."""
    args, rows = asked(shard, page)
    return await shard.run("task/submit", args, rows, replicas=replicas)


def asked(shard: Shard, page: Page) -> tuple[dict[str, Argument], list[Row]]:
    """The arguments and rows of one call."""
    indexes: dict[Lane, int] = {}
    rows: list[Row] = []
    last: Lane | None = None
    by = ""
    for task, draft in zip(page.named(), page.drafts, strict=True):
        lane, base, definition, more, ask, key, by = draft
        # Neighbours mostly share their lane; its hash costs more than all else here.
        if lane is not last:
            index, last = indexes.setdefault(lane, len(indexes) + 1), lane
        place = draft.place(index) if key else f"{index} {base}"
        rows.append(Row(task[-26:], place, definition, special(more, ask)))
    return common(shard, tuple(indexes), by), rows


def special(more: str, ask: str) -> str:
    """What is not plain about a task, as the script reads it."""
    return f"{more}\n{ask}" if more or ask else ""


def common(shard: Shard, lanes: tuple[Lane, ...], by: str) -> dict[str, Argument]:
    """The arguments of a call for tasks of these lanes, and by whom."""
    return {
        "lanes": lanes_text(lanes),
        "max_lanes": shard.terms.max_lanes,
        "tries": TRIES,
        "how": ending(shard.terms),
        "who": who_of(shard.terms, (by,)) if by else "",
        "most": most_of(shard.terms),
    }


def most_of(terms: Terms) -> Argument:
    """How many ended tasks may wait for the archive, as scripts read it: 0 for any number, "" where
    only others may know of one.
    """
    return terms.max_outbox if terms.archive else ""


def full(waiting: str) -> Overloaded:
    """The refusal of a queue whose archive does not keep up."""
    return Overloaded(f"{waiting} ended tasks wait for the archive (max_outbox)")


@lru_cache(maxsize=4096)
def lanes_text(lanes: tuple[Lane, ...]) -> str:
    """The lanes of a call as the script reads them; mostly one and the same."""
    return "\n".join(line_of(lane) for lane in lanes)


def line_of(lane: Lane) -> str:
    """A lane, and the price of the tasks that come into it, in a line."""
    price = f"${lane.price}" if lane.price else ""
    return f"{lane.micro_rate}{price} {signature(lane)}"


def answered(shard: Shard, page: Page, reply: Reply | RQueueError) -> list[Taken | RQueueError]:
    """What became of each draft of one call."""
    if isinstance(reply, RQueueError):
        return [reply] * len(page.drafts)
    rest = ok("task/submit", "", reply)
    answers: list[Taken | RQueueError] = [Taken(task, True) for task in page.ids]
    for at in range(1, len(rest), 3):
        index, word, detail = int(rest[at]), text(rest[at + 1]), text(rest[at + 2])
        answers[index] = exception(shard, page, index, word, detail=detail)
    return answers


def exception(
    shard: Shard, page: Page, index: int, word: str, *, detail: str
) -> Taken | RQueueError:
    """What became of a draft that was not simply taken."""
    match word:
        case "EXISTS":
            return Taken(TaskId.from_ulid(detail), created=False)
        case "LANES":
            return TooManyLanes(shard.terms.max_lanes)
        case "FORBIDDEN":
            return forbidden(detail)
        case "FULL":
            return full(detail)
        case "PARENT":
            return InvalidGraph(
                "depends on a task that is not there or was cancelled",
                (page.ids[index], parent_named(page.drafts[index], detail)),
            )
        case _:
            return ScriptFault("task/submit", [word, detail])


def parent_named(draft: Draft, detail: str) -> str:
    """The parent that a refusal means, as its producer wrote it."""
    if not detail.startswith("@"):
        return TaskId.from_ulid(detail)
    named: Any = fields_of(draft.definition).get("depends_on", ())
    return next((str(name) for name in named if external_key(name) == detail[1:]), detail)
