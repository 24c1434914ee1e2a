"""A DAG before it is submitted: its tasks by name, what each waits for, and what follows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

from pydantic_core import to_json

from rqueue.errors import InvalidGraph, InvalidTask
from rqueue.model.checked import NAME, NAME_RULE
from rqueue.model.dag import DagSpec
from rqueue.model.graph import Edges, ordered
from rqueue.model.ids import IDS, DagId, TaskId
from rqueue.model.reference import Reference, listed, output_of

# The parts of a plan's task that are not the task's own fields.
OWN = ("name", "id", "after", "inputs")
WHOLE = ("id", "tasks", "on_complete")
EMPTY = "is a list of at least one task"
# DAGs that may follow one another: each is kept, and checked, with all those before it.
MAX_FOLLOWERS = 32


@dataclass(frozen=True, slots=True)
class PlanTask:
    """One task of a plan: its own fields, and by their names those that it comes after.

    `after` and `inputs` may also name tasks that are there already, by their ids. `inputs` fills
    arguments with outputs: one, or a list of them. `is_placed` where its place in the plan stands
    for a name.
    """

    name: str
    id: TaskId
    fields: Mapping[str, Any]
    after: Sequence[str] = ()
    inputs: Mapping[str, Reference] = field(default_factory=dict)
    is_placed: bool = False

    @property
    def given_name(self) -> str | None:
        """Its name, if its producer has given one: its place or its id only stands for one."""
        return None if self.is_placed or self.name == self.id else self.name


@dataclass(frozen=True, slots=True)
class Plan:
    """A DAG as its producer describes it. The ids are made with it: submitted twice, it is one."""

    id: DagId
    spec: DagSpec
    tasks: Sequence[PlanTask]
    on_complete: Plan | None = None

    def __post_init__(self) -> None:
        refuse_endless(self, lambda one: one.on_complete)

    @classmethod
    def parse(cls, given: object, ulids: Callable[[int], Sequence[str]] = IDS.ulids) -> Self:
        """The plan that a mapping describes, as YAML and JSON give it; `ulids` makes the ids that
        it does not give. Raises InvalidTask.
        """
        if not isinstance(given, Mapping):
            raise InvalidTask("dag", "is a mapping with `tasks`")
        refuse_endless(given, named_next)
        if "tasks" not in given:
            raise InvalidTask("tasks", f"is missing; it {EMPTY}")
        rows = given["tasks"]
        if not isinstance(rows, Sequence) or isinstance(rows, str | bytes) or not rows:
            raise InvalidTask("tasks", EMPTY)
        spec = DagSpec.parse({key: value for key, value in given.items() if key not in WHOLE})
        own, *fresh = ulids(1 + len(rows))
        id = DagId.parse(given["id"]) if "id" in given else DagId.from_ulid(own)
        tasks = [task_of(row, at, TaskId.from_ulid(fresh[at])) for at, row in enumerate(rows)]
        following = given.get("on_complete")
        with within("on_complete"):
            after = None if following is None else cls.parse(following, ulids)
        return cls(id, spec, tasks, after)

    def signed(self, by: str) -> Plan:
        """The same plan, all of it by this creator where it names none; nobody is ""."""
        if not by:
            return self
        tasks = [
            replace(task, fields={**task.fields, "created_by": task.fields.get("created_by") or by})
            for task in self.tasks
        ]
        following = None if self.on_complete is None else self.on_complete.signed(by)
        return replace(self, spec=self.spec.signed(by), tasks=tasks, on_complete=following)

    def text(self) -> str:
        """The plan as JSON that `parse` reads, ids included."""
        return to_json(self.as_data()).decode()

    def as_data(self) -> dict[str, Any]:
        """The plan as JSON values."""
        found: dict[str, Any] = {
            "id": self.id,
            **self.spec.model_dump(mode="json", exclude_none=True),
            "tasks": [
                {
                    **task.fields,
                    **({} if task.is_placed else {"name": task.name}),
                    "id": task.id,
                    "after": list(task.after),
                    "inputs": dict(task.inputs),
                }
                for task in self.tasks
            ],
        }
        if self.on_complete is not None:
            found["on_complete"] = self.on_complete.as_data()
        return found

    def edges(self) -> Edges:
        """What each task waits for, inputs included: by name, or by the id of a task that is there
        already; raises InvalidGraph where a name or an id is there twice.
        """
        found: dict[str, list[str]] = {task.name: [] for task in self.tasks}
        own = {task.id: task.name for task in self.tasks}
        for what, given in (("name", found), ("id", own)):
            if len(given) < len(self.tasks):
                twice = repeated(getattr(task, what) for task in self.tasks)
                raise InvalidGraph(f"two tasks have the same {what}", (twice, twice))

        def known(name: str) -> str:
            id = None if name in found else id_in(name)
            return name if id is None else own.get(id, id)

        for task in self.tasks:
            above = map(known, [*task.after, *inputs_of(task)])
            found[task.name] = list(dict.fromkeys(above))
        return found

    def checked(self, *, max_nodes: int, max_edges: int) -> list[PlanTask]:
        """The tasks, each after its parents; raises InvalidGraph where there is no such order, a
        parent is neither in the plan nor an id, or there are too many.
        """
        if not self.tasks:
            raise InvalidTask("tasks", EMPTY)
        edges = self.edges()
        number = sum(map(len, edges.values()))
        if len(edges) > max_nodes:
            rule = f"has {len(edges)} tasks; {max_nodes} are allowed (max_dag_nodes)"
            raise InvalidGraph(rule, (self.id,))
        if number > max_edges:
            rule = f"has {number} edges; {max_edges} are allowed (max_dag_edges)"
            raise InvalidGraph(rule, (self.id,))
        outside = {name for above in edges.values() for name in above if isinstance(name, TaskId)}
        by_name = {task.name: task for task in self.tasks}
        order = [by_name[name] for name in ordered(edges, known=outside)]
        return [replace(task, after=edges[task.name]) for task in order]


def task_of(row: object, at: int, fresh: TaskId) -> PlanTask:
    """One task of a plan's list; without a name its place is its name."""
    place = f"tasks[{at}]"
    if not isinstance(row, Mapping):
        raise InvalidTask(place, "is a mapping with at least a `type`")
    name, after, inputs = row.get("name", str(at)), row.get("after", ()), row.get("inputs", {})
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise InvalidTask(f"{place}.name", NAME_RULE)
    if not is_named(after):
        raise InvalidTask(f"{place}.after", "is a list of names")
    if not isinstance(inputs, Mapping) or not all(map(is_named, inputs.values())):
        raise InvalidTask(f"{place}.inputs", "is a mapping of arguments to names or lists of them")
    fields = {str(key): value for key, value in row.items() if key not in OWN}
    with within(place):
        id = TaskId.parse(row["id"]) if "id" in row else fresh
    above = [after] if isinstance(after, str) else list(after)
    return PlanTask(name, id, fields, above, inputs, is_placed="name" not in row)


