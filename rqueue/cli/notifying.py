"""`rqueue notifier`: the process that tells sinks what happened, apart from the scheduler."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import click

from rqueue.cli.keeping import keep_all
from rqueue.cli.observing import observable, ports_of, set_up_logs
from rqueue.cli.session import serving_queue
from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError
from rqueue.services.naming import worker_name
from rqueue.services.notifier import notifiers

if TYPE_CHECKING:
    from rqueue.cli.output import Printer
    from rqueue.queue import Queue


@click.command()
@observable
@serving_queue
async def notifier(queue: Queue, out: Printer, **options: Any) -> None:
    """Tell the sinks of a queue what happened.

    The leading scheduler does the same, where it has the secrets; any number may run.
    """
    set_up_logs(options)
    made = notifiers(queue.shard, queue.settings, clock=SYSTEM, random=Random(), strict=True)
    if not made:
        raise ConfigError("sinks", "there are none: name some in rqueue.yaml")
    await keep_all(queue, made, ports_of(options), name=worker_name())
