"""The options by which what runs can be seen: its log, its metrics, its health."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rqueue import logs
from rqueue.services.listener import LOCAL, Address
from rqueue.services.watching import Ports

C = TypeVar("C", bound=Callable[..., Any])
MAX_PORT = 65_535


def address(text: str) -> Address:
    """PORT or HOST:PORT; without a host only this machine may ask. A wrong one is wrong usage."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > MAX_PORT:
        raise click.BadParameter(f"{text!r} is neither PORT nor HOST:PORT")
    return Address(host.strip("[]") or LOCAL, int(port))


def observable(command: C) -> C:
    """Adds the options; they are told from the command's own by `ports_of` and `set_up_logs`."""
    options = (
        click.option(
            "--metrics-port",
            type=address,
            metavar="[HOST:]PORT",
            help="Serve Prometheus metrics at /metrics.",
        ),
        click.option(
            "--health-port",
            type=address,
            metavar="[HOST:]PORT",
            help="Serve probes at /healthz and /readyz.",
        ),
        click.option(
            "--log-format", type=click.Choice(logs.STYLES), default="auto", help="Of log lines."
        ),
        click.option("--log-level", type=click.Choice(logs.LEVELS), help="The least to log."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def ports_of(options: dict[str, Any]) -> Ports:
    """Where to listen, taken out of the options."""
    return Ports(metrics=options.pop("metrics_port"), health=options.pop("health_port"))


def set_up_logs(options: dict[str, Any]) -> None:
    """Sets up the log as the options say, and takes them out."""
    logs.set_up(options.pop("log_format"), options.pop("log_level"))
