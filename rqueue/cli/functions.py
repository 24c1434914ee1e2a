"""`rqueue functions`: the Lua function libraries on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rqueue.cli.main import nothing
from rqueue.cli.output.tables import Columns, Printer, note
from rqueue.cli.session import confirm, on_server
from rqueue.store.library import library

if TYPE_CHECKING:
    from rqueue.queue import Queue
    from rqueue.store.functions import Loaded


def is_own(row: Loaded) -> bool:
    """Whether the row is the library of this release."""
    return row.name == library().name


def last_use(row: Loaded) -> str:
    """The last use that a client recorded, as text."""
    if row.idle_days is None:
        return "never"
    return f"{row.idle_days} day{'' if row.idle_days == 1 else 's'} ago"


COLUMNS: Columns[Loaded] = {
    "": lambda row: "*" if is_own(row) else "",
    "LIBRARY": lambda row: row.name,
    "FUNCTIONS": lambda row: str(row.functions),
    "PRIMARIES": lambda row: str(row.primaries),
    "LAST USE": last_use,
}


def document(row: Loaded) -> dict[str, object]:
    """A library as a JSON document."""
    return {
        "library": row.name,
        "functions": row.functions,
        "primaries": row.primaries,
        "idle_days": row.idle_days,
        "this_release": is_own(row),
    }


@click.group()
def functions() -> None:
    """List, load and prune the Lua function libraries on the server.

    Each release of rqueue has one library, shared by all databases and queues of the server.
    Libraries are never deleted automatically.
    """


@functions.command("list")
@on_server
async def listed(queue: Queue, out: Printer, **_: object) -> None:
    """List the libraries on the server; * marks the one of this release.

    Clients record the last use once a day.
    """
    from rqueue.store.functions import list_functions  # noqa: PLC0415 - imports the driver

    found = await list_functions(queue._internals.runtime.connection)
    out.rows(found, COLUMNS, document)
    if not any(map(is_own, found)) and not out.as_json:
        note(f"{library().name} of this release is not loaded: run `rqueue functions load`")


@functions.command()
@on_server
async def load(queue: Queue, out: Printer, **_: object) -> None:
    """Load the library of this release on every primary.

    Run it as the first step of a deployment, as a user with FUNCTION LOAD.
    """
    from rqueue.store.functions import load_functions, record_use  # noqa: PLC0415

    connection, own = queue._internals.runtime.connection, library()
    sent = await load_functions(connection, own)
    # Counts as a use, so that a library that was just loaded is not pruned.
    await record_use(connection, own)
    counted = {"library": own.name, "loaded": sent.loaded, "present": sent.present}
    total = sent.loaded + sent.present
    out.one(
        counted,
        f"{own.name} loaded on {sent.loaded} of {total} primaries{present_before(sent.present)}",
    )


def present_before(number: int) -> str:
    """The number of primaries that already had the library, as text."""
    return f", already on {number}" if number else ""


@functions.command()
@click.option(
    "--days",
    type=click.IntRange(min=2),
    default=30,
    show_default=True,
    metavar="N",
    help="Libraries that no client recorded for N days, at least 2.",
)
@click.option("--unrecorded", is_flag=True, help="Also libraries that no client ever recorded.")
@click.option("--dry-run", is_flag=True, help="Only print which libraries.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@on_server
async def prune(
    queue: Queue,
    out: Printer,
    *,
    days: int,
    unrecorded: bool,
    dry_run: bool,
    yes: bool,
    **_: object,
) -> None:
    """Delete libraries that no client uses, on every primary.

    The library of this release is never deleted. Exit 1 if there was nothing to delete.
    """
    from rqueue.store.functions import delete_functions, list_functions, unused  # noqa: PLC0415

    connection, own = queue._internals.runtime.connection, library().name

    async def read_unused() -> list[Loaded]:
        found = await list_functions(connection)
        return unused(found, own, days=days, unrecorded=unrecorded)

    found = await read_unused()
    if not found:
        note("no library is unused")
        raise nothing()
    if not dry_run:
        if not yes:
            number = len(found)
            confirm(f"{number} librar{'y' if number == 1 else 'ies'}", "delete", "deleted")
        # A library that a client recorded during the confirmation stays.
        still = {one.name for one in await read_unused()}
        found = [one for one in found if one.name in still]
        for one in found:
            await delete_functions(connection, one.name)
    word = "would be deleted" if dry_run else "deleted"
    for one in found:
        out.one({**document(one), "deleted": not dry_run}, f"{one.name} {word}")
