"""Which queue a command means: the one named, or the only one there is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from click.shell_completion import CompletionItem

from rqueue.errors import ConfigError
from rqueue.settings import Settings
from rqueue.sources import FILE, from_file

if TYPE_CHECKING:
    import click

VARIABLE = "RQUEUE_QUEUE"
# Where a command needs a server and no queue, the settings common to all queues hold.
NO_QUEUE = "default"


def chosen_queue(given: str | None) -> str | None:
    """The queue that was named, or the only one of rqueue.yaml."""
    if given:
        return given
    names = named_queues()
    return names[0] if len(names) == 1 else None


def needed_queue(given: str | None) -> str:
    """`chosen_queue`, or ConfigError."""
    found = chosen_queue(given)
    if found is None:
        names = ", ".join(named_queues())
        several = f"{FILE} has several ({names}): " if names else ""
        raise ConfigError(
            "queue", f"{several}pass --queue NAME, set {VARIABLE}, or name one queue in {FILE}"
        )
    return found


def named_queues() -> list[str]:
    """The queues that rqueue.yaml names, in its order; raises ConfigError where it is broken."""
    path = Path(FILE)
    if not path.is_file():
        return []
    from_file(Settings, NO_QUEUE)
    content = yaml.safe_load(path.read_text("utf-8")) or {}
    return [str(name) for name in content.get("queues") or {}]


def complete_queue(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names that fit what has been typed; the server is not asked."""
    try:
        names = named_queues()
    except ConfigError:
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
