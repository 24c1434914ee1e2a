"""Building a DAG: tasks are added one by one and submitted together, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, overload

from rqueue.client.dags import DagHandle, DagHome, Node
from rqueue.client.door import name_of
from rqueue.client.handle import Handle
from rqueue.errors import InvalidGraph, InvalidTask
from rqueue.model.call import Call, written
from rqueue.model.ids import TaskId, new_dag_id, new_task_id
from rqueue.model.plan import Plan, PlanTask, refuse_endless
from rqueue.model.reference import PREVIOUS, Reference, divided, task_in

if TYPE_CHECKING:
    from rqueue.model.dag import DagSpec

Asked = Call | Mapping[str, Any]
After = Handle | str | Iterable[Handle | str]


class Callee(Protocol):
    """A function that is a task, as `queue.task` makes it."""

    def call(self, *args: Any, **kwargs: Any) -> Call: ...


Maker = Callee | Callable[[Any], Call]


class DagBuilder(DagHandle):
    """A DAG while it is built, and its handle from then on. As a context manager it is submitted
    at the end of the block, and not at all where that raises.
    """

    def __init__(
        self, spec: DagSpec, queue: DagHome, *, on_complete: Plan | DagBuilder | None = None
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
        """Submits it, whole or not at all; sent again, it is the same one. Raises InvalidGraph,
        InvalidTask and the other SubmitErrors.
        """
        await self.queue.submit_plan(self.plan())
        self.submitted = True

    def plan(self) -> Plan:
        """What was built so far."""
        refuse_endless(self, lambda one: one.following if isinstance(one, DagBuilder) else None)
        following = self.following
        if isinstance(following, DagBuilder):
            following = following.plan()
        return Plan(self.id, self.spec, list(self.planned.values()), following)

    def add(
        self, call: Asked, *, name: str | None = None, after: After = (), **options: Any
    ) -> Node:
        """Adds a task that runs after others: nodes, names, handles or ids of tasks that are there
        already. An output among its arguments says the same. Options are the task's own, such as
        `trigger`, and stand above those of the call.
        """
        if self.submitted:
            raise InvalidGraph("is submitted: what runs may add to it by ctx.spawn", (self.id,))
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
        above = [self.name_of(one) for one in several(after)]
        self.planned[known] = PlanTask(known, id, fields, above, given)
        self.names[id] = known
        return Node(id, self.queue, name)

    def named(self, argument: str, reference: str) -> str:
        """The name of the task whose output fills an argument."""
        task = task_in(reference)
        if task is None:
            rule = "stands for an output only in a chain, a chord or what a map is gathered into"
            raise InvalidTask(f"arguments.{argument}", f"`previous` {rule}")
        return self.names.get(task, task)

    def name_of(self, one: Handle | str) -> str:
        """The name, here, of a task that others are to run after."""
        if isinstance(one, Handle):
            return self.names.get(one.id, one.id)
        if isinstance(one, str):
            return one
        raise InvalidTask("after", f"holds nodes, handles, names and ids, not {one!r:.100}")

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
        """Adds one task per item, made by a task function or by any function that gives a call;
        with `into`, also one that is given the list of their outputs, which is returned then.
        """
        make, above = maker(function), several(after)
        nodes = [self.add(make(item), after=above) for item in items]
        if into is None:
            return nodes
        return self.gather(nodes, into, after=() if nodes else above)

    def gather(self, nodes: Iterable[Handle], into: Call | Maker, *, after: After = ()) -> Node:
        """Adds a task that is given the list of the outputs of others: by its first argument, or
        where `previous` stands in a call.
        """
        all_of = list(nodes)
        call = into if isinstance(into, Call) else maker(into)([node.output for node in all_of])
        outputs = [node.output.reference for node in all_of]
        return self.add(replaced(call, outputs), after=[*several(after), *all_of])

    def chain(self, *calls: Asked, after: After = ()) -> list[Node]:
        """Adds tasks that run one after the other; `previous` as an argument is the output of the
        one before.
        """
        nodes: list[Node] = []
        for call in calls:
            if nodes:
                last = nodes[-1]
                nodes.append(self.add(replaced(call, last.output.reference), after=last))
            else:
                nodes.append(self.add(call, after=after))
        return nodes


def parts_of(asked: Asked, options: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The fields of a task, and apart from them the references that fill its arguments."""
    call = asked if isinstance(asked, Call) else written(asked)
    fields = call.with_options(**options).fields()
    inputs = dict(fields.pop("inputs", {}))
    if isinstance(fields.get("payload"), Mapping):
        fields["payload"], later = divided(fields["payload"])
        inputs |= later
    return fields, inputs


def replaced(asked: Asked, by: Reference) -> Call:
    """The call with outputs in the place of `previous`."""
    fields, inputs = parts_of(asked, {})
    found = {name: by if one == PREVIOUS else one for name, one in inputs.items()}
    return written({**fields, "inputs": found} if found else fields)


def maker(function: Maker) -> Callable[[Any], Call]:
    """What makes a call of an item."""
    given: Any = function
    found: Callable[[Any], Call] = getattr(given, "call", given)
    return found


def several(after: After) -> Sequence[Handle | str]:
    """One or several."""
    return [after] if isinstance(after, Handle | str) else list(after)
