"""The builder of DAGs: tasks are added one by one and submitted together, all or none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self, overload

from rqueue.dags import submit as dag_submit
from rqueue.dags.handle import DagHandle, DagQueue, Node
from rqueue.dags.plan import Plan, PlanTask, dag_draft_of, refuse_long_chain, refuse_missing, within
from rqueue.errors import InvalidGraph, InvalidTask
from rqueue.producer.arguments import name_of
from rqueue.producer.handle import Handle
from rqueue.task.ids import TaskId, new_dag_id, new_task_id
from rqueue.task.references import PREVIOUS, Reference, split_arguments, task_in
from rqueue.task.spec import SAME_TASK, Call, call_of

if TYPE_CHECKING:
    from rqueue.task.dag import DagSpec


AnyCall = Call | Mapping[str, Any]
After = Handle | str | Iterable[Handle | str]


class Callee(Protocol):
    """A task function as `queue.task` returns it."""

    def call(self, *args: Any, **kwargs: Any) -> Call: ...


Maker = Callee | Callable[[Any], Call]


class DagBuilder(DagHandle):
    """Builds a DAG. After the submission it is the handle of the DAG. As a context manager it
    submits at the end of the block, unless the block raises.
    """

    def __init__(
        self, spec: DagSpec, queue: DagQueue, *, on_complete: Plan | DagBuilder | None = None
    ) -> None:
        super().__init__(new_dag_id(), queue)
        if not isinstance(on_complete, Plan | DagBuilder | None):
            raise InvalidTask("on_complete", f"is a DAG or a plan, not {on_complete!r:.100}")
        self.spec = spec
        self.following = on_complete
        self.planned: dict[str, PlanTask] = {}
        self.names: dict[TaskId, str] = {}
        self.submitted = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is None:
            await self.submit()

    async def submit(self) -> None:
        """Submits the DAG atomically. A repeated call creates no second DAG. Raises InvalidGraph,
        InvalidTask and the other SubmitErrors.
        """
        await submit_plan(self.queue, self.plan())
        self.submitted = True

    def plan(self) -> Plan:
        """Returns the plan of the tasks added so far."""
        refuse_long_chain(self, lambda one: one.following if isinstance(one, DagBuilder) else None)
        following = self.following
        if isinstance(following, DagBuilder):
            following = following.plan()
        return Plan(self.id, self.spec, list(self.planned.values()), following)

    def add(
        self, call: AnyCall, *, name: str | None = None, after: After = (), **options: Any
    ) -> Node:
        """Adds a task that runs after the tasks in `after`, which are nodes, names, or handles or
        ids of existing tasks. A task whose output is an argument is a dependency too. Options are
        those of the task, such as `trigger`, and override those of the call.
        """
        if self.submitted:
            rule = "is already submitted; a running task can add to it with ctx.spawn"
            raise InvalidGraph(rule, (self.id,))
        id = new_task_id()
        known = str(id) if name is None else name_of("name", name)
        if known in self.planned:
            raise InvalidGraph("two tasks have the same name", (known, known))
        fields, inputs = parts_of(call, options)
        given = {
            argument: self.named(argument, one)
            if isinstance(one, str)
            else [self.named(argument, each) for each in one]
            for argument, one in inputs.items()
        }
        above = [self.name_of(one) for one in as_dependencies(after)]
        self.planned[known] = PlanTask(known, id, fields, above, given)
        self.names[id] = known
        return Node(id, self.queue, name)

    def named(self, argument: str, reference: str) -> str:
        """Returns the name or id of the task whose output fills an argument."""
        task = task_in(reference)
        if task is None:
            rule = "is allowed only in a chain, a chord or the `into` of a map"
            raise InvalidTask(f"arguments.{argument}", f"`previous` {rule}")
        return self.names.get(task, task)

    def name_of(self, one: Handle | str) -> str:
        """Returns the name of a dependency in this DAG, or its id if it is outside."""
        if isinstance(one, Handle):
            return self.names.get(one.id, one.id)
        if isinstance(one, str):
            return one
        raise InvalidTask("after", f"takes nodes, handles, names and ids, not {one!r:.100}")

    @overload
    def map(
        self, function: Maker, items: Iterable[Any], *, after: After = (), into: None = None
    ) -> list[Node]: ...

    @overload
    def map(
        self, function: Maker, items: Iterable[Any], *, after: After = (), into: Call | Maker
    ) -> Node: ...

    def map(
        self,
        function: Maker,
        items: Iterable[Any],
        *,
        after: After = (),
        into: Call | Maker | None = None,
    ) -> list[Node] | Node:
        """Adds one task per item. A task function, or a function that returns a call, makes each of
        them. With `into`, also adds and returns a task that receives the list of their outputs.
        """
        make, above = maker(function), as_dependencies(after)
        nodes = [self.add(make(item), after=above) for item in items]
        if into is None:
            return nodes
        return self.gather(nodes, into, after=() if nodes else above)

    def gather(self, nodes: Iterable[Handle], into: Call | Maker, *, after: After = ()) -> Node:
        """Adds a task that receives the list of the outputs of other tasks, as its first argument
        or in place of `previous` in its call.
        """
        all_of = list(nodes)
        call = into if isinstance(into, Call) else maker(into)([node.output for node in all_of])
        outputs = [node.output.reference for node in all_of]
        return self.add(replaced(call, outputs), after=[*as_dependencies(after), *all_of])

    def chain(self, *calls: AnyCall, after: After = ()) -> list[Node]:
        """Adds tasks that run one after the other. The argument `previous` stands for the output of
        the preceding task.
        """
        nodes: list[Node] = []
        for call in calls:
            if nodes:
                last = nodes[-1]
                nodes.append(self.add(replaced(call, last.output.reference), after=last))
            else:
                nodes.append(self.add(call, after=after))
        return nodes


def parts_of(given: AnyCall, options: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Returns the fields of a task, and separately the references that fill its arguments."""
    call = given if isinstance(given, Call) else call_of(given)
    fields = call.with_options(**options).fields()
    inputs = dict(fields.pop("inputs", {}))
    if isinstance(fields.get("payload"), Mapping):
        fields["payload"], later = split_arguments(fields["payload"])
        inputs |= later
    return fields, inputs


