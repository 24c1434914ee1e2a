"""One shard in memory: tasks, and what cannot be told from them. The time is handed in.

There are no indexes here: a lane, the pending list, the counters are read off the tasks' states.
That is what makes it a reference for the scripts, which must keep them all in step.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rqueue.task.state import State
from tests.reference.graphs import is_shut, tally
from tests.reference.money import Money, leave_hand, leave_unpaid
from tests.reference.records import TIME, Ended, Graph, Key, Record, Said
from tests.reference.rounds import Exchanged, Line
from tests.reference.turning import Crowds, let_in

if TYPE_CHECKING:
    from rqueue.task.lane import Lane
    from tests.reference.breaking import Breaker, Slow
    from tests.reference.conversation import WaitingClaim


class Model:
    """The state of a shard. The verbs are functions over it, one module for each kind."""

    def __init__(
        self,
        *,
        archive: bool = False,
        max_lanes: int = 512,
        keep_failures: int = 100,
        result_ttl_ms: int = 86_400_000,
        max_nodes: int = 10_000,
    ) -> None:
        self.says_archive = archive
        self.archiving: int | None = None
        self.max_lanes = max_lanes
        self.keep_failures = keep_failures
        self.result_ttl_ms = result_ttl_ms
        self.max_nodes = max_nodes
        self.now_ms = self.submitted = self.version = 0
        self.tasks: dict[str, Record] = {}
        self.lanes: dict[Lane, int] = {}
        self.keys: dict[str, Key] = {}
        self.names: dict[str, str] = {}
        self.waiters: dict[str, WaitingClaim] = {}
        self.boxes: dict[str, list[str]] = {}
        self.handoffs: dict[tuple[str, int], int] = {}
        self.deadlines: dict[str, int] = {}
        self.exclusive: dict[str, str] = {}
        self.runs: dict[str, dict[str, Said]] = {}
        self.drained, self.paused, self.blamed = set[str](), set[str](), dict[str, int]()
        self.breakers: dict[str, Breaker] = {}
        self.roles, self.answers = dict[str, str](), dict[str, tuple[int, list[Any]]]()
        self.slowed: dict[str, Slow] = {}
        self.begun, self.wakes = dict[str, dict[int, int]](), dict[str, int]()
        self.money, self.crowds = Money(), Crowds()
        self.lines, self.turned = dict[int, Line](), Exchanged()
        self.cancelling: dict[str, tuple[str, str]] = {}
        self.telling: set[str] = set()
        self.dags: dict[str, Graph] = {}
        self.unfinished: dict[str, int] = {}
        self.draining: dict[int, tuple[int, str]] = {}
        self.watchers: dict[str, set[str]] = {}
        self.outbox, self.reviews = list[list[Ended]](), dict[str, dict[str, str]]()

    # what can be read off

    @property
    def archive(self) -> bool:
        """Whether what ends goes to the outbox: this process says so, or another has joined one."""
        return self.says_archive or self.archiving is not None

    def find(self, task: str) -> Record | None:
        """The task, if it is there and has not expired."""
        record = self.tasks.get(task)
        if record is None or (record.expires_ms or self.now_ms + 1) <= self.now_ms:
            return None
        return record

    def graph(self, dag: str) -> Graph | None:
        """The DAG, if it is there and has not expired."""
        graph = self.dags.get(dag)
        if graph is None or (graph.expires_ms or self.now_ms + 1) <= self.now_ms:
            return None
        return graph

    def seen(self, task: str) -> Record | None:
        """The task, if it is there for everyone: not while its DAG is being written."""
        record = self.find(task)
        if record is None or record.state is not State.CREATED:
            return record
        return None if self.dags[record.dag].status == "writing" else record

    def among(self, *states: State) -> list[Record]:
        """The tasks in these states."""
        return [record for record in self.tasks.values() if record.state in states]

    def lane(self, number: int) -> list[str]:
        """The READY tasks of a lane, the next one first; not those that are held back."""
        ready = [record for record in self.ready() if record.lane == number]
        return [r.id for r in sorted(ready, key=lambda record: (record.score, record.id))]

    def ready(self) -> list[Record]:
        """The tasks that may be claimed, as far as their DAGs are known to let them."""
        return [record for record in self.among(State.READY) if not record.held]

    def in_hand(self, consumer: str | None = None) -> list[Record]:
        """The leases, of one owner or of all."""
        held = (record for record in self.tasks.values() if record.in_hand)
        return [record for record in held if consumer in (None, record.owner)]

    def delayed(self) -> dict[str, int]:
        """When the tasks that wait for their time may run."""
        return {
            record.id: record.due_ms
            for record in self.among(State.RETRYING, State.PENDING)
            if record.state is State.RETRYING or TIME in record.waits
        }

    def dependents(self, task: str) -> list[Record]:
        """Who waits for a task to complete, or is about to."""
        waiting = [r for r in self.waiting_for(task) if r.trigger == "all_success"]
        return [*waiting, *self.gathering(task, success=True)]

    def heirs(self, task: str) -> list[Record]:
        """Who waits for a task to end, whatever its end is, or is about to."""
        waiting = [r for r in self.waiting_for(task) if r.trigger != "all_success"]
        return [*waiting, *self.gathering(task, success=False)]

    def gathering(self, task: str, *, success: bool) -> list[Record]:
        """Who is about to wait for a task, and does not yet."""
        found = [r for r in self.tasks.values() if task in r.gathering and task not in r.waits]
        return [r for r in found if (r.gathers == "all_success") is success]

    def waiting_for(self, task: str) -> list[Record]:
        """All who wait for a task."""
        return [r for r in self.among(State.PENDING, State.CREATED) if task in r.waits]

    def counters(self) -> Counter[tuple[int, State]]:
        """How many tasks are in each state, by lane."""
        return Counter((record.lane, record.state) for record in self.tasks.values())

    def held(self) -> Counter[int]:
        """How many READY tasks are held back out of their lanes."""
        return Counter(record.lane for record in self.among(State.READY) if record.held)

    def holder(self, idem: str | None) -> str | None:
        """The task that an idempotency key stands for now."""
        key = self.keys.get(idem) if idem is not None else None
        if key is None or (key.until_ms is not None and key.until_ms <= self.now_ms):
            return None
        return key.task

    def named(self, ext: str | None) -> Record | None:
        """The task that a producer's own id stands for, if it is still there."""
        return self.find(self.names.get(ext, "")) if ext is not None else None

    # steps that several verbs share

    def lane_number(self, lane: Lane) -> int | None:
        """The lane's number, made when it is new, and told to all who wait; None: too many."""
        if lane not in self.lanes:
            if len(self.lanes) >= self.max_lanes:
                return None
            number = len(self.lanes) + 1
            self.lanes[lane] = -number if lane.keyed else number
            self.version = (self.version or self.now_ms) + 1
            for waiter in self.waiters.values():
                if waiter.since_ms is not None:
                    self.mail(waiter.claim.box, f"lanes {self.version}")
        return self.lanes[lane]

    def mail(self, box: str, line: str) -> None:
        """Puts a line into a box."""
        self.boxes.setdefault(box, []).append(line)

    def make_ready(self, record: Record) -> int | None:
        """The task may be claimed; the lane it enters, unless its DAG holds it back."""
        self.handoffs.pop((record.id, record.epoch), None)
        leave_hand(self, record)
        record.state, record.suspended = State.READY, None
        record.held = is_shut(self, record)
        return None if record.held else record.lane

    def delay(self, record: Record, due_ms: int) -> None:
        """A waiting task waits until then."""
        if record.state is not State.RETRYING:
            record.state, record.held = State.PENDING, False
            leave_unpaid(self, record)
            record.waits.add(TIME)
        record.due_ms = due_ms

    def met(self, record: Record, what: str) -> int | None:
        """One thing a task waited for is there; the lane it enters when it was the last."""
        record.waits.discard(what)
        if record.waits:
            return None
        if record.state is not State.PENDING:
            record.gathering.discard(what)
            return None
        return self.make_ready(record)

    def free_key(self, record: Record) -> None:
        """The task gives up its idempotency key, if it is still its own."""
        idem = record.special.idem
        if idem is not None and self.holder(idem) == record.id:
            del self.keys[idem]

    def end(self, record: Record, state: State, settled: str | None) -> Ended:
        """What all endings have in common; the outbox line."""
        if state is not State.COMPLETED:
            let_in(self, record)
            leave_hand(self, record)
        self.handoffs.pop((record.id, record.epoch), None)
        self.deadlines.pop(record.id, None)
        record.state, record.finished_ms, record.held = state, self.now_ms, False
        leave_unpaid(self, record)
        record.settled = record.settled if settled is None else settled
        if state is not State.COMPLETED:
            self.free_key(record)
        if state is not State.DEAD_LETTERED and not self.archive and not record.dag:
            self.forget_later(record)
        for box in self.watchers.pop(record.id, set()):
            self.mail(box, f"ended {record.id}")
        return record.id, record.life, state

    def forget_later(self, record: Record) -> None:
        """An ended task is kept for its own time, or for the queue's."""
        record.expires_ms = self.now_ms + (record.special.ttl_ms or self.result_ttl_ms)

    def send(self, ended: list[Ended]) -> None:
        """What it means for their DAGs that tasks ended in one call, and one outbox entry."""
        for dag in dict.fromkeys(self.tasks[task].dag for task, _, _ in ended):
            tally(self, dag, ended)
        if self.archive and ended:
            self.outbox.append(ended)
