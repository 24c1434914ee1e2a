"""The moves of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.reference.records import Registration

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.moves.call import Call, Reply


def register(model: Model, call: Call) -> Reply:
    """Registers a worker. Returns whether it must drain."""
    run = call.text("run")
    live = live_of(model, call.text("worker"))
    live[run] = Registration(
        model.now_ms, model.now_ms + call.number("lease_ms"), call.text("facts")
    )
    model.runs[call.text("worker")] = live
    return ["DRAINING" if run in model.drained else "OK"]


def leave(model: Model, call: Call) -> Reply:
    """Deletes a run that has ended."""
    model.runs.get(call.text("worker"), {}).pop(call.text("run"), None)
    model.drained.discard(call.text("run"))
    return ["OK"]


def drain(model: Model, call: Call) -> Reply:
    """Drains all runs of a worker name, with a message to them."""
    runs = live_of(model, call.text("worker"))
    if call.text("why") and runs.keys() - model.drained:
        model.blamed[call.text("worker")] = model.now_ms
    for run in runs.keys() - model.drained:
        model.drained.add(run)
        waiter = model.waiters.get(run)
        if waiter is not None:
            model.mail(waiter.claim.box, f"drain {run}")
    return ["OK", len(runs)] if runs else ["GONE"]


def live_of(model: Model, worker: str) -> dict[str, Registration]:
    """The runs of a name whose registration has not expired."""
    found = model.runs.get(worker, {})
    return {
        run: registration
        for run, registration in found.items()
        if registration.until_ms >= model.now_ms
    }


def listed(model: Model, call: Call) -> Reply:
    """All workers; they are seen at their registrations only."""
    rows = []
    for name, runs in model.runs.items():
        kept = {
            f"run:{run}": " ".join(map(str, registration)) for run, registration in runs.items()
        }
        kept |= {f"drain:{run}": "0" for run in runs.keys() & model.drained}
        kept |= {} if runs else {"left": "0"}
        kept |= {"blamed": str(model.blamed[name])} if name in model.blamed else {}
        seen_ms = max((registration.seen_ms for registration in runs.values()), default=0)
        rows.append([name, str(seen_ms), [word for pair in kept.items() for word in pair]])
    return ["OK", str(model.now_ms), *rows[: call.number("limit")]]