@contextmanager
def within(part: str) -> Iterator[None]:
    """Lets an InvalidTask name the part of a plan that it is about, too."""
    try:
        yield
    except InvalidTask as error:
        raise InvalidTask(f"{part}.{error.field}", error.rule) from error


def refuse_endless(one: Any, next_of: Callable[[Any], object]) -> None:
    """Raises InvalidTask where more DAGs follow one another than may, or one follows itself."""
    for _ in range(MAX_FOLLOWERS + 1):
        one = next_of(one)
        if one is None:
            return
    rule = f"at most {MAX_FOLLOWERS} DAGs may follow one another; submit the rest from a task"
    raise InvalidTask("on_complete", rule)


def named_next(given: object) -> object:
    """What follows a plan that is not read yet."""
    return given.get("on_complete") if isinstance(given, Mapping) else None


def inputs_of(task: PlanTask) -> list[str]:
    """The names of the tasks whose outputs a task is given."""
    return [name for given in task.inputs.values() for name in listed(given)]


def is_named(given: object) -> bool:
    """Whether it is a name, or a list of names."""
    return isinstance(given, Sequence) and all(isinstance(one, str) for one in given)


def id_in(name: str) -> TaskId | None:
    """The id that a name is, if it is one."""
    try:
        return TaskId.parse(name)
    except InvalidTask:
        return None


def repeated(names: Iterable[str]) -> str:
    """A name that is there more than once."""
    return next(name for name, number in Counter(names).items() if number > 1)


def resolved(inputs: Mapping[str, Reference], ids: Mapping[str, TaskId]) -> dict[str, Any]:
    """Inputs as a task's definition keeps them: references to outputs by ids."""

    def reference(name: str) -> str:
        return output_of(ids[name] if name in ids else TaskId.parse(name))

    return {
        argument: reference(given) if isinstance(given, str) else [reference(one) for one in given]
        for argument, given in inputs.items()
    }
