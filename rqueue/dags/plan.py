"""Plans: DAGs before they are submitted, with named tasks, dependencies and a follow-up DAG."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from pydantic_core import to_json

from rqueue.core.reader import outputs
from rqueue.dags import store as dag_store
from rqueue.dags.graph import Edges, ordered, ranks
from rqueue.dags.submit import DagDraft, Node, dependents, letters
from rqueue.errors import DagNotFound, InvalidGraph, InvalidTask
from rqueue.task.dag import DagSpec
from rqueue.task.fields import NAME, NAME_RULE, micro_usd, task_reference
from rqueue.task.ids import IDS, DagId, TaskId
from rqueue.task.lane import micro
from rqueue.task.references import Reference, as_list, output_of
from rqueue.task.spec import call_of
from rqueue.task.state import State

if TYPE_CHECKING:
    from rqueue.core.submit import Draft
    from rqueue.producer.drafts import Drafter
    from rqueue.store.library import Argument
    from rqueue.store.shard import Shard


# The keys of a task in a plan that are not fields of the task.
OWN = ("name", "id", "after", "inputs")
WHOLE = ("id", "tasks", "on_complete")
EMPTY = "is a list of at least one task"
# Length limit of a chain of DAGs: each of them is stored and checked with all earlier ones.
MAX_FOLLOWERS = 32


@dataclass(frozen=True, slots=True)
class PlanTask:
    """One task of a plan: its own fields and the names of its dependencies.

    `after` and `inputs` may also contain the ids of existing tasks. `inputs` maps an argument to
    one output or a list of outputs. `is_placed` means that the name is the position in the plan.
    """

    name: str
    id: TaskId
    fields: Mapping[str, Any]
    after: Sequence[str] = ()
    inputs: Mapping[str, Reference] = field(default_factory=dict)
    is_placed: bool = False

    @property
    def given_name(self) -> str | None:
        """The name given by the producer; None if the name is a position or an id."""
        return None if self.is_placed or self.name == self.id else self.name


@dataclass(frozen=True, slots=True)
class Plan:
    """A DAG as its producer describes it. It contains the ids, so that a repeated submission
    creates no second DAG.
    """

    id: DagId
    spec: DagSpec
    tasks: Sequence[PlanTask]
    on_complete: Plan | None = None

    def __post_init__(self) -> None:
        refuse_long_chain(self, lambda one: one.on_complete)

    @classmethod
    def parse(cls, given: object, ulids: Callable[[int], Sequence[str]] = IDS.ulids) -> Self:
        """Returns the plan in a mapping that was parsed from YAML or JSON. `ulids` generates
        missing ids. Raises InvalidTask.
        """
        if not isinstance(given, Mapping):
            raise InvalidTask("dag", "is a mapping with `tasks`")
        refuse_long_chain(given, named_next)
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
        """Returns the plan with `by` as the default of `created_by`. "" leaves the plan
        unchanged.
        """
        if not by:
            return self
        tasks = [
            replace(task, fields={**task.fields, "created_by": task.fields.get("created_by") or by})
            for task in self.tasks
        ]
        following = None if self.on_complete is None else self.on_complete.signed(by)
        return replace(self, spec=self.spec.signed(by), tasks=tasks, on_complete=following)

    def text(self) -> str:
        """Returns the plan as JSON for `parse`, ids included."""
        return to_json(self.as_data()).decode()

    def as_data(self) -> dict[str, Any]:
        """Returns the plan as JSON values."""
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
        """Returns the dependencies of each task, inputs included: names, or ids of existing tasks.
        Raises InvalidGraph if a name or an id occurs twice.
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
        """Returns the tasks in topological order. Raises InvalidGraph for a cycle, an unknown
        dependency, or too many tasks or edges.
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
    """Returns one task of a plan's list. Its default name is its position."""
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
    """Prefixes the field name of an InvalidTask with a part of the plan."""
    try:
        yield
    except InvalidTask as error:
        raise InvalidTask(f"{part}.{error.field}", error.rule) from error


