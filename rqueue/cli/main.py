"""The command `rqueue`: which words it knows, and how errors leave it."""

from __future__ import annotations

import importlib
from typing import Any

import click

from rqueue import logs
from rqueue.cli.exits import INTERRUPTED, refused
from rqueue.errors import RQueueError

# heading -> command -> where it is; a module is read only when its command is wanted.
SECTIONS = {
    "Run": {
        "up": "rqueue.cli.up:up",
        "worker": "rqueue.cli.running:worker",
        "scheduler": "rqueue.cli.running:scheduler",
        "archiver": "rqueue.cli.archive:archiver",
        "notifier": "rqueue.cli.notifying:notifier",
    },
    "Work from a shell": {
        "enqueue": "rqueue.cli.enqueue:enqueue",
        "claim": "rqueue.cli.shell:claim",
        "start": "rqueue.cli.shell:start",
        "heartbeat": "rqueue.cli.shell:heartbeat",
        "spend": "rqueue.cli.shell:spend",
        "complete": "rqueue.cli.shell:complete",
        "fail": "rqueue.cli.shell:fail",
        "release": "rqueue.cli.shell:release",
    },
    "Look": {
        "top": "rqueue.cli.top:top",
        "tasks": "rqueue.cli.looking:tasks",
        "task": "rqueue.cli.looking:task",
        "why": "rqueue.cli.reasons:why",
        "explain": "rqueue.cli.explaining:explain",
        "counts": "rqueue.cli.fleet:counts",
        "workers": "rqueue.cli.crew:workers",
        "queues": "rqueue.cli.fleet:queues",
        "events": "rqueue.cli.events:events",
    },
    "Task graphs": {"dag": "rqueue.cli.dag:dag"},
    "Dead tasks": {"dead": "rqueue.cli.dead:dead"},
    "Files": {"artifacts": "rqueue.cli.artifacts:artifacts"},
    "Archive": {"archive": "rqueue.cli.archive:archive"},
    "Gates": {
        "breaker": "rqueue.cli.breaker:breaker",
        "slowdown": "rqueue.cli.slowdown:slowdown",
        "budget": "rqueue.cli.budget:budget",
    },
    "Change": {
        "cancel": "rqueue.cli.sweeping:cancel",
        "purge": "rqueue.cli.sweeping:purge",
        "priority": "rqueue.cli.changing:priority",
        "reschedule": "rqueue.cli.changing:reschedule",
        "run-now": "rqueue.cli.changing:run_now",
        "pause": "rqueue.cli.changing:pause",
        "resume": "rqueue.cli.changing:resume",
    },
    "Set up": {
        "ping": "rqueue.cli.doctor:ping",
        "doctor": "rqueue.cli.doctor:doctor",
        "config": "rqueue.cli.config:config",
        "role": "rqueue.cli.role:role",
        "completion": "rqueue.cli.completion:completion",
    },
}
PLACES = {name: place for section in SECTIONS.values() for name, place in section.items()}


class Commands(click.Group):
    """A group whose commands are read at first use, and whose errors are one line each."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command's name, in the order of the help."""
        return [*PLACES, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name."""
        place = PLACES.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        found: click.Command = getattr(importlib.import_module(module), attribute)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; an error of ours becomes its line and its exit code, and so does a
        Ctrl-C that came before the command could hear it.
        """
        try:
            return super().invoke(ctx)
        except RQueueError as error:
            raise refused(error) from error
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help's lists, one a section."""
        known = {name: list(section) for name, section in SECTIONS.items()}
        known["More"] = super().list_commands(ctx)
        for heading, names in known.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            lines = [(name, command.get_short_help_str(72)) for name, command in found if command]
            if lines:
                with formatter.section(heading):
                    formatter.write_dl(lines)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rqueue")
def cli() -> None:
    """A task queue on Redis Streams.

    Every command takes --queue, --url and --json. The server and the queue may also be set by
    RQUEUE_REDIS_URL and RQUEUE_QUEUE, or in rqueue.yaml.
    """


def main() -> None:
    """The entry point."""
    logs.hush_drivers()
    cli(prog_name="rqueue")
