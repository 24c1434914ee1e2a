"""Submits the tasks that producers of any language have written to the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqueue.core.submit import SubmitResult
from rqueue.dags import submit as dag_submit
from rqueue.dags.plan import dag_draft_of, refuse_missing
from rqueue.errors import InvalidGraph, InvalidTask, Overloaded, RQueueError, SubmitError
from rqueue.inbox.entry import Entry, Text, form_named, id_of, plan_in, spec_of, texts_of
from rqueue.inbox.store import START, Refusal, arrived, receive, received
from rqueue.producer.drafts import Drafter
from rqueue.producer.earlier import CompletedLookup, sha_of, submit_others
from rqueue.task.fields import INBOX

if TYPE_CHECKING:
    from rqueue.archive.reader import ArchiveReader
    from rqueue.clock import Clock
    from rqueue.core.submit import Draft
    from rqueue.dags.plan import Plan
    from rqueue.settings.load import Settings
    from rqueue.store.shard import Shard
    from rqueue.task.forms import Form
    from rqueue.task.ids import TaskId

# Tasks per tick, a second or two; the next tick continues.
MOST = 5000
# Entries are processed together until they hold so many tasks.
PORTION = 200
# Entries that one tick may skip because the archive is unavailable. Each is read again by each
# tick; behind so many, new entries wait as well.
MOST_WITHHELD = 1000
DEPENDS = '"parents"'


@dataclass(slots=True)
class InboxDone:
    """The work of one tick: tasks that were submitted and refused, and entries that stay in the
    inbox. `kept` stay because the server is full; `withheld` stay because the archive cannot report
    whether their tasks have completed before.
    """

    taken: int = 0
    rejected: int = 0
    kept: int = 0
    withheld: int = 0

    @property
    def enough(self) -> bool:
        """Whether the tick must end, even if entries are left."""
        return self.is_full or self.taken + self.rejected >= MOST

    @property
    def is_full(self) -> bool:
        """Whether new entries would have to wait as well."""
        return self.kept > 0 or self.withheld >= MOST_WITHHELD


@dataclass(slots=True)
class ParsedEntry:
    """An entry with its parsed tasks and the results of their submission."""

    entry: Entry
    form: Form | None = None
    drafts: list[tuple[Text, Draft]] = field(default_factory=list)
    plan: Plan | None = None
    refusals: list[Refusal] = field(default_factory=list)
    taken: int = 0
    kept: bool = False
    withheld: bool = False

    @property
    def has_key(self) -> bool:
        """Whether one of the tasks may have completed before."""
        return any(sha_of(draft) for _, draft in self.drafts)

    @property
    def may_be_torn(self) -> bool:
        """Whether the submission may accept some of the tasks and miss the dependency of another.
        The accepted ones could end and expire before the entry is read again, and would then be
        submitted twice.
        """
        return len(self.drafts) > 1 and any(
            DEPENDS in draft.submit_facts for _, draft in self.drafts
        )

    def refuse(self, task: Text | None, error: SubmitError) -> None:
        """Records the refusal of a task; without a task, of the whole entry."""
        at, text = (str(task.at), task.text) if task else ("", self.entry.whole)
        self.refusals.append(
            Refusal.of(self.entry.id, at, str(error), form=self.form or "", task=text)
        )

    def miss(self, task: Text | None, error: InvalidGraph, *, may_come: bool) -> None:
        """Records a missing dependency: as a refusal, or, if it may be in a withheld entry
        (`may_come`), by withholding this entry as well.
        """
        if may_come:
            self.withheld = True
        else:
            self.refuse(task, error)

    def answer(self, task: Text, answer: SubmitResult | RQueueError, *, may_come: bool) -> None:
        """Records the result of a submission."""
        match answer:
            case SubmitResult():
                self.taken += 1
            case Overloaded():
                self.kept = True
            case InvalidGraph():
                self.miss(task, answer, may_come=may_come)
            case SubmitError():
                self.refuse(task, answer)
            case _:
                raise answer

    @property
    def stays(self) -> bool:
        """Whether the entry stays in the inbox and is processed again later."""
        return self.kept or self.withheld

    def rows(self) -> list[Refusal]:
        """Returns the rows to write when the entry is deleted."""
        return self.refusals or [Refusal(self.entry.id)]


class Inbox:
    """Reads entries, submits their tasks, and deletes the entries. Any number of instances may run:
    the ids of the tasks are derived from the entry, so an entry that is processed twice creates no
    task twice.
    """

    def __init__(
        self,
        shard: Shard,
        settings: Settings,
        *,
        clock: Clock,
        reader: str,
        earlier: ArchiveReader | None = None,
    ) -> None:
        self.shard = shard
        self.completed = CompletedLookup(earlier, clock)
        self.reader = reader
        self.drafter = Drafter(settings, clock, by=INBOX)
        # Shorter than any ended task is kept: the tasks of a lost reader's entry are found.
        self.idle_ms = round(settings.call_timeout_sec * 1000)
        self.longest_wait_sec = settings.claim_wait_sec
        # The next tick has something to do if there is an entry after this one.
        self.last = START
        self.full = False
        # Whether this tick skips entries that need the archive, and those it skipped.
        self.withholds = False
        self.skipped: set[str] = set()

    async def tick(self) -> InboxDone:
        """Processes all entries in bounded steps. An entry that a full server refuses stays in the
        inbox. So does one with an idempotency key while the archive is unavailable.
        """
        done = InboxDone()
        self.last = after = START
        self.withholds, self.skipped = False, set()
        while not done.enough:
            page = await receive(self.shard, self.reader, idle_ms=self.idle_ms, after=after)
            if not page.entries:
                self.last = page.last
                break
            # Entries that were skipped may have become idle meanwhile, so that they are returned
            # once more.
            fresh = [entry for entry in page.entries if entry.id not in self.skipped]
            await self.take_all(fresh, done)
            after = max(after, page.entries[-1].id, key=entry_order)
        self.full = done.is_full
        return done

    async def wait(self, seconds: float) -> bool:
        """Returns whether there is more to do, or an entry arrives within `seconds`. It takes no
        entry, so it may be cancelled.
        """
        seconds = min(seconds, self.longest_wait_sec)
        if self.full:
            # New entries would have to wait as well: no reason to return immediately.
            await asyncio.sleep(seconds)
            return False
        return await arrived(self.shard, self.last, seconds)

    async def take_all(self, entries: Iterable[Entry], done: InboxDone) -> None:
        """Processes a page until the limit of the tick is reached. The rest is received again."""
        for portion in portions(self.parsed(entries)):
            await self.take(portion, done)
            if done.enough:
                return

    def parsed(self, entries: Iterable[Entry]) -> Iterator[ParsedEntry]:
        """Yields the parsed entries one after the other."""
        for entry in entries:
            yield self.parse(entry)

    def parse(self, entry: Entry) -> ParsedEntry:
        """Parses an entry and checks each of its tasks separately."""
        found = ParsedEntry(entry)
        try:
            found.form = form_named(entry)
            found.plan = plan_in(self.shard.root, entry)
            texts = [] if found.plan else texts_of(entry)
        except InvalidTask as error:
            found.refuse(None, error)
            return found
        for task in texts:
            try:
                draft = self.drafter.of_spec(spec_of(task.text, found.form))
            except InvalidTask as error:
                found.refuse(task, error)
            else:
                found.drafts.append((task, draft))
        return found

    async def take(self, portion: Sequence[ParsedEntry], done: InboxDone) -> None:
        """Submits the tasks of some entries. Deletes the entries that are finished."""
        known = await self.known(portion)
        sent = [one for one in portion if not one.withheld]
        rows = [(one, task, draft) for one in sent for task, draft in one.drafts]
        ids = [id_of(self.shard.root, one.entry, one.form, task) for one, task, _ in rows]
        answers = await self.submit(known, [draft for *_, draft in rows], ids)
        for (one, task, _), answer in zip(rows, answers, strict=True):
            one.answer(task, answer, may_come=self.withholds)
        for one in portion:
            if one.plan is not None:
                await self.submit_dag(one, one.plan)
        settled = [one for one in portion if not one.stays]
        if settled:
            await received(self.shard, [row for one in settled for row in one.rows()])
        done.taken += sum(one.taken for one in settled)
        done.rejected += sum(len(one.refusals) for one in settled)
        done.kept += sum(one.kept for one in portion)
        withheld = [one.entry.id for one in portion if one.withheld and not one.kept]
        done.withheld += len(withheld)
        self.skipped.update(withheld)

    async def known(self, portion: Sequence[ParsedEntry]) -> dict[int, SubmitResult]:
        """Returns the drafts that have completed before, by position. While the archive is
        unavailable, an entry that needs it is withheld as a whole, because an entry is never
        divided.
        """
        if not self.withholds:
            known = await self.completed.known(
                [draft for one in portion for _, draft in one.drafts]
            )
            if known is not None:
                return known
            self.withholds = True
        for one in portion:
            one.withheld = one.has_key or one.may_be_torn
        return {}

    async def submit_dag(self, one: ParsedEntry, plan: Plan) -> None:
        """Submits the DAG of an entry, all of it or nothing."""
        try:
            found = dag_draft_of(plan, self.drafter)
            await refuse_missing(self.shard, plan, found)
            await dag_submit.submit(self.shard, found)
            one.taken = len(found.nodes)
        except Overloaded:
            one.kept = True
        except InvalidGraph as error:
            one.miss(None, error, may_come=self.withholds)
        except SubmitError as error:
            one.refuse(None, error)

    async def submit(
        self, known: Mapping[int, SubmitResult], drafts: Sequence[Draft], ids: Sequence[TaskId]
    ) -> Sequence[SubmitResult | RQueueError]:
        """Returns the result of each draft."""
        try:
            answers = await submit_others(self.shard, known, drafts, ids=ids)
        except Overloaded as error:
            return [error] * len(drafts)
        full = next((answer for answer in answers if isinstance(answer, Overloaded)), None)
        if full is None:
            return answers
        # The missing dependency may be among those that a full server refused.
        return [full if isinstance(answer, InvalidGraph) else answer for answer in answers]


def portions(entries: Iterable[ParsedEntry]) -> Iterator[list[ParsedEntry]]:
    """Yields the entries in groups that are processed together; an entry is never divided."""
    group: list[ParsedEntry] = []
    count = 0
    for one in entries:
        group.append(one)
        count += len(one.drafts) + len(one.refusals) + (len(one.plan.tasks) if one.plan else 0)
        if count >= PORTION:
            yield group
            group, count = [], 0
    if group:
        yield group


def entry_order(entry: str) -> tuple[int, int]:
    """Returns when an entry was written, from its id, in a form that sorts."""
    ms, _, number = entry.partition("-")
    return int(ms), int(number)
