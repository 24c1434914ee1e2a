"""The moves of breakers and slow-downs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.reference import breakers, claiming, gates

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.moves.call import Call, Reply


def opened(model: Model, call: Call) -> Reply:
    """Opens the breaker of a type."""
    breakers.open_for(model, call.text("type"), call.number("for_ms"))
    return ["OK"]


def closed(model: Model, call: Call) -> Reply:
    """Closes the breaker of a type and answers waiting claims."""
    touched = breakers.close(model, call.text("type"))
    if touched:
        claiming.answer(model, touched)
    return ["OK", 0]


def read(model: Model, _: Call) -> Reply:
    """All breakers."""
    rows = [row_of(model, type, found) for type, found in sorted(model.breakers.items())]
    return ["OK", str(model.now_ms), *rows]


def row_of(model: Model, type: str, found: breakers.Breaker) -> list[str]:
    """A breaker in the server's format."""
    row = [type, str(int(gates.probe_running(model, found.probe)))]
    if found.failures:
        row += ["failures", str(found.failures), "last_failure", str(found.last_failure_ms)]
    if found.state:
        row += ["state", found.state, "opened", str(found.opened_ms), "until", str(found.until_ms)]
    if found.probe is not None:
        row += ["probe", " ".join(found.probe)]
    return row


def slowed(model: Model, _: Call) -> Reply:
    """All slow-downs, in one page."""
    rows = [[what, str(row.until_ms), str(row.span_ms)] for what, row in model.slowed.items()]
    return ["OK", "0", str(model.now_ms), *rows]


def lifted(model: Model, call: Call) -> Reply:
    """Ends the slow-down of a type or tenant and answers waiting claims."""
    touched = breakers.lift(model, call.text("what"))
    if touched:
        claiming.answer(model, touched)
    return ["OK", 0, int(touched is not None)]
