"""One shard in memory: tasks and what does not follow from them. The caller sets the time.

There are no indexes: lanes, pending list and counters are derived from the states of the tasks.
That makes it a reference for the moves, which must keep all of them consistent.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rqueue.task.state import State
from tests.reference.budgets import Money, leave_unpaid, release_reservation
from tests.reference.dags.graph import is_held_back, update_status
from tests.reference.records import TIME, Ended, Graph, Key, Record, Registration
from tests.reference.turns import FullGates, LaneTurns, TurnClock, wake_gates_of

if TYPE_CHECKING:
    from rqueue.task.lane import Lane
    from tests.reference.breakers import Breaker, Slowdown
    from tests.reference.claiming import WaitingClaim


class Model:
    """The state of a shard. The moves are functions of it, one module for each kind."""

    def __init__(
        self,
        *,
        archive: bool = False,
        max_lanes: int = 512,
        keep_failures: int = 100,
        result_ttl_ms: int = 86_400_000,
        max_nodes: int = 10_000,
    ) -> None:
        self.archive_configured = archive
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
        self.mailboxes: dict[str, list[str]] = {}
        self.deliveries: dict[tuple[str, int], int] = {}
        self.deadlines: dict[str, int] = {}
        self.exclusive: dict[str, str] = {}
        self.runs: dict[str, dict[str, Registration]] = {}
        self.drained, self.paused, self.blamed = set[str](), set[str](), dict[str, int]()
        self.breakers: dict[str, Breaker] = {}
        self.roles, self.answers = dict[str, str](), dict[str, tuple[int, list[Any]]]()
        self.slowed: dict[str, Slowdown] = {}
        self.begun, self.wakes = dict[str, dict[int, int]](), dict[str, int]()
        self.money, self.full_gates = Money(), FullGates()
        self.lane_turns, self.turn_clock = dict[int, LaneTurns](), TurnClock()
        self.cancelling: dict[str, tuple[str, str]] = {}
        self.telling: set[str] = set()
        self.dags: dict[str, Graph] = {}
        self.unfinished: dict[str, int] = {}
        self.draining: dict[int, tuple[int, str]] = {}
        self.watchers: dict[str, set[str]] = {}
        self.outbox, self.reviews = list[list[Ended]](), dict[str, dict[str, str]]()

    # derived

    @property
    def archive(self) -> bool:
        """Whether ended tasks go to the outbox: by this process's settings, or because an archive
        was joined.
        """
        return self.archive_configured or self.archiving is not None

    def find(self, task: str) -> Record | None:
        """The task, if it exists and has not expired."""
        record = self.tasks.get(task)
        if record is None or (record.expires_ms or self.now_ms + 1) <= self.now_ms:
            return None
        return record

    def graph(self, dag: str) -> Graph | None:
        """The DAG, if it exists and has not expired."""
        graph = self.dags.get(dag)
        if graph is None or (graph.expires_ms or self.now_ms + 1) <= self.now_ms:
            return None
        return graph

    def visible(self, task: str) -> Record | None:
        """The task, unless its DAG is still being written."""
        record = self.find(task)
        if record is None or record.state is not State.CREATED:
            return record
        return None if self.dags[record.dag].status == "writing" else record

    def among(self, *states: State) -> list[Record]:
        """The tasks in these states."""
        return [record for record in self.tasks.values() if record.state in states]

    def lane(self, number: int) -> list[str]:
        """The READY tasks of a lane in order, without those that are held back."""
        ready = [record for record in self.ready() if record.lane == number]
        return [r.id for r in sorted(ready, key=lambda record: (record.score, record.id))]

    def ready(self) -> list[Record]:
        """The tasks that may be claimed, without those that their DAGs hold back."""
        return [record for record in self.among(State.READY) if not record.held]

    def leased(self, consumer: str | None = None) -> list[Record]:
        """The leased tasks, of one owner or of all."""
        held = (record for record in self.tasks.values() if record.leased)
        return [record for record in held if consumer in (None, record.owner)]

    def delayed(self) -> dict[str, int]:
        """When delayed tasks become due."""
        return {
            record.id: record.due_ms
            for record in self.among(State.RETRYING, State.PENDING)
            if record.state is State.RETRYING or TIME in record.waits
        }

    def dependents(self, task: str) -> list[Record]:
        """Tasks that wait, or are about to wait, for a task to complete."""
        waiting = [r for r in self.waiting_for(task) if r.trigger == "all_success"]
        return [*waiting, *self.gathering(task, success=True)]

    def end_dependents(self, task: str) -> list[Record]:
        """Tasks that wait, or are about to wait, for a task to end: trigger all_done or
        one_failed.
        """
        waiting = [r for r in self.waiting_for(task) if r.trigger != "all_success"]
        return [*waiting, *self.gathering(task, success=False)]

    def gathering(self, task: str, *, success: bool) -> list[Record]:
        """Tasks that are about to wait for a task."""
        found = [r for r in self.tasks.values() if task in r.gathering and task not in r.waits]
        return [r for r in found if (r.gathers == "all_success") is success]

    def waiting_for(self, task: str) -> list[Record]:
        """Tasks that wait for a task."""
        return [r for r in self.among(State.PENDING, State.CREATED) if task in r.waits]

    def counters(self) -> Counter[tuple[int, State]]:
        """The number of tasks by lane and state."""
        return Counter((record.lane, record.state) for record in self.tasks.values())

    def held(self) -> Counter[int]:
        """The number of READY tasks held back from their lanes."""
        return Counter(record.lane for record in self.among(State.READY) if record.held)

    def key_holder(self, idem: str | None) -> str | None:
        """The task that holds an idempotency key now."""
        key = self.keys.get(idem) if idem is not None else None
        if key is None or (key.until_ms is not None and key.until_ms <= self.now_ms):
            return None
        return key.task

    def by_external_id(self, ext: str | None) -> Record | None:
        """The task with an external id, if it exists."""
        return self.find(self.names.get(ext, "")) if ext is not None else None

    # steps of several moves

    def lane_number(self, lane: Lane) -> int | None:
        """The number of a lane, created if it is new, with a message to all waiting claims; None if
        there are too many.
        """
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
        """Appends a line to a mailbox."""
        self.mailboxes.setdefault(box, []).append(line)

    def make_ready(self, record: Record) -> int | None:
        """Makes a task READY. Returns the lane it enters, None if its DAG holds it back."""
        self.deliveries.pop((record.id, record.epoch), None)
        release_reservation(self, record)
        record.state, record.suspended = State.READY, None
        record.held = is_held_back(self, record)
        return None if record.held else record.lane

    def delay(self, record: Record, due_ms: int) -> None:
        """Delays a waiting task until that time."""
        if record.state is not State.RETRYING:
            record.state, record.held = State.PENDING, False
            leave_unpaid(self, record)
            record.waits.add(TIME)
        record.due_ms = due_ms

    def resolve(self, record: Record, what: str) -> int | None:
        """Removes one dependency of a task. Returns the lane it enters if it was the last."""
        record.waits.discard(what)
        if record.waits:
            return None
        if record.state is not State.PENDING:
            record.gathering.discard(what)
            return None
        return self.make_ready(record)

    def release_key(self, record: Record) -> None:
        """Releases the idempotency key of a task, if it holds it."""
        idem = record.special.idem
        if idem is not None and self.key_holder(idem) == record.id:
            del self.keys[idem]

    def end(self, record: Record, state: State, settled: str | None) -> Ended:
        """Ends a task in a state. Returns its outbox line."""
        if state is not State.COMPLETED:
            wake_gates_of(self, record)
            release_reservation(self, record)
        self.deliveries.pop((record.id, record.epoch), None)
        self.deadlines.pop(record.id, None)
        record.state, record.finished_ms, record.held = state, self.now_ms, False
        leave_unpaid(self, record)
        record.settled = record.settled if settled is None else settled
        if state is not State.COMPLETED:
            self.release_key(record)
        if state is not State.DEAD_LETTERED and not self.archive and not record.dag:
            self.expire_later(record)
        for box in self.watchers.pop(record.id, set()):
            self.mail(box, f"ended {record.id}")
        return record.id, record.life, state

    def expire_later(self, record: Record) -> None:
        """Sets the expiry of an ended task, by its own time or that of the queue."""
        record.expires_ms = self.now_ms + (record.special.ttl_ms or self.result_ttl_ms)

    def record_ended(self, ended: list[Ended]) -> None:
        """Updates DAGs and outbox for tasks that ended in one call."""
        for dag in dict.fromkeys(self.tasks[task].dag for task, _, _ in ended):
            update_status(self, dag, ended)
        if self.archive and ended:
            self.outbox.append(ended)
