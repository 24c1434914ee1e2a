"""What operators do to a queue while it runs, and how it is doing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import TYPE_CHECKING, Literal

from rqueue.client import door
from rqueue.client.counts import Counts, counts_of
from rqueue.client.dagdesk import DagDesk, Retried
from rqueue.client.desk import Desk, filter_of
from rqueue.client.explaining import Explanation, explain
from rqueue.client.fleet import WorkerInfo, drain_workers, workers
from rqueue.client.following import Follower, place_of, wanted_of
from rqueue.client.reasons import Why, why
from rqueue.model.budget import DAY, WORKER
from rqueue.model.state import State
from rqueue.store import breakers as breaking
from rqueue.store import budgets as budgeting
from rqueue.store import queue as whole
from rqueue.store import roles as standing
from rqueue.store import slowdowns as slowing
from rqueue.store import tasks

if TYPE_CHECKING:
    from datetime import datetime

    from rqueue.client.ending import Swept
    from rqueue.model.breaker import Breaker
    from rqueue.model.budget import Budgets
    from rqueue.model.event import Event
    from rqueue.model.role import Role
    from rqueue.model.slowdown import Slowdown
    from rqueue.model.task import Task
    from rqueue.store.shard import Shard


class Control:
    """The operator's half of a queue."""

    desk: Desk
    shard: Shard

    async def cancel(
        self,
        task: str,
        reason: str = "",
        *,
        dependents: Literal["cascade", "unblock"] = "cascade",
    ) -> bool:
        """Ends a task that has not ended; whether there was one. What depends on it, and what it
        has spawned and waits for, is cancelled too; with "unblock" both go on.
        """
        return await self.desk.cancel(task, reason=reason, dependents=dependents)

    async def cancel_many(
        self,
        *,
        states: Iterable[State | str] | None = None,
        type: str | None = None,
        tag: str | None = None,
        before: datetime | str | None = None,
        reason: str = "cancelled in bulk",
        dry_run: bool = False,
    ) -> Swept:
        """Cancels all live tasks that fit; with `dry_run` only says which."""
        wanted = filter_of(states, type, tag, before)
        return await self.desk.sweep(wanted, reason=reason, dry_run=dry_run)

    async def purge(
        self,
        *,
        states: Iterable[State | str] = (State.DEAD_LETTERED,),
        type: str | None = None,
        tag: str | None = None,
        before: datetime | str | None = None,
        reason: str = "purged",
        dry_run: bool = False,
    ) -> Swept:
        """Discards dead tasks, and cancels live ones of the named states, that fit."""
        wanted = filter_of(states, type, tag, before)
        return await self.desk.sweep(wanted, reason=reason, dry_run=dry_run)

    async def find(
        self,
        *,
        states: Iterable[State | str] | None = None,
        type: str | None = None,
        tag: str | None = None,
        before: datetime | str | None = None,
    ) -> AsyncIterator[Task]:
        """The live (and, where named, dead) tasks that fit, read as they are walked."""
        async for task in self.desk.find(filter_of(states, type, tag, before)):
            yield task

    async def why(self, task: str) -> Why:
        """What holds a task back that does not run yet, as a claim would find it now, and when it
        may begin at the earliest; raises TaskNotFound, and WrongState for one that has ended.
        """
        return await why(self.desk, task)

    async def explain(self, task: str) -> Explanation:
        """What a task's effective priority is made of, and who comes before it. Raises
        TaskNotFound, and WrongState where it has ended.
        """
        return await explain(self.desk, task)

    async def set_priority(self, task: str, priority: float, *, scale: str | None = None) -> None:
        """Gives a task another base priority; its age still counts."""
        await self.desk.set_priority(task, priority, scale)

    async def reschedule(
        self, task: str, *, delay: float | None = None, at: datetime | str | None = None
    ) -> None:
        """Lets a waiting task wait until another time."""
        await self.desk.reschedule(task, delay=delay, at=at)

    async def run_now(self, task: str) -> bool:
        """Ends a task's waiting for its time; whether it was waiting for one."""
        return await tasks.run_now(self.shard, await self.desk.id_of(task))

    async def edit(self, task: str, payload: object) -> None:
        """Replaces the payload of a task that nobody has claimed yet."""
        await self.desk.edit(task, payload)

    async def revive(self, task: str, *, payload: object = None, delay: float = 0) -> State:
        """Gives a dead task a new life, changed where a payload is given."""
        return await self.desk.revive(task, payload=payload, delay=delay)

    async def discard(self, task: str, reason: str = "") -> None:
        """Gives a dead task up."""
        await self.desk.discard(task, reason)

    async def pause(self, *, type: str | None = None, lane: int | None = None) -> None:
        """Hands out nothing of the queue, a type or a lane until it is resumed."""
        await whole.pause(self.shard, door.gate_of(type, lane))

    async def resume(self, *, type: str | None = None, lane: int | None = None) -> None:
        """Ends a pause; who waited is answered at once."""
        await whole.resume(self.shard, door.gate_of(type, lane))

    async def breakers(self) -> list[Breaker]:
        """The breakers of types that have failed and not completed since, or are not closed."""
        return await breaking.breakers(self.shard)

    async def open_breaker(self, type: str, seconds: float = 300) -> None:
        """Hands out nothing of a type for so long; then one of its tasks tries it."""
        rest = door.seconds_of("seconds", seconds)
        name = door.name_of("type", type)
        await breaking.open_breaker(self.shard, name, for_ms=round(rest * 1000))

    async def close_breaker(self, type: str) -> None:
        """Hands out the tasks of a type again, and forgets its failures; who waited is answered."""
        await breaking.close_breaker(self.shard, door.name_of("type", type))

    async def slowdowns(self) -> list[Slowdown]:
        """The types and limit keys whose service wants to be asked less often, types first."""
        return await slowing.slowdowns(self.shard)

    async def lift_slowdown(self, type: str | None = None, *, key: str | None = None) -> bool:
        """Hands out all tasks of a type, or of a limit key, again; whether it was slowed down. Who
        waited is answered.
        """
        return await slowing.lift(self.shard, **door.slowed_of(type, key))

    async def budgets(self) -> Budgets:
        """What the day and the workers that have a budget have spent, and may."""
        return await budgeting.budgets(self.shard)

    async def set_budget(
        self, usd: float | None, *, worker: str | None = None, afresh: bool = False
    ) -> None:
        """Sets what the tasks of each day may cost, or all that a worker of this name claims; None
        for no limit. With `afresh`, what was spent so far is forgotten. Who waited is answered.
        """
        account = DAY if worker is None else WORKER + door.label_of("worker", worker)
        ceiling = door.usd_of("usd", usd)
        await budgeting.set_budget(self.shard, account, ceiling, afresh=afresh)

    async def roles(self) -> dict[str, str]:
        """The principals that were given a role, by name; all others have `default_role`."""
        return await standing.roles(self.shard)

    async def set_role(self, principal: str, role: Role) -> None:
        """Gives a principal a role: `orchestrator` and `human` create any task, `agent` only what
        it spawns in its own DAG. Raises InvalidTask where either is no such word, and Forbidden
        where this queue's own principal is an agent.
        """
        who, what = door.principal_of("principal", principal), door.role_of(role)
        await standing.set_role(self.shard, who, what, by=self.desk.settings.principal)

    async def drop_role(self, principal: str) -> None:
        """Takes a principal's role away; it has `default_role` again. Raises Forbidden as
        `set_role` does.
        """
        who = door.principal_of("principal", principal)
        await standing.drop_role(self.shard, who, by=self.desk.settings.principal)

    async def workers(self) -> list[WorkerInfo]:
        """Who works on the queue, by name: what each offers, has in hand, and how it is."""
        return await workers(self.shard)

    async def drain_worker(self, name: str) -> list[str]:
        """Sends a worker home: it is given nothing more and ends when what it has is done. All who
        run under the name are meant, and with a `*` all whose names fit; the names. Sent again it
        changes nothing. Raises WorkerNotFound where nobody is at work under it.
        """
        return await drain_workers(self.shard, name)

    async def events(
        self,
        after: str | None = None,
        *,
        names: Iterable[str] = (),
        task: str | None = None,
        wait: float | None = None,
    ) -> AsyncGenerator[Event, None]:
        """What happened, oldest first, and then what happens: after the event of an id, after now
        with "$", else all that is kept. `names` may be patterns (`task.*`). It ends when nothing
        has come for `wait` seconds, and never without; a server that is away is waited for.
        Reading takes nothing away. Raises EventsMissed where events after `after` are gone.
        """
        wait_sec = None if wait is None else door.seconds_of("wait", wait)
        known = None if task is None else await self.desk.id_of(task)
        follower = Follower(self.shard, place_of(after), wanted_of(names, known), wait_sec=wait_sec)
        async for event in follower.events():
            yield event

    async def counts(self) -> Counts:
        """How many tasks there are by state, type and tier; the work grows with the lanes only."""
        return counts_of(await whole.tally(self.shard))

    # DAGs, named by their id in any form, or by a task of theirs.

    @property
    def dag_desk(self) -> DagDesk:
        """What looks at DAGs and changes them."""
        return DagDesk(self.desk)

    async def cancel_dag(self, dag: str, reason: str = "") -> int:
        """Gives up all of a DAG that has not ended; how many tasks that were. Raises DagNotFound
        and DagEnded.
        """
        return await self.dag_desk.cancel(dag, reason)

    async def pause_dag(self, dag: str) -> None:
        """Hands out nothing more of a DAG until it is resumed; what runs, runs on."""
        await self.dag_desk.pause(dag)

    async def resume_dag(self, dag: str) -> None:
        """Hands a paused DAG out again."""
        await self.dag_desk.resume(dag)

    async def retry_dag(self, dag: str) -> Retried:
        """Gives every dead task of a DAG a new life; what was cancelled stays so."""
        return await self.dag_desk.retry(dag)

    async def dag_budget(self, dag: str, usd: float | None) -> None:
        """Sets what the tasks of a DAG together may cost; None for no limit."""
        await self.dag_desk.set_budget(dag, usd)