def refuse_long_chain(one: Any, next_of: Callable[[Any], object]) -> None:
    """Raises InvalidTask if the chain of follow-up DAGs is too long or has a cycle."""
    for _ in range(MAX_FOLLOWERS + 1):
        one = next_of(one)
        if one is None:
            return
    rule = f"at most {MAX_FOLLOWERS} DAGs may follow one another; submit further ones from a task"
    raise InvalidTask("on_complete", rule)


def named_next(given: object) -> object:
    """Returns the follow-up of a plan that is not parsed yet."""
    return given.get("on_complete") if isinstance(given, Mapping) else None


def inputs_of(task: PlanTask) -> list[str]:
    """Returns the names of the tasks whose outputs a task receives."""
    return [name for given in task.inputs.values() for name in as_list(given)]


def is_named(given: object) -> bool:
    """Returns whether the value is a name or a list of names."""
    return isinstance(given, Sequence) and all(isinstance(one, str) for one in given)


def id_in(name: str) -> TaskId | None:
    """Returns the name as a task id; None if it is not one."""
    try:
        return TaskId.parse(name)
    except InvalidTask:
        return None


def repeated(names: Iterable[str]) -> str:
    """Returns the first name that occurs more than once."""
    return next(name for name, number in Counter(names).items() if number > 1)


def resolved(inputs: Mapping[str, Reference], ids: Mapping[str, TaskId]) -> dict[str, Any]:
    """Returns inputs as stored in a task's definition: references to outputs by task id."""

    def reference(name: str) -> str:
        return output_of(ids[name] if name in ids else TaskId.parse(name))

    return {
        argument: reference(given) if isinstance(given, str) else [reference(one) for one in given]
        for argument, given in inputs.items()
    }


ONCE = "is not allowed for a task of a DAG, because a DAG is submitted only once"
REFUSED = {
    **dict.fromkeys(("idempotency_key", "dedupe", "dedupe_fields"), ONCE),
    "depends_on": "is not allowed in a DAG; use `after` with task names of the plan or task ids",
    "dag_id": "is not allowed for a task of a DAG; set the `id` of the DAG instead",
}
MISSING = "depends on a task that does not exist or was cancelled"


def dag_draft_of(plan: Plan | str, drafter: Drafter) -> DagDraft:
    """Returns the draft of a plan or of its JSON. Raises InvalidTask and InvalidGraph."""
    if isinstance(plan, str):
        plan = Plan.parse(json.loads(plan))
    settings = drafter.settings
    tasks = plan.checked(max_nodes=settings.max_dag_nodes, max_edges=settings.max_dag_edges)
    ids = {task.name: task.id for task in tasks}
    drafts = {task.name: drafted(task, ids, drafter) for task in tasks}
    refuse_repeated_external_ids(tasks)
    boosts = ranks({task.name: task.after for task in tasks})
    edges = {task.name: [name for name in task.after if name in ids] for task in tasks}
    triggered = {name for name, draft in drafts.items() if is_triggered(draft)}
    flags, below = letters(edges, triggered), dependents(edges, triggered)
    nodes = []
    for task in tasks:
        rank, draft = micro(boosts[task.name]), drafts[task.name]
        nodes.append(
            Node(
                task.id,
                draft._replace(base=draft.base - rank),
                task.name,
                dependencies=[ids[name].ulid for name in edges[task.name]],
                outside=[name[-26:] for name in task.after if name not in ids],
                flags=flags[task.name],
                rank=rank,
                below=ids[below[task.name]].ulid if task.name in below else "",
            )
        )
    spec, following = plan.spec.signed(drafter.by), plan.on_complete
    if following is not None:
        refuse_repeated_ids(plan)
        # The scheduler submits the follow-up later. It is signed and validated now.
        following = following.signed(drafter.by)
        with within("on_complete"):
            dag_draft_of(following, drafter)
    facts, follow = facts_of(spec, following), "" if following is None else following.text()
    principals = (drafter.by or spec.created_by, *(node.draft.by for node in nodes))
    by = tuple(dict.fromkeys(one for one in principals if one))
    return DagDraft(plan.id, facts, nodes, follow, by)


