"""The scripts of breakers and slow-downs, spoken by the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.reference import breaking, claiming, gating

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.verbs.words import Asked, Reply


def opened(model: Model, asked: Asked) -> Reply:
    """Gives a type a rest."""
    breaking.open_for(model, asked.text("type"), asked.number("for_ms"))
    return ["OK"]


def closed(model: Model, asked: Asked) -> Reply:
    """Lets a type be handed out again; who waited is answered."""
    touched = breaking.close(model, asked.text("type"))
    if touched:
        claiming.answer(model, touched)
    return ["OK", 0]


def read(model: Model, _: Asked) -> Reply:
    """All that have something to tell."""
    rows = [row_of(model, type, found) for type, found in sorted(model.breakers.items())]
    return ["OK", str(model.now_ms), *rows]


def row_of(model: Model, type: str, found: breaking.Breaker) -> list[str]:
    """A breaker as the server tells of it."""
    row = [type, str(int(gating.rides(model, found.probe)))]
    if found.failures:
        row += ["failures", str(found.failures), "last_failure", str(found.last_failure_ms)]
    if found.state:
        row += ["state", found.state, "opened", str(found.opened_ms), "until", str(found.until_ms)]
    if found.probe is not None:
        row += ["probe", " ".join(found.probe)]
    return row


def slowed(model: Model, _: Asked) -> Reply:
    """All that are slowed down, in one page."""
    rows = [[what, str(row.until_ms), str(row.span_ms)] for what, row in model.slowed.items()]
    return ["OK", "0", str(model.now_ms), *rows]


def lifted(model: Model, asked: Asked) -> Reply:
    """Ends the rest of a type or key; who waited is answered."""
    touched = breaking.lift(model, asked.text("what"))
    if touched:
        claiming.answer(model, touched)
    return ["OK", 0, int(touched is not None)]