def replaced(given: AnyCall, by: Reference) -> Call:
    """Returns the call with `previous` replaced by outputs."""
    fields, inputs = parts_of(given, {})
    found = {name: by if one == PREVIOUS else one for name, one in inputs.items()}
    return call_of({**fields, "inputs": found} if found else fields)


def maker(function: Maker) -> Callable[[Any], Call]:
    """Returns the function that makes a call from an item."""
    given: Any = function
    found: Callable[[Any], Call] = getattr(given, "call", given)
    return found


def as_dependencies(after: After) -> Sequence[Handle | str]:
    """Returns the dependencies as a list, also if only one is given."""
    return [after] if isinstance(after, Handle | str) else list(after)


UNSET = object()


async def submit_plan(queue: DagQueue, plan: Plan | Mapping[str, Any]) -> DagHandle:
    """Submits a whole DAG. Applies the options of the handlers and the middleware first."""
    known = plan if isinstance(plan, Plan) else Plan.parse(plan)
    whole = await completed(queue, known)
    found = dag_draft_of(whole, queue.drafter)
    await refuse_missing(queue.shard, whole, found)
    await dag_submit.submit(queue.shard, found)
    if queue.hooks.middleware:
        await queue.hooks.after_submit([Node(task.id, queue, task.name) for task in whole.tasks])
    return DagHandle(known.id, queue)


async def completed(queue: DagQueue, plan: Plan) -> Plan:
    """Returns the plan with the options of the handlers and the middleware applied."""
    tasks = [await completed_task(queue, task) for task in plan.tasks]
    following = plan.on_complete
    if following is not None:
        # The scheduler submits it later and has neither these handlers nor this middleware.
        with within("on_complete"):
            following = await completed(queue, following)
    return replace(plan, tasks=tasks, on_complete=following)


async def completed_task(queue: DagQueue, task: PlanTask) -> PlanTask:
    """Returns a task with the options of its handler and the middleware applied. The deduplication
    options of its handler do not apply.
    """
    with within(task.name):
        call = queue.drafter.completed(call_of(task.fields))
    handler = queue.drafter.handlers.get(call.type)
    if handler is not None:
        own = {name: handler.options[name] for name in SAME_TASK if name in handler.options}
        changed = {name: v for name, v in call.options.items() if own.get(name, UNSET) != v}
        call = replace(call, options=changed)
    if queue.hooks.middleware:
        with within(task.name):
            call = await queue.hooks.before_submit(call)
    return replace(task, fields=call.fields())
