"""`rqueue up`: server, scheduler and worker on one machine, until Ctrl-C."""

from __future__ import annotations

import logging
from typing import Any

import click

from rqueue.cli.options import SECONDS, observable, ports_of, set_up_logs
from rqueue.errors import ConfigError


@click.command()
@click.argument("app", metavar="[MODULE:QUEUE]", required=False)
@click.option("--demo", is_flag=True, help="Run a sample workload and show it.")
@click.option("--concurrency", type=click.IntRange(1), default=10, help="Concurrent tasks.")
@click.option(
    "--grace", type=SECONDS, default=10.0, help="Seconds to wait for running tasks at the end."
)
@click.option("--no-archive", is_flag=True, help="Do not start PostgreSQL for ended tasks.")
@observable
def up(app: str | None, demo: bool, concurrency: int, grace: float, **options: Any) -> None:
    """Start the servers, the scheduler and a worker with one command.

    The server is that of RQUEUE_REDIS_URL or rqueue.yaml, else an embedded Valkey with its data in
    .rqueue/. Ended tasks are archived in the PostgreSQL of RQUEUE_POSTGRES_URL; with an embedded
    Valkey, in an embedded PostgreSQL. Ctrl-C stops everything in order. With --demo and without a
    terminal, it ends when the workload is done.
    """
    from rqueue.cli.processes import all_in_one  # noqa: PLC0415 - imported when called

    if demo == (app is not None):
        raise ConfigError("MODULE:QUEUE", "is required; or use --demo to see a sample queue")
    ports = ports_of(options)
    if demo and options["log_level"] is None:
        # Log lines would overwrite the live view, which shows everything but errors.
        logging.getLogger("rqueue").setLevel("ERROR")
    set_up_logs(options)
    embedded = all_in_one.choose_server()
    all_in_one.choose_archive(wanted=not options["no_archive"])
    all_in_one.begin(app, ports, concurrency=concurrency, grace_sec=grace, embedded=embedded)
