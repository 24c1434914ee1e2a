"""The scripts of who works and who is sent home, spoken by the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.reference.records import Said

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.verbs.words import Asked, Reply


def register(model: Model, asked: Asked) -> Reply:
    """Keeps what a worker says of itself; whether it is to drain."""
    run = asked.text("run")
    live = live_of(model, asked.text("worker"))
    live[run] = Said(model.now_ms, model.now_ms + asked.number("lease_ms"), asked.text("facts"))
    model.runs[asked.text("worker")] = live
    return ["DRAINING" if run in model.drained else "OK"]


def leave(model: Model, asked: Asked) -> Reply:
    """Forgets a run that has ended."""
    model.runs.get(asked.text("worker"), {}).pop(asked.text("run"), None)
    model.drained.discard(asked.text("run"))
    return ["OK"]


def drain(model: Model, asked: Asked) -> Reply:
    """Hands out nothing more to those who run under a name, and tells them."""
    runs = live_of(model, asked.text("worker"))
    if asked.text("why") and runs.keys() - model.drained:
        model.blamed[asked.text("worker")] = model.now_ms
    for run in runs.keys() - model.drained:
        model.drained.add(run)
        waiter = model.waiters.get(run)
        if waiter is not None:
            model.mail(waiter.claim.box, f"drain {run}")
    return ["OK", len(runs)] if runs else ["GONE"]


def live_of(model: Model, worker: str) -> dict[str, Said]:
    """The runs of a name that are not silent for too long."""
    found = model.runs.get(worker, {})
    return {run: said for run, said in found.items() if said.until_ms >= model.now_ms}


def listed(model: Model, asked: Asked) -> Reply:
    """Who works here; when they were heard of is known of their registrations alone."""
    rows = []
    for name, runs in model.runs.items():
        kept = {f"run:{run}": " ".join(map(str, said)) for run, said in runs.items()}
        kept |= {f"drain:{run}": "0" for run in runs.keys() & model.drained}
        kept |= {} if runs else {"left": "0"}
        kept |= {"blamed": str(model.blamed[name])} if name in model.blamed else {}
        seen_ms = max((said.seen_ms for said in runs.values()), default=0)
        rows.append([name, str(seen_ms), [word for pair in kept.items() for word in pair]])
    return ["OK", str(model.now_ms), *rows[: asked.number("limit")]]
