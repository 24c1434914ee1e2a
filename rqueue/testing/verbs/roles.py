"""The scripts of roles, spoken by the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rqueue.testing.model import Model
    from rqueue.testing.verbs.words import Asked, Reply


def given(model: Model, asked: Asked) -> Reply:
    """Gives a principal a role."""
    model.roles[asked.text("principal")] = asked.text("role")
    return ["OK"]


def dropped(model: Model, asked: Asked) -> Reply:
    """Takes a principal's role away."""
    model.roles.pop(asked.text("principal"), None)
    return ["OK"]


def listed(model: Model, _: Asked) -> Reply:
    """Every principal that was given a role."""
    return ["OK", [word for pair in model.roles.items() for word in pair]]


def refused(model: Model, asked: Asked) -> str | None:
    """Who of those that ask may not create tasks, and its role."""
    if not asked.text("who"):
        return None
    who = asked.json("who")
    for principal, default in who["by"]:
        role = model.roles.get(principal, default)
        if role not in who["may"]:
            return f"{principal} {role}"
    return None