def refuse_repeated_external_ids(tasks: Sequence[PlanTask]) -> None:
    """Raises InvalidGraph if two tasks have the same external id."""
    seen: dict[str, str] = {}
    for task in tasks:
        given = task.fields.get("external_id")
        own = None if given is None else task_reference(given)
        if own is not None and seen.setdefault(own, task.name) != task.name:
            raise InvalidGraph("two tasks have the same external_id", (seen[own], task.name))


def refuse_repeated_ids(plan: Plan) -> None:
    """Raises InvalidGraph if an id occurs twice in a plan and its follow-ups."""
    seen: set[str] = set()
    one: Plan | None = plan
    while one is not None:
        for id in (one.id, *(task.id for task in one.tasks)):
            if id in seen:
                raise InvalidGraph("a follow-up DAG repeats an id", (plan.id, id))
            seen.add(id)
        one = one.on_complete


async def refuse_missing(shard: Shard, plan: Plan, found: DagDraft) -> None:
    """Raises InvalidGraph if a task depends on an existing task that is missing or cancelled. This
    check avoids writing a part of the DAG; the move checks again.
    """
    outside = list(dict.fromkeys(one for node in found.nodes for one in node.outside))
    if not outside:
        return
    states = dict(zip(outside, await outputs(shard, outside), strict=True))
    names = {task.id: task.name for task in plan.tasks}
    for node in found.nodes:
        for one in node.outside:
            state = states[one].state
            if state is None or (state is State.CANCELLED and not is_triggered(node.draft)):
                if await is_taken(shard, found.id):
                    return
                raise InvalidGraph(MISSING, (names[node.id], TaskId.from_ulid(one)))


async def is_taken(shard: Shard, dag: DagId) -> bool:
    """Returns whether a DAG with this id exists. A repeated submission is not checked a second
    time.
    """
    try:
        await dag_store.read(shard, dag)
    except DagNotFound:
        return False
    return True


def is_triggered(draft: Draft) -> bool:
    """Returns whether a task has a trigger other than the success of its dependencies."""
    return bool(draft.more) and "trigger" in json.loads(draft.more)


def drafted(task: PlanTask, ids: Mapping[str, TaskId], drafter: Drafter) -> Draft:
    """Returns the draft of one task. Its definition contains only dependencies outside the DAG. The
    DAG and the dependencies inside it are stored separately, so that the definition is as short as
    that of a single task.
    """
    outside = [name for name in task.after if name not in ids]
    drafter.refuse_many(f"{task.name}.after", len(outside))
    for name in REFUSED.keys() & task.fields.keys():
        raise InvalidTask(f"{task.name}.{name}", REFUSED[name])
    given = dict(task.fields)
    if task.given_name is not None:
        given["name"] = task.given_name
    if outside:
        given["depends_on"] = [ids.get(name, name) for name in task.after]
    if task.inputs:
        given["inputs"] = resolved(task.inputs, ids)
    with within(task.name):
        return drafter.of_member(call_of(given))


def facts_of(spec: DagSpec, following: Plan | None) -> list[Argument]:
    """Returns the stored fields of the DAG itself, names and values alternating."""
    found: dict[str, Argument | None] = {
        "title": spec.title,
        "created_by": spec.created_by,
        "on_failure": spec.on_failure,
        "threshold": None if spec.failure_threshold is None else repr(spec.failure_threshold),
        "budget": None if spec.budget_usd is None else micro_usd(spec.budget_usd),
        "spawn": spec.spawn,
        "follow": None if following is None else following.id.ulid,
    }
    kept = {name: value for name, value in found.items() if value is not None}
    return [word for pair in kept.items() for word in pair]
