"""From a plan to what the store is sent: every task drafted, ordered and ranked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rqueue.errors import DagNotFound, InvalidGraph, InvalidTask
from rqueue.model.call import written
from rqueue.model.field import task_reference
from rqueue.model.ids import TaskId
from rqueue.model.lane import micro
from rqueue.model.money import micro_usd
from rqueue.model.plan import Plan, PlanTask, resolved, within
from rqueue.model.state import State
from rqueue.policy.path import ranks
from rqueue.store import dags
from rqueue.store.outputs import outputs
from rqueue.store.planting import Node, Planting, dependents, letters

if TYPE_CHECKING:
    from rqueue.client.drafts import Drafter
    from rqueue.model.dag import DagSpec
    from rqueue.model.ids import DagId
    from rqueue.store.scripts import Argument
    from rqueue.store.shard import Shard
    from rqueue.store.submits import Draft

# What makes a task the same as another has no meaning for one that belongs to a DAG.
ONCE = "is not for a task of a DAG, which is submitted once anyway"
REFUSED = {
    **dict.fromkeys(("idempotency_key", "dedupe", "dedupe_fields"), ONCE),
    "depends_on": "is `after` for a task of a DAG: names of its tasks, or ids of others",
    "dag_id": "is not for a task of a DAG, whose `id` stands beside its `tasks`",
}
NOT_THERE = "depends on a task that is not there or was cancelled"


def planting_of(plan: Plan | str, drafter: Drafter) -> Planting:
    """The DAG that a plan, or its text, means; raises InvalidTask and InvalidGraph."""
    if isinstance(plan, str):
        plan = Plan.parse(json.loads(plan))
    settings = drafter.settings
    tasks = plan.checked(max_nodes=settings.max_dag_nodes, max_edges=settings.max_dag_edges)
    ids = {task.name: task.id for task in tasks}
    drafts = {task.name: drafted(task, ids, drafter) for task in tasks}
    refuse_namesakes(tasks)
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
                parents=[ids[name].ulid for name in edges[task.name]],
                outside=[name[-26:] for name in task.after if name not in ids],
                flags=flags[task.name],
                rank=rank,
                below=ids[below[task.name]].ulid if task.name in below else "",
            )
        )
    spec, following = plan.spec.signed(drafter.by), plan.on_complete
    if following is not None:
        refuse_twins(plan)
        # Refused now, not when this one has completed; whoever submits it then is not its creator.
        following = following.signed(drafter.by)
        with within("on_complete"):
            planting_of(following, drafter)
    facts, follow = facts_of(spec, following), "" if following is None else following.text()
    askers = (drafter.by or spec.created_by, *(node.draft.by for node in nodes))
    by = tuple(dict.fromkeys(one for one in askers if one))
    return Planting(plan.id, facts, nodes, follow, by)


def refuse_namesakes(tasks: Sequence[PlanTask]) -> None:
    """Raises InvalidGraph where two tasks have the same id of their producer."""
    seen: dict[str, str] = {}
    for task in tasks:
        given = task.fields.get("external_id")
        own = None if given is None else task_reference(given)
        if own is not None and seen.setdefault(own, task.name) != task.name:
            raise InvalidGraph("two tasks have the same external_id", (seen[own], task.name))


def refuse_twins(plan: Plan) -> None:
    """Raises InvalidGraph where an id is there twice in a plan and those that follow it."""
    seen: set[str] = set()
    one: Plan | None = plan
    while one is not None:
        for id in (one.id, *(task.id for task in one.tasks)):
            if id in seen:
                raise InvalidGraph("what follows has the id of what it follows", (plan.id, id))
            seen.add(id)
        one = one.on_complete


async def refuse_missing(shard: Shard, plan: Plan, found: Planting) -> None:
    """Raises InvalidGraph where a task is to wait for one that is not there or was cancelled:
    before anything is written, and the script looks again.
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
                raise InvalidGraph(NOT_THERE, (names[node.id], TaskId.from_ulid(one)))


async def is_taken(shard: Shard, dag: DagId) -> bool:
    """Whether a DAG is there: one that is sent again is judged by what was so the first time."""
    try:
        await dags.read(shard, dag)
    except DagNotFound:
        return False
    return True


def is_triggered(draft: Draft) -> bool:
    """Whether a task runs by something else than the success of its parents."""
    return bool(draft.more) and "trigger" in json.loads(draft.more)


def drafted(task: PlanTask, ids: Mapping[str, TaskId], drafter: Drafter) -> Draft:
    """The draft of one task. Its DAG and its parents there are kept beside its definition, which
    stays as short as a single task's; only parents outside stand in it.
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
        return drafter.of_member(written(given))


def facts_of(spec: DagSpec, following: Plan | None) -> list[Argument]:
    """What is kept of the DAG itself: names and values in turn."""
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
