"""`rqueue notifier`: the process that tells sinks what happened, apart from the scheduler."""

from __future__ import annotations

import asyncio
import signal
from random import Random
from typing import TYPE_CHECKING, Any

import click

from rqueue import logs
from rqueue.cli.observing import observable, ports_of, set_up_logs
from rqueue.cli.session import on_queue
from rqueue.clock import SYSTEM
from rqueue.errors import ConfigError
from rqueue.services.gathering import Watched
from rqueue.services.naming import worker_name
from rqueue.services.notifier import notifiers
from rqueue.services.service import Figures, keep
from rqueue.services.stopping import ended
from rqueue.services.watching import Watch

if TYPE_CHECKING:
    from rqueue.cli.output import Printer
    from rqueue.queue import Queue


@click.command()
@observable
@on_queue
async def notifier(queue: Queue, out: Printer, **options: Any) -> None:
    """Tell the sinks of a queue what happened.

    The leading scheduler does the same, where it has the secrets; any number may run.
    """
    set_up_logs(options)
    made = notifiers(queue.shard, queue.settings, clock=SYSTEM, random=Random(), strict=True)
    if not made:
        raise ConfigError("sinks", "there are none: name some in rqueue.yaml")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    logs.FACTS.update(worker=worker_name(), queue=queue.name)
    figures = {one.name: Figures() for one in made}
    async with Watch([Watched(queue.name, queue.shard, notifiers=figures)], ports_of(options)):
        keeping = [
            asyncio.create_task(
                keep(one, figures[one.name], server_ms=SYSTEM.now_ms, random=Random()),
                name=one.name,
            )
            for one in made
        ]
        try:
            await stop.wait()
        finally:
            await ended(keeping)
