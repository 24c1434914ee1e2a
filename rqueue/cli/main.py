"""The entry point `rqueue`: its commands by section, loaded when called, and the exit codes.

Scripts may rely on the exit codes; docs/cli.md lists them.
"""

from __future__ import annotations

import importlib
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from rqueue import log
from rqueue.cli.output.tables import note
from rqueue.errors import (
    ArtifactNotFound,
    ArtifactRefused,
    ConfigError,
    DagNotFound,
    Forbidden,
    FunctionsMissing,
    Overloaded,
    RQueueError,
    StoreError,
    SubmitError,
    TaskError,
    TaskNotFound,
    WorkerNotFound,
)

NOTHING = 1
USAGE = 2
STATE = 3
SERVER = 4
CONFIG = 5
INTERRUPTED = 130
TERMINATED = 143
# The first matching row decides.
CODES: tuple[tuple[type[RQueueError], int], ...] = (
    (TaskNotFound, NOTHING),
    (DagNotFound, NOTHING),
    (WorkerNotFound, NOTHING),
    (ArtifactNotFound, NOTHING),
    (ArtifactRefused, USAGE),
    (TaskError, STATE),
    (Forbidden, STATE),
    (Overloaded, SERVER),
    (FunctionsMissing, CONFIG),
    (StoreError, SERVER),
    (ConfigError, CONFIG),
    (SubmitError, USAGE),
    (RQueueError, STATE),
)


def refused(error: RQueueError) -> click.exceptions.Exit:
    """Reports an RQueueError in one line, without a traceback; the exit with its code."""
    note(str(error))
    return click.exceptions.Exit(code_of(error))


def code_of(error: RQueueError) -> int:
    """The exit code of an error."""
    return next(code for kind, code in CODES if isinstance(error, kind))


def nothing() -> click.exceptions.Exit:
    """The exit of a command that found nothing; its output is already printed."""
    return click.exceptions.Exit(NOTHING)


NAME = "rqueue"
# Maximum length of a command's line in the help, and beside a completion (click's default).
SHORT_HELP, COMPLETION_HELP = 72, 45


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash  eval "$(rqueue completion bash)"            in ~/.bashrc
    zsh   eval "$(rqueue completion zsh)"             in ~/.zshrc
    fish  rqueue completion fish | source             in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"completion for {shell} is not supported")
    script = kind(ctx.find_root().command, {}, NAME, f"_{NAME.upper()}_COMPLETE")
    click.echo(script.source())


