"""The scripts of roles, spoken by the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.reference.model import Model
    from tests.reference.verbs.words import Asked, Reply


def given(model: Model, asked: Asked) -> Reply:
    """Gives a principal a role, if who asks may."""
    if (forbidden := refused(model, asked)) is not None:
        return ["FORBIDDEN", forbidden]
    model.roles[asked.text("principal")] = asked.text("role")
    return ["OK"]


def dropped(model: Model, asked: Asked) -> Reply:
    """Takes a principal's role away, if who asks may."""
    if (forbidden := refused(model, asked)) is not None:
        return ["FORBIDDEN", forbidden]
    model.roles.pop(asked.text("principal"), None)
    return ["OK"]


def listed(model: Model, _: Asked) -> Reply:
    """Every principal that was given a role."""
    return ["OK", [word for pair in model.roles.items() for word in pair]]


def refused(model: Model, asked: Asked) -> str | None:
    """Who of those that ask may not, and its role."""
    if not asked.text("who"):
        return None
    who = asked.json("who")
    for principal, default in who["by"]:
        role = model.roles.get(principal, default)
        if role not in who["may"]:
            return f"{principal} {role}"
    return None


def refusal(model: Model, asked: Asked) -> tuple[str, str] | None:
    """Why nothing new is taken now: who asks may not, or too much waits for the archive."""
    forbidden, said = refused(model, asked), asked.text("most")
    most = int(said) if said else model.archiving or 0
    waiting = sum(map(len, model.outbox))
    if forbidden is not None:
        return "FORBIDDEN", forbidden
    return ("FULL", str(waiting)) if most and waiting >= most else None
