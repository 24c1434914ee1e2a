"""Rebuilds ended tasks as new tasks with new ids, the same definitions and a link to the old tasks.

Idempotency keys and deduplication options are not copied, because they identify the old tasks.
Times that have passed are not copied either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rqueue.dags.plan import Plan, PlanTask
from rqueue.errors import InvalidGraph
from rqueue.task.ids import TaskId, new_dag_id, new_task_id
from rqueue.task.references import as_list, output_of, task_in, tasks_in
from rqueue.task.state import State

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from rqueue.archive.maintenance.restore import Past
    from rqueue.task.dag import DagSpec
    from rqueue.task.ids import DagId
    from rqueue.task.spec import TaskSpec

# Headers of a restored task with the ids of the original task and of its DAG.
FROM, FROM_DAG = "restored-from", "restored-from-dag"
MOST_HEADERS = 32
# Fields that are not copied: they are set for the new task or omitted.
OMITTED = frozenset({
    "type", "payload", "name", "parent_id", "dag_id", "depends_on", "inputs", "context_refs",
    "idempotency_key", "dedupe", "dedupe_fields", "if_exists", "unique", "external_id", "at",
    "delay_sec", "headers",
})  # fmt: skip
TIMES = frozenset({"deadline", "on_deadline"})
NO_OUTPUT = "refers to a task that no longer exists or was cancelled; enqueue it as a new task"


@dataclass(frozen=True, slots=True)
class Restored:
    """The restored tasks: new ids by old ones, and notes on the differences from the originals."""

    tasks: dict[TaskId, TaskId]
    dag: DagId | None = None
    notes: tuple[str, ...] = ()
    created: bool = True


@dataclass(slots=True)
class Rebuilding:
    """The rebuilding of the ended tasks in `lives`. `known` are other tasks in the archive, `there`
    has the states of tasks in the queue.
    """

    lives: Mapping[TaskId, Past]
    known: Mapping[TaskId, Past]
    there: Mapping[TaskId, State]
    now: datetime
    specs: dict[TaskId, TaskSpec] = field(default_factory=dict)
    ids: dict[TaskId, TaskId] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def prepare(self) -> None:
        """Reads the specs and assigns new ids. Tasks that cannot be decoded are left out."""
        for id, past in self.lives.items():
            spec, unreadable = past.spec()
            if unreadable is None:
                self.specs[id] = spec
            else:
                self.note(id, f"is left out: {unreadable}")
        for id, spec in list(self.specs.items()):
            if spec.parent_id in self.specs:
                self.note(id, f"is left out: {spec.parent_id} spawns it again")
                del self.specs[id]
        self.ids = {id: new_task_id() for id in self.specs}

    def drop_idle(self) -> None:
        """Leaves out tasks with the trigger `one_failed` if none of their dependencies runs
        again.
        """
        for id, spec in list(self.specs.items()):
            if spec.trigger == "one_failed" and not set(spec.depends_on) & set(self.specs):
                self.note(
                    id, "is left out: it waits for a failure, and no dependency of it runs again"
                )
                del self.specs[id], self.ids[id]

    def plan(self, spec: DagSpec) -> Plan:
        """Returns all rebuilt tasks as one DAG."""
        names = [one.name for one in self.specs.values() if one.name]
        tasks = []
        for old, new in self.ids.items():
            name = self.specs[old].name
            shown = str(new) if name is None or names.count(name) > 1 else name
            fields = self.fields(old)
            after = [self.ids.get(one, one) for one in fields.pop("depends_on")]
            tasks.append(PlanTask(shown, new, fields, after))
        return Plan(new_dag_id(), spec, tasks)

    def fields(self, old: TaskId) -> dict[str, Any]:
        """Returns the fields of one task, as a producer gives them. Dependencies have their old
        ids. Raises InvalidGraph.
        """
        spec = self.specs[old]
        left = OMITTED | TIMES if self.is_late(old, spec) else OMITTED
        dumped = spec.model_dump(mode="json", exclude_defaults=True, exclude=set(left))
        if "priority" in dumped:
            dumped["scale"] = "native"
        payload, inputs = self.filled(old, spec)
        return {
            **dumped,
            **({"inputs": inputs} if inputs else {}),
            **({"context_refs": refs} if (refs := self.references(old, spec.context_refs)) else {}),
            "type": spec.type,
            "payload": payload,
            "headers": self.headers(old, spec),
            "depends_on": self.dependencies(old, spec),
        }

    def is_late(self, old: TaskId, spec: TaskSpec) -> bool:
        """Returns whether the deadline of a task has passed."""
        if spec.deadline is None or spec.deadline > self.now:
            return False
        self.note(
            old,
            f"has no deadline: the original one, {spec.deadline:%Y-%m-%d %H:%M} UTC, has passed",
        )
        return True

    def headers(self, old: TaskId, spec: TaskSpec) -> dict[str, str]:
        """Returns the headers of a task, with those that link to the old task and DAG."""
        link = {FROM: str(old)}
        dag = self.lives[old].dag
        if dag is not None:
            link[FROM_DAG] = str(dag)
        found = {**spec.headers, **link}
        if len(found) <= MOST_HEADERS:
            return found
        self.note(old, "has too many headers to add those that link to the original task")
        return dict(spec.headers)

    def dependencies(self, old: TaskId, spec: TaskSpec) -> list[TaskId]:
        """Returns the dependencies of a task that run again or exist in the queue."""
        found = []
        for dependency in map(TaskId.parse, filter(is_task_id, spec.depends_on)):
            if self.is_done(dependency):
                continue
            if dependency in self.ids or self.there.get(dependency) not in (None, State.CANCELLED):
                found.append(dependency)
            else:
                self.note(old, f"does not wait for {dependency}, which no longer exists")
        others = [name for name in spec.depends_on if not is_task_id(name)]
        if others:
            self.note(old, f"does not wait for {', '.join(others)}")
        return found

    def is_done(self, task: TaskId) -> bool:
        """Returns whether a task has completed and does not run again."""
        is_queued = self.there.get(task) is State.COMPLETED
        return task not in self.ids and (is_queued or self.is_archived(task))

    def is_archived(self, task: TaskId) -> bool:
        """Returns whether a task is completed in the archive."""
        past = self.known.get(task)
        return past is not None and past.state == State.COMPLETED

    def is_copyable(self, task: TaskId) -> bool:
        """Returns whether the output of a task can be copied into the payload of another."""
        has_output = self.is_archived(task) and not self.known[task].is_stowed
        return task not in self.ids and has_output

    def filled(self, old: TaskId, spec: TaskSpec) -> tuple[Any, dict[str, Any]]:
        """Returns the payload of a task with the archived outputs filled in, and references to the
        others.
        """
        payload, inputs = spec.payload, {}
        for argument, given in spec.inputs.items():
            tasks = [task_in(one) for one in as_list(given)]
            if all(task is not None and self.is_copyable(task) for task in tasks):
                values = [self.known[task].output() for task in tasks if task is not None]
                whole = values[0] if isinstance(given, str) else values
                payload = {**payload, argument: whole} if isinstance(payload, Mapping) else payload
            else:
                named = self.references(old, as_list(given))
                inputs[argument] = named[0] if isinstance(given, str) else named
        return payload, inputs

    def references(self, old: TaskId, given: Iterable[str]) -> list[str]:
        """Returns references with new ids. Raises InvalidGraph if a referenced task does not
        exist.
        """
        return [self.renamed(old, one) for one in given]

    def renamed(self, old: TaskId, reference: str) -> str:
        """Returns a reference, with the new id if the task runs again."""
        task = task_in(reference)
        if task is None:
            return reference
        if task in self.ids:
            return output_of(self.ids[task])
        state = self.there.get(task)
        is_lost = state is State.CANCELLED and self.specs[old].trigger == "all_success"
        if state is None or is_lost:
            raise InvalidGraph(NO_OUTPUT, (old, task))
        return reference

    def note(self, task: TaskId, what: str) -> None:
        """Adds a note on a difference from the original task."""
        self.notes.append(f"{task} {what}")


def incomplete(lives: Mapping[TaskId, Past]) -> dict[TaskId, Past]:
    """Returns the tasks that must run again: those that have not completed, and completed ones
    whose output cannot be copied into a dependent's payload. An output cannot be copied if it is
    too large, if a text refers to it, or if the same list contains an output that does not exist
    yet.
    """
    chosen = {id for id, past in lives.items() if past.state != State.COMPLETED}
    while True:
        large = {id for id, past in lives.items() if past.is_stowed} | chosen
        more = {task for id in chosen for task in inseparable(lives[id].spec()[0], large)}
        more &= lives.keys() - chosen
        if not more:
            return {id: past for id, past in lives.items() if id in chosen}
        chosen |= more


def inseparable(spec: TaskSpec, running: AbstractSet[TaskId]) -> set[TaskId]:
    """Returns the tasks that must run again to provide the inputs of this one. The outputs of
    `running` can only be referred to, not copied.
    """
    found = set(tasks_in(spec.context_refs))
    for given in spec.inputs.values():
        tasks = set(tasks_in(as_list(given)))
        if tasks & running:
            found |= tasks
    return found


def referred(lives: Mapping[TaskId, Past]) -> list[TaskId]:
    """Returns the tasks that these tasks depend on or refer to, without these tasks themselves."""
    found: dict[TaskId, None] = {}
    for past in lives.values():
        spec, _ = past.spec()
        ids = [TaskId.parse(name) for name in spec.depends_on if is_task_id(name)]
        found |= dict.fromkeys([*ids, *tasks_in(spec.references()), *tasks_in(spec.context_refs)])
    return [task for task in found if task not in lives]


def is_task_id(name: str) -> bool:
    """Returns whether a name is a task id of rqueue."""
    return isinstance(name, TaskId)