# heading -> command -> its location, and its line in the help. A command's module is imported when
# the command is called or its own options are completed.
SECTIONS = {
    "Run": {
        "up": (
            "rqueue.cli.processes.commands:up",
            "Start the servers, the scheduler and a worker with one command.",
        ),
        "worker": ("rqueue.cli.processes.commands:worker", "Run the tasks of a queue."),
        "scheduler": (
            "rqueue.cli.processes.commands:scheduler",
            "Run the services of a queue: promoter, reaper, inbox, sweeps.",
        ),
        "archiver": (
            "rqueue.cli.archive.commands:archiver",
            "Write ended tasks to the archive and maintain it.",
        ),
        "notifier": (
            "rqueue.cli.processes.commands:notifier",
            "Send the notices of a queue to its sinks.",
        ),
    },
    "Work from a shell": {
        "enqueue": ("rqueue.cli.tasks.enqueue:enqueue", "Enqueue a task and print its id."),
        "claim": ("rqueue.cli.tasks.shell:claim", "Claim a task and print its id and token."),
        "start": ("rqueue.cli.tasks.shell:start", "Mark a claimed task as running."),
        "heartbeat": ("rqueue.cli.tasks.shell:heartbeat", "Renew the lease of a task."),
        "spend": ("rqueue.cli.tasks.shell:spend", "Add to the recorded cost of a task."),
        "complete": (
            "rqueue.cli.tasks.shell:complete",
            "Complete a task, with an optional result.",
        ),
        "fail": ("rqueue.cli.tasks.shell:fail", "Report that an attempt has failed."),
        "release": (
            "rqueue.cli.tasks.shell:release",
            "Release a task without spending an attempt.",
        ),
    },
    "Inspect": {
        "top": ("rqueue.cli.top:top", "Show a live view of a queue."),
        "tasks": ("rqueue.cli.tasks.inspect:tasks", "List tasks that have not ended."),
        "task": ("rqueue.cli.tasks.inspect:task", "Show a task and its timeline."),
        "why": ("rqueue.cli.tasks.explain:why", "Show why a task does not run yet."),
        "explain": (
            "rqueue.cli.tasks.explain:explain",
            "Show how the priority of a task is computed.",
        ),
        "counts": ("rqueue.cli.queues:counts", "Count tasks by type and state."),
        "workers": (
            "rqueue.cli.fleet:workers",
            "List the workers of a queue and the tasks they hold.",
        ),
        "queues": (
            "rqueue.cli.queues:queues",
            "List the queues on the server with their counts.",
        ),
        "events": ("rqueue.cli.queues:events", "Show the events of a queue."),
    },
    "Task graphs": {"dag": ("rqueue.cli.dag.commands:dag", "Submit, show and change DAGs.")},
    "Dead tasks": {
        "dead": ("rqueue.cli.dead.commands:dead", "Review dead tasks and decide about them.")
    },
    "Files": {
        "artifacts": (
            "rqueue.cli.artifacts:artifacts",
            "Store and read artifacts: files and other large values.",
        )
    },
    "Archive": {
        "archive": (
            "rqueue.cli.archive.commands:archive",
            "Search and maintain the archive of ended tasks in PostgreSQL.",
        )
    },
    "Gates": {
        "breaker": (
            "rqueue.cli.gates:breaker",
            "Show, open and close circuit breakers, one for each task type.",
        ),
        "slowdown": (
            "rqueue.cli.gates:slowdown",
            "Show and lift the slow-downs of types and limit keys.",
        ),
        "budget": (
            "rqueue.cli.gates:budget",
            "Show and set the budget of each day and of workers.",
        ),
    },
    "Change": {
        "cancel": ("rqueue.cli.tasks.change:cancel", "Cancel tasks by id or by a filter."),
        "purge": ("rqueue.cli.tasks.change:purge", "Discard dead tasks, all or by a filter."),
        "priority": (
            "rqueue.cli.tasks.change:priority",
            "Change the priority of a task; its age still counts.",
        ),
        "reschedule": (
            "rqueue.cli.tasks.change:reschedule",
            "Change the time at which a waiting task becomes ready.",
        ),
        "run-now": (
            "rqueue.cli.tasks.change:run_now",
            "Make a task that waits for its time ready now.",
        ),
        "pause": ("rqueue.cli.tasks.change:pause", "Pause the queue, a type or a lane."),
        "resume": ("rqueue.cli.tasks.change:resume", "Resume the queue, a type or a lane."),
    },
    "Set up": {
        "ping": ("rqueue.cli.doctor:ping", "Check whether the server answers."),
        "doctor": (
            "rqueue.cli.doctor:doctor",
            "Check the server and its queues, and print what to fix.",
        ),
        "functions": (
            "rqueue.cli.functions:functions",
            "List, load and prune the Lua function libraries on the server.",
        ),
        "config": ("rqueue.cli.config:config", "Check or show the settings."),
        "role": ("rqueue.cli.fleet:role", "Show and set roles: who may create tasks."),
        "completion": ("rqueue.cli.main:completion", "Print the completion script of a shell."),
    },
}
COMMANDS = {name: found for section in SECTIONS.values() for name, found in section.items()}


class Commands(click.Group):
    """A group that imports its commands at first use and reports each error in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command's name, in the order of the help."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        place, _ = COMMANDS[cmd_name]
        module, _, attribute = place.partition(":")
        found: click.Command = getattr(importlib.import_module(module), attribute)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command. An RQueueError becomes one line and its exit code; a Ctrl-C that came
        before the command handled signals becomes exit code 130.
        """
        try:
            return super().invoke(ctx)
        except RQueueError as error:
            raise refused(error) from error
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None

    def short_helps(self, ctx: click.Context, limit: int) -> dict[str, str]:
        """Each command's line, in the order of the help, without importing its module."""
        known = {name: click.Command(name, help=line) for name, (_, line) in COMMANDS.items()}
        lines = {name: command.get_short_help_str(limit) for name, command in known.items()}
        for name in super().list_commands(ctx):
            command = super().get_command(ctx, name)
            if command is not None:
                lines[name] = command.get_short_help_str(limit)
        return lines

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes one list for each section."""
        known = {name: list(section) for name, section in SECTIONS.items()}
        known["More"] = super().list_commands(ctx)
        lines = self.short_helps(ctx, SHORT_HELP)
        for heading, names in known.items():
            if names:
                with formatter.section(heading):
                    formatter.write_dl([(name, lines[name]) for name in names])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and options that start with the typed text."""
        found = [
            CompletionItem(name, help=line)
            for name, line in self.short_helps(ctx, COMPLETION_HELP).items()
            if name.startswith(incomplete)
        ]
        # Not click.Group's method: it imports every command.
        return found + click.Command.shell_complete(self, ctx, incomplete)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rqueue")
def cli() -> None:
    """A task queue on Redis Streams.

    Every command takes --queue, --url and --json. The server and the queue can also be set by
    RQUEUE_REDIS_URL and RQUEUE_QUEUE, or in rqueue.yaml.
    """


def main() -> None:
    """The entry point."""
    log.silence_drivers()
    cli(prog_name="rqueue")
