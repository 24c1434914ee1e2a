"""`rqueue role`: who may create tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rqueue.cli.output import Columns, Printer, note
from rqueue.cli.session import on_queue
from rqueue.model.role import ROLES

if TYPE_CHECKING:
    from rqueue.model.role import Role
    from rqueue.queue import Queue

COLUMNS: Columns[tuple[str, str]] = {
    "PRINCIPAL": lambda row: row[0],
    "ROLE": lambda row: row[1],
}


def document(row: tuple[str, str]) -> dict[str, object]:
    """A principal's role for programs."""
    return {"principal": row[0], "role": row[1]}


@click.group()
def role() -> None:
    """Roles: who may create tasks.

    An orchestrator or a human creates any task, an agent only what it spawns in its own DAG.
    """


@role.command("list")
@on_queue
async def listed(queue: Queue, out: Printer) -> None:
    """List the principals that were given a role."""
    found = list((await queue.roles()).items())
    out.rows(found, COLUMNS, document)
    if not out.as_json:
        others = "all others have" if found else "nobody was given a role; all have"
        note(f"{others} the default, {queue.settings.default_role}")


@role.command("set")
@click.argument("name")
@click.argument("role", type=click.Choice(ROLES))
@on_queue
async def given(queue: Queue, out: Printer, name: str, *, role: Role) -> None:
    """Give the principal NAME, such as agent:coder, a role."""
    await queue.set_role(name, role)
    out.one(document((name, role)), f"{name} has the role {role}")


@role.command("drop")
@click.argument("name")
@on_queue
async def dropped(queue: Queue, out: Printer, name: str) -> None:
    """Take the role of the principal NAME away: it has the default again."""
    await queue.drop_role(name)
    default = queue.settings.default_role
    out.one(document((name, default)), f"{name} has the default role, {default}")
