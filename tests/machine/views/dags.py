"""Views of DAGs and dependencies, of the server and of the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rqueue.task.state import State
from tests.machine.server_shard import Dump, times
from tests.machine.views.budgets import BUDGET_FIELDS
from tests.reference.model import Model
from tests.reference.moves.dags import fields_of

# Stands for the dependencies of a task that is about to be cancelled: which of them are left
# depends on the order in which they ended.
ANY_DEPENDENCY = "@cancelled"


def dag_in(flags: str) -> str:
    """The DAG in the flags of a task: flags are lower case, ids are not."""
    return "".join(letter for letter in flags if not letter.islower())


def server_edges(dump: Dump) -> dict[str, Any]:
    """Dependents by completion and by end. A task that is about to be cancelled is not compared.
    After a failure, or before a wait begins, a task may still be listed at dependencies that it
    does not wait for.
    """
    cancelled = set(dump.content.get("cancelling", {}))
    cancelled |= {task for task, found in dump.named("task:").items() if "lost" in found}
    dependents = {
        parent: set(found) - cancelled - about_to_wait(dump, parent, found)
        for parent, found in dump.named("dependents:").items()
    }
    end_dependents = {
        parent: {
            child: kind
            for child, kind in found.items()
            if child not in cancelled and parent in waits_of(dump, child)
        }
        for parent, found in dump.named("heirs:").items()
    }
    return {
        "waits": {
            task: found & {"@time"} | {ANY_DEPENDENCY} if task in cancelled else found
            for task, found in dump.named("waits:").items()
        },
        "dependents": {parent: found for parent, found in dependents.items() if found},
        "end_dependents": {parent: found for parent, found in end_dependents.items() if found},
    }


def about_to_wait(dump: Dump, parent: str, tasks: Iterable[str]) -> set[str]:
    """The tasks that will wait for a task, and do not yet."""
    gathering = dump.named("gather:")
    return {
        task for task in tasks
        if parent in gathering.get(task, ()) and parent not in waits_of(dump, task)
    }  # fmt: skip


def waits_of(dump: Dump, task: str) -> set[str]:
    found: set[str] = dump.content.get(f"waits:{task}", set())
    return found


def server_dags(dump: Dump) -> dict[str, Any]:
    """The hashes of DAGs and the lists that contain them."""
    content, dags = dump.content, dump.named("dag:")
    return {
        "dags": {
            dag: {
                **{name: value for name, value in found.items() if name not in BUDGET_FIELDS},
                "expires": str(f"dag:{dag}" in dump.expiring),
            }
            for dag, found in dags.items()
        },
        "members": dump.named("members:"),
        "listed": times(content.get("dags", {})),
        "writing": times(content.get("writing", {})),
        "held": dump.named("held:"),
    }


def model_edges(model: Model) -> dict[str, Any]:
    """Dependents by completion and by end, without tasks that are about to be cancelled."""
    dependents: dict[str, set[str]] = {}
    end_dependents: dict[str, dict[str, str]] = {}
    waits: dict[str, set[str]] = {}
    tasks = set(model.tasks)
    for record in model.tasks.values():
        cancelled = record.id in model.cancelling or record.doomed
        if record.waits:
            waits[record.id] = (
                record.waits & {"@time"} | {ANY_DEPENDENCY} if cancelled else record.waits
            )
        # While a DAG is dropped, tasks are deleted before their dependents.
        for parent in record.waits & tasks if not cancelled else ():
            if record.trigger == "all_success":
                dependents.setdefault(parent, set()).add(record.id)
            else:
                end_dependents.setdefault(parent, {})[record.id] = record.trigger
    return {"waits": waits, "dependents": dependents, "end_dependents": end_dependents}


def model_dags(model: Model) -> dict[str, Any]:
    """The DAGs and the lists that contain them."""
    graphs = model.dags.values()
    held: dict[str, set[str]] = {}
    for record in model.among(State.READY):
        if record.held and not record.unpaid:
            held.setdefault(record.dag, set()).add(record.id)
    return {
        "dags": {
            graph.id: {**fields_of(model, graph), "expires": str(graph.expires_ms is not None)}
            for graph in graphs
        },
        "members": {graph.id: graph.members for graph in graphs if graph.members},
        "listed": {graph.id: graph.listed_ms for graph in graphs if graph.status != "writing"},
        "writing": {graph.id: graph.written_ms for graph in graphs if graph.status == "writing"},
        "held": held,
    }
