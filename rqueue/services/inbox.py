"""Makes tasks of what producers of any language wrote into the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rqueue.client.drafts import Drafter
from rqueue.client.earlier import Memory, sha_of, submit_others
from rqueue.client.plans import planting_of, refuse_missing
from rqueue.errors import InvalidGraph, InvalidTask, Overloaded, RQueueError, SubmitError
from rqueue.model.inbox import Entry, Text, form_named, id_of, plan_in, spec_of, texts_of
from rqueue.model.role import INBOX
from rqueue.store import planting
from rqueue.store.inbox import START, Refusal, arrived, receive, received
from rqueue.store.submits import Taken

if TYPE_CHECKING:
    from rqueue.archive.reader import ArchiveReader
    from rqueue.clock import Clock
    from rqueue.model.forms import Form
    from rqueue.model.ids import TaskId
    from rqueue.model.plan import Plan
    from rqueue.settings import Settings
    from rqueue.store.shard import Shard
    from rqueue.store.submits import Draft

# A tick ends after so many tasks, a second or two: the next one goes on.
MOST = 5000
# Entries are dealt with together until they hold so many tasks: between two calls others may run.
TOGETHER = 200
# Entries that are passed over in one tick because the archive cannot say. Each is read again by
# each tick; behind so many, what is new waits as well.
MOST_WITHHELD = 1000
PARENTS = '"parents"'


@dataclass(slots=True)
class InboxDone:
    """What one tick did: tasks taken and refused, and entries that stay: because the server is
    full, or because the archive cannot say whether their tasks are done.
    """

    taken: int = 0
    rejected: int = 0
    kept: int = 0
    withheld: int = 0

    @property
    def enough(self) -> bool:
        """Whether the tick is to end, whatever is left."""
        return self.is_full or self.taken + self.rejected >= MOST

    @property
    def is_full(self) -> bool:
        """Whether what is new would have to wait as well."""
        return self.kept > 0 or self.withheld >= MOST_WITHHELD


@dataclass(slots=True)
class Opened:
    """An entry with what becomes of its tasks."""

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
        """Whether one of its tasks may have been done long ago."""
        return any(sha_of(draft) for _, draft in self.drafts)

    @property
    def may_be_torn(self) -> bool:
        """Whether some of its tasks may be taken while another misses its parent: what was taken
        could be over and forgotten when the entry comes again, and would be done twice.
        """
        return len(self.drafts) > 1 and any(PARENTS in draft.ask for _, draft in self.drafts)

    def refuse(self, task: Text | None, error: SubmitError) -> None:
        """Notes a task, or the whole entry, that is not taken."""
        at, text = (str(task.at), task.text) if task else ("", self.entry.whole)
        self.refusals.append(
            Refusal.of(self.entry.id, at, str(error), form=self.form or "", task=text)
        )

    def miss(self, task: Text | None, error: InvalidGraph, *, may_come: bool) -> None:
        """Notes that a parent is not there: a refusal, unless it may be among what waits."""
        if may_come:
            self.withheld = True
        else:
            self.refuse(task, error)

    def answer(self, task: Text, answer: Taken | RQueueError, *, may_come: bool) -> None:
        """Notes what the submit said of a task."""
        match answer:
            case Taken():
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
        """Whether the entry is dealt with another time."""
        return self.kept or self.withheld

    def rows(self) -> list[Refusal]:
        """What is told when the entry goes."""
        return self.refusals or [Refusal(self.entry.id)]


class Inbox:
    """Takes entries, submits their tasks, lets the entries go. Any number may run: the ids of the
    tasks follow from the entry, so one that is dealt with twice makes no task twice.
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
        self.memory = Memory(earlier, clock)
        self.reader = reader
        self.drafter = Drafter(settings, clock, by=INBOX)
        # Sooner than any ended task is forgotten: a lost reader's entry finds its tasks there.
        self.idle_ms = round(settings.call_timeout_sec * 1000)
        self.longest_wait_sec = settings.park_sec
        # Where the next tick finds something to do if there is an entry after it.
        self.last = START
        self.full = False
        # Whether this tick passes over what others may wait for, and what that is.
        self.withholds = False
        self.passed: set[str] = set()

    async def tick(self) -> InboxDone:
        """Deals with all that is there, in bounded steps; what a full server refuses stays, and so
        do tasks with a key while the archive cannot be asked about them.
        """
        done = InboxDone()
        self.last = after = START
        self.withholds, self.passed = False, set()
        while not done.enough:
            page = await receive(self.shard, self.reader, idle_ms=self.idle_ms, after=after)
            if not page.entries:
                self.last = page.last
                break
            # While an archive was silent, what was passed over has grown old: it comes once more.
            fresh = [entry for entry in page.entries if entry.id not in self.passed]
            await self.take_all(fresh, done)
            after = max(after, page.entries[-1].id, key=moment_of)
        self.full = done.is_full
        return done

    async def wait(self, seconds: float) -> bool:
        """Whether there is more to do, or comes in time; takes nothing, so it may be cancelled."""
        seconds = min(seconds, self.longest_wait_sec)
        if self.full:
            # What is new would have to wait as well: no reason to come back at once.
            await asyncio.sleep(seconds)
            return False
        return await arrived(self.shard, self.last, seconds)

    async def take_all(self, entries: Iterable[Entry], done: InboxDone) -> None:
        """Deals with a page until it is enough; what is left is handed out again."""
        for portion in portions(self.opened(entries)):
            await self.take(portion, done)
            if done.enough:
                return

    def opened(self, entries: Iterable[Entry]) -> Iterator[Opened]:
        """The entries, read one after the other."""
        for entry in entries:
            yield self.open(entry)

    def open(self, entry: Entry) -> Opened:
        """The drafts of an entry's tasks, each judged for itself."""
        found = Opened(entry)
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

    async def take(self, portion: Sequence[Opened], done: InboxDone) -> None:
        """Submits the tasks of some entries and lets go of those that are done with."""
        known = await self.known(portion)
        sent = [one for one in portion if not one.withheld]
        asked = [(one, task, draft) for one in sent for task, draft in one.drafts]
        ids = [id_of(self.shard.root, one.entry, one.form, task) for one, task, _ in asked]
        answers = await self.submit(known, [draft for *_, draft in asked], ids)
        for (one, task, _), answer in zip(asked, answers, strict=True):
            one.answer(task, answer, may_come=self.withholds)
        for one in portion:
            if one.plan is not None:
                await self.plant(one, one.plan)
        settled = [one for one in portion if not one.stays]
        if settled:
            await received(self.shard, [row for one in settled for row in one.rows()])
        done.taken += sum(one.taken for one in settled)
        done.rejected += sum(len(one.refusals) for one in settled)
        done.kept += sum(one.kept for one in portion)
        withheld = [one.entry.id for one in portion if one.withheld and not one.kept]
        done.withheld += len(withheld)
        self.passed.update(withheld)

    async def known(self, portion: Sequence[Opened]) -> dict[int, Taken]:
        """Those of the drafts that have completed long ago, by their places. Where nobody can say,
        entries with such keys wait, whole: an entry is never divided.
        """
        if not self.withholds:
            known = await self.memory.known([draft for one in portion for _, draft in one.drafts])
            if known is not None:
                return known
            self.withholds = True
        for one in portion:
            one.withheld = one.has_key or one.may_be_torn
        return {}

    async def plant(self, one: Opened, plan: Plan) -> None:
        """Submits the DAG of an entry, whole or not at all."""
        try:
            found = planting_of(plan, self.drafter)
            await refuse_missing(self.shard, plan, found)
            await planting.submit(self.shard, found)
            one.taken = len(found.nodes)
        except Overloaded:
            one.kept = True
        except InvalidGraph as error:
            one.miss(None, error, may_come=self.withholds)
        except SubmitError as error:
            one.refuse(None, error)

    async def submit(
        self, known: Mapping[int, Taken], drafts: Sequence[Draft], ids: Sequence[TaskId]
    ) -> Sequence[Taken | RQueueError]:
        """What became of each draft."""
        try:
            answers = await submit_others(self.shard, known, drafts, ids=ids)
        except Overloaded as error:
            return [error] * len(drafts)
        full = next((answer for answer in answers if isinstance(answer, Overloaded)), None)
        if full is None:
            return answers
        # The parent that was missed may be among those that a full server refused.
        return [full if isinstance(answer, InvalidGraph) else answer for answer in answers]


def portions(entries: Iterable[Opened]) -> Iterator[list[Opened]]:
    """The entries in groups that are dealt with together; one entry is never divided."""
    group: list[Opened] = []
    count = 0
    for one in entries:
        group.append(one)
        count += len(one.drafts) + len(one.refusals) + (len(one.plan.tasks) if one.plan else 0)
        if count >= TOGETHER:
            yield group
            group, count = [], 0
    if group:
        yield group


def moment_of(entry: str) -> tuple[int, int]:
    """When an entry was written, as its id says."""
    ms, _, number = entry.partition("-")
    return int(ms), int(number)
