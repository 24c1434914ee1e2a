"""`rqueue config`: whether the settings are right, what they are, and where each came from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from rqueue.cli.chosen import VARIABLE, complete_queue, named_queues, needed_queue
from rqueue.cli.exits import CONFIG
from rqueue.cli.output import Columns, Printer, note
from rqueue.errors import ConfigError
from rqueue.settings import Settings, profile_defaults
from rqueue.sources import FILE, from_environment, from_file, merged, variable_of
from rqueue.store.address import parse

PASSWORD = re.compile(r"(://[^:@/?]*):.*@")
# Settings that may hold a password.
URLS = ("url", "judge_url", "postgres_url")
OPTION = re.compile(r"([?&]password=)[^&]*")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as it holds, and who said so."""

    name: str
    value: object
    source: str


COLUMNS: Columns[Setting] = {
    "SETTING": lambda setting: setting.name,
    "FROM": lambda setting: setting.source,
    "VALUE": lambda setting: "" if setting.value is None else str(setting.value),
}


@click.group()
def config() -> None:
    """Check the settings, or show them."""


@config.command()
@click.option("--queue", envvar=VARIABLE, shell_complete=complete_queue, help="This queue alone.")
@click.option("--url", metavar="URL", help="The server, as in RQUEUE_REDIS_URL.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(queue: str | None, url: str | None, as_json: bool) -> None:
    """Check the settings of every queue that rqueue.yaml names; exit 5 when one is wrong."""
    names = [queue] if queue else named_queues()
    faults = {name: fault_of(name, url) for name in names or [needed_queue(None)]}
    for name, fault in faults.items():
        document = {"queue": name, "ok": fault is None, "fault": fault}
        Printer(as_json).one(document, f"{name}: {'ok' if fault is None else 'wrong'}")
        if fault is not None:
            note(f"{name}: {fault}")
    if any(faults.values()):
        raise click.exceptions.Exit(CONFIG)


def fault_of(name: str, url: str | None) -> str | None:
    """What is wrong with a queue's settings."""
    try:
        server = Settings.load(name, url=url).server()
        if not isinstance(server, Path):
            parse(server)
    except ConfigError as error:
        return str(error)
    return None


@config.command()
@click.option("--queue", envvar=VARIABLE, shell_complete=complete_queue, help="The queue.")
@click.option("--url", metavar="URL", help="The server, as in RQUEUE_REDIS_URL.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(queue: str | None, url: str | None, as_json: bool) -> None:
    """Show every setting as it holds, and where it came from; passwords are not shown."""
    found = settings_of(needed_queue(queue), url)
    found[0] = Setting("name", found[0].value, source_of_queue())
    Printer(as_json).rows(found, COLUMNS, document_of)


def document_of(setting: Setting) -> dict[str, object]:
    """A setting for programs."""
    return {"setting": setting.name, "value": setting.value, "from": setting.source}


def source_of_queue() -> str:
    """Who named the queue."""
    match click.get_current_context().get_parameter_source("queue"):
        case ParameterSource.COMMANDLINE:
            return "--queue"
        case ParameterSource.ENVIRONMENT:
            return VARIABLE
        case _:
            return FILE


def settings_of(name: str, url: str | None) -> list[Setting]:
    """Every setting of a queue."""
    settings = Settings.load(name, url=url)
    given: dict[str, object] = {} if url is None else {"url": url}
    said = [given, from_environment(Settings), *from_file(Settings, name)]
    titles = ["--url", "", f"{FILE}: queues.{name}", FILE]
    holding = merged(said)
    preset = profile_defaults(settings.preset)
    found = []
    for field, value in settings.model_dump(mode="json").items():
        source = f"profile {settings.profile}" if field in preset else "default"
        if field in holding:
            at = next(at for at, part in enumerate(said) if field in part)
            source = titles[at] or variable_of(field)
        found.append(Setting(field, masked(value) if field in URLS else value, source))
    return found


def masked(url: object) -> object:
    """A URL without its password; whatever stands before the last @ may be part of one."""
    if not isinstance(url, str):
        return url
    return OPTION.sub(r"\1***", PASSWORD.sub(r"\1:***@", url))
