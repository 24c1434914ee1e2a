"""The names of all keys of a shard, with their types and meanings; docs/keys.md is made
from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass


class GateKeys(ABC):
    """Keys of gates: pauses, breakers, limits and budgets."""

    __slots__ = ()

    @property
    @abstractmethod
    def root(self) -> str:
        """The prefix of every key."""

    def paused(self) -> str:
        """set: what is paused: `queue`, `type=<type>`, `lane=<number>`."""
        return f"{self.root}paused"

    def breaker(self, type: str) -> str:
        """hash: the breaker of a type: its failures in a row; while it is not closed also its
        state, since when and until when it is open, and its probe, `<task> <token>`.
        """
        return f"{self.root}breaker:{type}"

    def breakers(self) -> str:
        """set: the types whose breakers are not closed, or have counted failures."""
        return f"{self.root}breakers"

    def slow(self, type: str) -> str:
        """hash: the slow-down of a type or of `@<tenant>`: until when none of its tasks can be
        claimed, the length of that time, and how many tasks were claimed in the current step of the
        recovery after it.
        """
        return f"{self.root}slow:{type}"

    def slowed(self) -> str:
        """set: types and `@<tenant>` that are slowed down, or were and no claim has followed."""
        return f"{self.root}slowed"

    def limit(self, what: str) -> str:
        """hash: start of a hundredth of the window, in ms -> tasks that started in it: of a type,
        of the queue for `*`, or of a tenant where `@<tenant>` follows. Expires when they no longer
        count.
        """
        return f"{self.root}limit:{what}"

    def crowded(self) -> str:
        """set: types, or `*` for the queue, of which a claim found as many tasks leased as the
        limit allows.
        """
        return f"{self.root}crowded"

    def budget(self, account: str) -> str:
        """hash: an account, `day` or `worker=<name>`, in micro-USD: its ceiling, what was spent
        (and on which day), and what is reserved for leased tasks.
        """
        return f"{self.root}budget:{account}"

    def budgets(self) -> str:
        """set: the accounts that have a ceiling."""
        return f"{self.root}budgets"

    def short(self) -> str:
        """set: accounts and DAGs whose remaining budget a waiting task exceeded."""
        return f"{self.root}short"

    def unpaid(self, dag: str) -> str:
        """zset: READY tasks of a DAG that exceed its remaining budget, by price; they are not in
        their lanes.
        """
        return f"{self.root}unpaid:{dag}"

    def wakes(self) -> str:
        """zset: types, `*` for the queue, `@<tenant>`, lanes of tenants, and `$<account>`, by the
        time at which their gate may open.
        """
        return f"{self.root}wakes"

    def types(self) -> str:
        """hash: number of a lane -> its type; written when it is first needed."""
        return f"{self.root}types"


class NoticeKeys(ABC):
    """Keys of events and notices."""

    __slots__ = ()

    @property
    @abstractmethod
    def root(self) -> str:
        """The prefix of every key."""

    def events(self) -> str:
        """stream: the events of the queue, capped."""
        return f"{self.root}events"

    def notices(self) -> str:
        """stream: events that are not delivered to all sinks yet."""
        return f"{self.root}notices"

    def noticed(self) -> str:
        """set: the names of the events that any sink wants."""
        return f"{self.root}noticed"

    def sinks(self) -> str:
        """zset: sinks by the last time that a notifier served them."""
        return f"{self.root}sinks"

    def sink(self, name: str) -> str:
        """hash: a sink: `last`, the newest notice that it has read, and `wants`, the names of the
        events that it wants; for each notice that was taken and not delivered `<tries> <taker>`.
        """
        return f"{self.root}sink:{name}"

    def wanted(self, name: str) -> str:
        """zset: events by the last time that a notifier of the sink asked for them."""
        return f"{self.root}wanted:{name}"

    def undelivered(self, name: str) -> str:
        """zset: notices that were taken for a sink, by the time when they may be retried."""
        return f"{self.root}undelivered:{name}"


class TurnKeys(ABC):
    """Keys of the turns between tenants."""

    __slots__ = ()

    @property
    @abstractmethod
    def root(self) -> str:
        """The prefix of every key."""

    def keyed(self, number: int, tenant: str) -> str:
        """zset: the READY tasks of one tenant in a lane, by score as in the lane."""
        return f"{self.root}keyed:{number}:{tenant}"

    def heads(self, number: int) -> str:
        """zset: the first READY task of each tenant of a lane that may get a turn, by score; tasks
        that were first before may be among them.
        """
        return f"{self.root}heads:{number}"

    def turns(self, number: int) -> str:
        """zset: the tenants of a lane that may get a turn, by their virtual time."""
        return f"{self.root}turns:{number}"

    def turned(self) -> str:
        """zset: the virtual time of the shard, `@now`, and that of tenants that are ahead of it,
        over all lanes. The janitor deletes it when no lane of tenants has a READY task.
        """
        return f"{self.root}turned"

    def closed_tenants(self, number: int) -> str:
        """zset: the closed tenants of a lane, which get no turns, by the time at which they may get
        turns again: `inf` where one of their leased tasks must end first.
        """
        return f"{self.root}shut:{number}"

    def rules(self) -> str:
        """hash: number of a lane of tenants -> name of the rules that closed its tenants."""
        return f"{self.root}rules"

    def hand(self, tenant: str) -> str:
        """zset: the leased tasks of a tenant; the score is the number of the lane."""
        return f"{self.root}hand:{tenant}"

    def full(self) -> str:
        """set: tenants of which a claim found as many tasks leased as the limit allows."""
        return f"{self.root}full"


@dataclass(frozen=True, slots=True)
class Keys(GateKeys, NoticeKeys, TurnKeys):
    """The keys of one shard: all keys of one call come from one Keys."""

    namespace: str
    tag: str

    @property
    def root(self) -> str:
        """The prefix of every key; the tag in braces keeps them in one slot of a cluster."""
        return f"{self.namespace}:{{{self.tag}}}:"

    def ready(self) -> str:
        """stream: one entry per READY or leased task; its pending list holds the leases."""
        return f"{self.root}ready"

    def lane(self, number: int) -> str:
        """zset: the READY tasks of a lane by score, lowest first; with equal scores by id. Lanes of
        tenants have negative numbers.
        """
        return f"{self.root}lane:{number}"

    def lanes(self) -> str:
        """hash: signature of a lane -> its number; also the fields `next` and `version`."""
        return f"{self.root}lanes"

    def task(self, task: str) -> str:
        """hash: the task's state and lease. Expires after `result_ttl` once it has ended."""
        return f"{self.root}task:{task}"

    def definition(self, task: str) -> str:
        """string: the task as it was submitted, opaque to moves. Expires with its hash."""
        return f"{self.root}def:{task}"

    def result(self, task: str) -> str:
        """string: what the handler returned, encoded. Expires with the task's hash."""
        return f"{self.root}result:{task}"

    def failures(self, task: str) -> str:
        """list: the records of failed attempts, oldest first, bounded."""
        return f"{self.root}failures:{task}"

    def notes(self, task: str) -> str:
        """hash: what a task has reported: progress, checkpoint, micro_usd, tokens, model,
        artifacts; also the costs of the lives `before` this one, and those that were reported
        `late`.
        """
        return f"{self.root}notes:{task}"

    def logs(self, task: str) -> str:
        """list: the last log lines of a task."""
        return f"{self.root}logs:{task}"

    def steps(self, task: str) -> str:
        """hash: name of a completed step -> its result. Expires with the task's hash."""
        return f"{self.root}steps:{task}"

    def delayed(self) -> str:
        """zset: task by due time in ms: retries, parked and scheduled tasks."""
        return f"{self.root}delayed"

    def blocked(self) -> str:
        """zset: PENDING tasks by the time they began to wait; not those that wait for a task of
        their DAG.
        """
        return f"{self.root}blocked"

    def deadlines(self) -> str:
        """zset: waiting tasks with a deadline, by the time to check them."""
        return f"{self.root}deadlines"

    def waits(self, task: str) -> str:
        """set: what a PENDING task waits for: ids of dependencies, `@time`, and `@parents` while a
        revived task is being added to its dependencies.
        """
        return f"{self.root}waits:{task}"

    def dependents(self, task: str) -> str:
        """zset: the tasks that wait for this one to complete, in the order of their ids."""
        return f"{self.root}dependents:{task}"

    def unblocking(self) -> str:
        """set: completed tasks with dependents that are not resolved yet."""
        return f"{self.root}unblocking"

    def dag(self, dag: str) -> str:
        """hash: a DAG: status, counters of its tasks, policy, title. Expires after it has ended."""
        return f"{self.root}dag:{dag}"

    def members(self, dag: str) -> str:
        """list: the tasks of a DAG in the order they were written."""
        return f"{self.root}members:{dag}"

    def fresh(self, dag: str) -> str:
        """list: the tasks of a DAG that its commit must process one by one. Deleted
        with the commit.
        """
        return f"{self.root}fresh:{dag}"

    def dags(self) -> str:
        """zset: committed DAGs of more than one task, by the time of their commit."""
        return f"{self.root}dags"

    def writing(self) -> str:
        """zset: DAGs that are not committed yet, by the time of the last write to them."""
        return f"{self.root}writing"

    def unfinished(self) -> str:
        """hash: `<verb> <dag>` -> its progress: operations on DAGs that continue in the
        background.
        """
        return f"{self.root}unfinished"

    def held(self, dag: str) -> str:
        """set: READY tasks of a DAG that is paused or being cancelled: they are not in
        their lanes.
        """
        return f"{self.root}held:{dag}"

    def follow(self, dag: str) -> str:
        """string: the DAG that is submitted when this one has completed, as JSON."""
        return f"{self.root}follow:{dag}"

    def parents(self, task: str) -> str:
        """list: the dependencies of a task inside its DAG, where they are too many for its hash."""
        return f"{self.root}parents:{task}"

    def triggered(self, task: str) -> str:
        """hash: dependents with trigger all_done or one_failed -> their trigger."""
        return f"{self.root}heirs:{task}"

    def telling(self) -> str:
        """set: ended tasks whose dependents in `heirs` are not resolved yet."""
        return f"{self.root}telling"

    def spawned(self, task: str) -> str:
        """hash: key -> the task that was spawned under it."""
        return f"{self.root}spawned:{task}"

    def gather(self, task: str) -> str:
        """set: the tasks that a RUNNING task will wait for, and `@<name>` of that wait, while the
        wait is sent in several calls. Expires if the last call never comes.
        """
        return f"{self.root}gather:{task}"

    def draining(self) -> str:
        """hash: lane of exclusive tasks -> `<until ms> <worker>`: that worker claims no other tasks
        until then.
        """
        return f"{self.root}draining"

    def cancelling(self) -> str:
        """hash: task, or `children <task>`, -> rule and reason: the rest of a cascade."""
        return f"{self.root}cancelling"

    def idempotency(self, sha: str) -> str:
        """string: the task of an idempotency key. Does not expire while the task is live; after
        that, expires after `dedupe_window`.
        """
        return f"{self.root}idem:{sha}"

    def external(self, sha: str) -> str:
        """string: the task of an external id. Expires with the task."""
        return f"{self.root}ext:{sha}"

    def tag_list(self, tag: str) -> str:
        """zset: the live and dead tasks that carry a tag, by creation."""
        return f"{self.root}tag:{tag}"

    def dead(self) -> str:
        """zset: dead-lettered tasks by time of death; they stay until resolved."""
        return f"{self.root}dead"

    def deliveries(self) -> str:
        """zset: `task:epoch` of tasks that were delivered to a waiting claim and not yet started,
        by the time by which they must start.
        """
        return f"{self.root}handoffs"

    def orphans(self) -> str:
        """set: tasks that a claim found without their stream entry, for the sweeper."""
        return f"{self.root}orphans"

    def waiter(self, waiter: str) -> str:
        """hash: a claiming session: the number of its last claim, the tasks that it got, and where
        it waits.
        """
        return f"{self.root}waiter:{waiter}"

    def request(self, request: str) -> str:
        """string: the first reply to a named call, returned when the call is repeated. Expires."""
        return f"{self.root}req:{request}"

    def waiting(self, profile: str) -> str:
        """zset: waiting claims of a profile by the time they began to wait."""
        return f"{self.root}waiting:{profile}"

    def profile(self, profile: str) -> str:
        """string: the lanes of a profile as JSON. Expires when no claim waits under it."""
        return f"{self.root}profile:{profile}"

    def profiles(self, lane: int | str) -> str:
        """set: the profiles that serve a lane; `new` has all of them."""
        return f"{self.root}profiles:{lane}"

    def mail(self, box: str) -> str:
        """list: deliveries to a waiting claim, a result waiter or a worker: `tasks`, `lanes`,
        `ended`, `fenced`, `drain`.
        """
        return f"{self.root}mail:{box}"

    def watchers(self, task: str) -> str:
        """set: mailboxes that are notified when the task ends."""
        return f"{self.root}watchers:{task}"

    def worker(self, worker: str) -> str:
        """hash: a worker: `run:<id>` for each run, `drain:<id>` for runs that must drain, `left`
        when all runs have left, `blamed` when it was drained for its failures, `alone` for its
        exclusive task.
        """
        return f"{self.root}worker:{worker}"

    def workers(self) -> str:
        """zset: workers by their last heartbeat."""
        return f"{self.root}workers"

    def unserved(self) -> str:
        """hash: lane with tasks that no live worker can run -> since when, and ` told` once
        reported.
        """
        return f"{self.root}unserved"

    def roles(self) -> str:
        """hash: principal -> its role, of those that have one."""
        return f"{self.root}roles"

    def inbox(self) -> str:
        """stream: tasks that producers of any language sent with plain XADD, see protocol.md."""
        return f"{self.root}inbox"

    def rejected(self) -> str:
        """stream: what was refused of the inbox: entry, at, reason, form, cut, task; capped."""
        return f"{self.root}rejected"

    def outbox(self) -> str:
        """stream: ended tasks for the archive: task -> life, state, snapshot."""
        return f"{self.root}outbox"

    def archiving(self) -> str:
        """string: how many ended tasks may wait for the archive. Exists while the queue has one."""
        return f"{self.root}archiving"

    def reviews(self) -> str:
        """stream: decisions about dead tasks, with reviewer, reason and time. Deleted when they are
        archived; capped where there is no archive.
        """
        return f"{self.root}reviews"

    def reaper(self) -> str:
        """hash: the reaper's last check: server time and run id."""
        return f"{self.root}reaper:seen"

    def leader(self) -> str:
        """hash: the scheduler's election: owner, epoch, until_ms, ttl_ms."""
        return f"{self.root}leader"

    def stats(self) -> str:
        """hash: counters: `<lane>:<state>`, `submitted`, `outbox`, `repaired`."""
        return f"{self.root}stats"
