"""The moves of roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.moves.call import Call, Reply


def given(model: Model, call: Call) -> Reply:
    """Sets the role of a principal, if the caller may."""
    if (forbidden := refused(model, call)) is not None:
        return ["FORBIDDEN", forbidden]
    model.roles[call.text("principal")] = call.text("role")
    return ["OK"]


def dropped(model: Model, call: Call) -> Reply:
    """Removes the role of a principal, if the caller may."""
    if (forbidden := refused(model, call)) is not None:
        return ["FORBIDDEN", forbidden]
    model.roles.pop(call.text("principal"), None)
    return ["OK"]


def listed(model: Model, _: Call) -> Reply:
    """All roles that were set."""
    return ["OK", [word for pair in model.roles.items() for word in pair]]


def refused(model: Model, call: Call) -> str | None:
    """The first caller that may not, and its role; None if all may."""
    if not call.text("who"):
        return None
    who = call.json("who")
    for principal, default in who["by"]:
        role = model.roles.get(principal, default)
        if role not in who["may"]:
            return f"{principal} {role}"
    return None


def refusal(model: Model, call: Call) -> tuple[str, str] | None:
    """Why no new task is accepted: the caller may not create tasks, or the outbox is full."""
    forbidden, limit = refused(model, call), call.text("most")
    most = int(limit) if limit else model.archiving or 0
    waiting = sum(map(len, model.outbox))
    if forbidden is not None:
        return "FORBIDDEN", forbidden
    return ("FULL", str(waiting)) if most and waiting >= most else None
