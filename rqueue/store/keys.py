"""Every key of one shard, with `turnkeys`. Nothing else in the tree spells a key.

A method's docstring begins with the Redis type; docs/keys.md is made from it. Scripts build
keys of the same tag from `root`; each pattern stands in their headers.
"""

from __future__ import annotations

from dataclasses import dataclass

from rqueue.store.gatekeys import GateKeys
from rqueue.store.noticekeys import NoticeKeys
from rqueue.store.turnkeys import TurnKeys


@dataclass(frozen=True, slots=True)
class Keys(GateKeys, NoticeKeys, TurnKeys):
    """The keys of one shard: all keys of one script call come from one Keys."""

    namespace: str
    tag: str

    @property
    def root(self) -> str:
        """The prefix of every key; the tag in braces keeps them in one slot of a cluster."""
        return f"{self.namespace}:{{{self.tag}}}:"

    def ready(self) -> str:
        """stream: one entry per task that may run or runs; its pending list holds the leases."""
        return f"{self.root}ready"

    def lane(self, number: int) -> str:
        """zset: the READY tasks of a lane by score; lowest first, then the lowest id. Those of
        lanes of keys have negative numbers."""
        return f"{self.root}lane:{number}"

    def lanes(self) -> str:
        """hash: signature of a lane -> its number; beside them `next` and `version`."""
        return f"{self.root}lanes"

    def task(self, task: str) -> str:
        """hash: the task's state and lease. Expires after `result_ttl` once it has ended."""
        return f"{self.root}task:{task}"

    def definition(self, task: str) -> str:
        """string: the task as it was submitted, opaque to scripts. Lives as long as its hash."""
        return f"{self.root}def:{task}"

    def result(self, task: str) -> str:
        """string: what the handler returned, encoded. Lives as long as the task's hash."""
        return f"{self.root}result:{task}"

    def failures(self, task: str) -> str:
        """list: the records of failed attempts, oldest first, bounded."""
        return f"{self.root}failures:{task}"

    def notes(self, task: str) -> str:
        """hash: what a task says of itself: progress, checkpoint, micro_usd, tokens, model,
        artifacts; and of the costs those of lives `before` this, and those told `late`.
        """
        return f"{self.root}notes:{task}"

    def logs(self, task: str) -> str:
        """list: the last log lines of a task."""
        return f"{self.root}logs:{task}"

    def steps(self, task: str) -> str:
        """hash: name of a step that a task has done -> what it gave. Lives as long as its hash."""
        return f"{self.root}steps:{task}"

    def delayed(self) -> str:
        """zset: task by due time in ms: retries, parked and scheduled tasks."""
        return f"{self.root}delayed"

    def blocked(self) -> str:
        """zset: PENDING tasks by the time they began to wait; not those that wait inside a DAG."""
        return f"{self.root}blocked"

    def deadlines(self) -> str:
        """zset: waiting tasks with a deadline, by the time to look at them."""
        return f"{self.root}deadlines"

    def waits(self, task: str) -> str:
        """set: what a PENDING task waits for: ids of parents, `@time`, and `@parents` while they
        are told that it is revived."""
        return f"{self.root}waits:{task}"

    def dependents(self, task: str) -> str:
        """zset: the tasks that wait for this one to complete, in the order of their ids."""
        return f"{self.root}dependents:{task}"

    def unblocking(self) -> str:
        """set: completed tasks whose dependents are still being told."""
        return f"{self.root}unblocking"

    def dag(self, dag: str) -> str:
        """hash: a DAG: status, counters of its tasks, policy, title. Expires after it has ended."""
        return f"{self.root}dag:{dag}"

    def members(self, dag: str) -> str:
        """list: the tasks of a DAG in the order they were written."""
        return f"{self.root}members:{dag}"

    def fresh(self, dag: str) -> str:
        """list: the tasks of a DAG that its commit must reach one by one. Goes with the commit."""
        return f"{self.root}fresh:{dag}"

    def dags(self) -> str:
        """zset: committed DAGs of more than one task, by the time they were."""
        return f"{self.root}dags"

    def writing(self) -> str:
        """zset: DAGs that are not committed yet, by the time of their last part."""
        return f"{self.root}writing"

    def unfinished(self) -> str:
        """hash: `<verb> <dag>` -> how far it is: what was begun with DAGs and is gone on with."""
        return f"{self.root}unfinished"

    def held(self, dag: str) -> str:
        """set: READY tasks of a DAG that is paused or given up: they are not in their lanes."""
        return f"{self.root}held:{dag}"

    def follow(self, dag: str) -> str:
        """string: the DAG that is submitted when this one has completed, as JSON."""
        return f"{self.root}follow:{dag}"

    def parents(self, task: str) -> str:
        """list: what a task of a DAG comes after, where that is more than its hash should hold."""
        return f"{self.root}parents:{task}"

    def heirs(self, task: str) -> str:
        """hash: who waits for the end of this task, whatever it is -> by which trigger."""
        return f"{self.root}heirs:{task}"

    def telling(self) -> str:
        """set: ended tasks whose heirs are still to be told."""
        return f"{self.root}telling"

    def spawned(self, task: str) -> str:
        """hash: key -> task: what a task has spawned."""
        return f"{self.root}spawned:{task}"

    def gather(self, task: str) -> str:
        """set: what a RUNNING task is to wait for, and `@<name>` of that wait, while it is told in
        several calls. It expires where the last one never comes.
        """
        return f"{self.root}gather:{task}"

    def draining(self) -> str:
        """hash: lane of tasks that run alone -> `<until ms> <worker>` that keeps its hands free."""
        return f"{self.root}draining"

    def cancelling(self) -> str:
        """hash: task, or `children <task>`, -> rule and reason: what a cascade has still to do."""
        return f"{self.root}cancelling"

    def idempotency(self, sha: str) -> str:
        """string: idempotency key -> task. No expiry while it lives, `dedupe_window` after."""
        return f"{self.root}idem:{sha}"

    def external(self, sha: str) -> str:
        """string: a caller's own id -> task. Lives as long as the task."""
        return f"{self.root}ext:{sha}"

    def tag_list(self, tag: str) -> str:
        """zset: the live and dead tasks that carry a tag, by creation."""
        return f"{self.root}tag:{tag}"

    def dead(self) -> str:
        """zset: dead-lettered tasks by time of death; they stay until resolved."""
        return f"{self.root}dead"

    def handoffs(self) -> str:
        """zset: `task:epoch` mailed to a waiting worker and not yet started, by due time."""
        return f"{self.root}handoffs"

    def orphans(self) -> str:
        """set: tasks that a claim found without their stream entry, for the sweep."""
        return f"{self.root}orphans"

    def waiter(self, waiter: str) -> str:
        """hash: a claiming conversation: its seq, what it was given, where it parks."""
        return f"{self.root}waiter:{waiter}"

    def request(self, request: str) -> str:
        """string: what a call by hand was answered, for when it is sent again. Expires."""
        return f"{self.root}req:{request}"

    def waiting(self, profile: str) -> str:
        """zset: parked waiters of a profile by the time they began to wait."""
        return f"{self.root}waiting:{profile}"

    def profile(self, profile: str) -> str:
        """string: the lanes of a profile as JSON; expires when nobody parks under it."""
        return f"{self.root}profile:{profile}"

    def profiles(self, lane: int | str) -> str:
        """set: the profiles that serve a lane; `new` has all of them."""
        return f"{self.root}profiles:{lane}"

    def mail(self, box: str) -> str:
        """list: lines for a waiter, a watcher or a worker: `tasks`, `lanes`, `ended`, `fenced`,
        `drain`.
        """
        return f"{self.root}mail:{box}"

    def watchers(self, task: str) -> str:
        """set: boxes that are told when the task ends."""
        return f"{self.root}watchers:{task}"

    def worker(self, worker: str) -> str:
        """hash: what is known under a worker's name: `run:<id>` who runs, `drain:<id>` who is to
        end, `left` when all have; `alone` names the task it must run alone.
        """
        return f"{self.root}worker:{worker}"

    def workers(self) -> str:
        """zset: workers by their last sign of life."""
        return f"{self.root}workers"

    def unserved(self) -> str:
        """hash: lane with tasks that no live worker can do -> since when, and ` told`."""
        return f"{self.root}unserved"

    def roles(self) -> str:
        """hash: principal -> its role, of those that were given one."""
        return f"{self.root}roles"

    def inbox(self) -> str:
        """stream: tasks that producers of any language sent with plain XADD, see protocol.md."""
        return f"{self.root}inbox"

    def rejected(self) -> str:
        """stream: what of the inbox was refused: entry, at, reason, form, cut, task; capped."""
        return f"{self.root}rejected"

    def outbox(self) -> str:
        """stream: what has ended, on its way to the archive; task -> life, state, snapshot."""
        return f"{self.root}outbox"

    def archiving(self) -> str:
        """string: there where the queue has an archive: how many ended tasks may wait for it."""
        return f"{self.root}archiving"

    def reviews(self) -> str:
        """stream: what was decided about dead tasks, with who, why and when; leaves for the
        archive, or is capped where there is none."""
        return f"{self.root}reviews"

    def reaper(self) -> str:
        """hash: what the reaper saw last: server time and run id."""
        return f"{self.root}reaper:seen"

    def leader(self) -> str:
        """hash: who runs the services of the shard: owner, epoch, until_ms, ttl_ms."""
        return f"{self.root}leader"

    def stats(self) -> str:
        """hash: counters: `<lane>:<state>`, `submitted`, `outbox`, `repaired`."""
        return f"{self.root}stats"
