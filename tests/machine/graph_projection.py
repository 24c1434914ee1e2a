"""What can be seen of DAGs and edges, in one shape for the server and for the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rqueue.task.state import State
from tests.machine.money_projection import OF_MONEY
from tests.machine.wire import Dump, times
from tests.reference.model import Model
from tests.reference.verbs.dags import fields_of

# What stands for the parents of a task that is about to be given up: which of them are left is a
# matter of the order in which they told it.
UNBLOCK_LIMIT = "@told"


def dag_in(flags: str) -> str:
    """The DAG that flags name: their letters are small, an id is not."""
    return "".join(letter for letter in flags if not letter.islower())


def server_edges(dump: Dump) -> dict[str, Any]:
    """Who waits for completions and for ends. One that is about to be given up is told no more. One
    that waited for a failure and was told of it has left its name with its other parents, and so
    has one that is only about to wait.
    """
    told = set(dump.content.get("cancelling", {}))
    told |= {task for task, found in dump.named("task:").items() if "lost" in found}
    dependents = {
        parent: set(found) - told - about_to_wait(dump, parent, found)
        for parent, found in dump.named("dependents:").items()
    }
    heirs = {
        parent: {
            child: kind
            for child, kind in found.items()
            if child not in told and parent in waits_of(dump, child)
        }
        for parent, found in dump.named("heirs:").items()
    }
    return {
        "waits": {
            task: found & {"@time"} | {UNBLOCK_LIMIT} if task in told else found
            for task, found in dump.named("waits:").items()
        },
        "dependents": {parent: found for parent, found in dependents.items() if found},
        "heirs": {parent: found for parent, found in heirs.items() if found},
    }


def about_to_wait(dump: Dump, parent: str, tasks: Iterable[str]) -> set[str]:
    """Those who are to wait for a task, and do not yet: what they have gathered tells it."""
    gathering = dump.named("gather:")
    return {
        task for task in tasks
        if parent in gathering.get(task, ()) and parent not in waits_of(dump, task)
    }  # fmt: skip


def waits_of(dump: Dump, task: str) -> set[str]:
    found: set[str] = dump.content.get(f"waits:{task}", set())
    return found


def server_dags(dump: Dump) -> dict[str, Any]:
    """The DAGs as their hashes tell of them, and what is listed of them."""
    content, dags = dump.content, dump.named("dag:")
    return {
        "dags": {
            dag: {
                **{name: value for name, value in found.items() if name not in OF_MONEY},
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
    """Who waits for completions and for ends; one that is about to be given up has been told."""
    dependents: dict[str, set[str]] = {}
    heirs: dict[str, dict[str, str]] = {}
    waits: dict[str, set[str]] = {}
    tasks = set(model.tasks)
    for record in model.tasks.values():
        told = record.id in model.cancelling or record.doomed
        if record.waits:
            waits[record.id] = record.waits & {"@time"} | {UNBLOCK_LIMIT} if told else record.waits
        # Of a DAG that is being dropped, parents go before their children.
        for parent in record.waits & tasks if not told else ():
            if record.trigger == "all_success":
                dependents.setdefault(parent, set()).add(record.id)
            else:
                heirs.setdefault(parent, {})[record.id] = record.trigger
    return {"waits": waits, "dependents": dependents, "heirs": heirs}


def model_dags(model: Model) -> dict[str, Any]:
    """The DAGs and what is listed of them."""
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
