"""`rqueue config`: checks the settings, or shows them with the source of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from rqueue.cli.main import CONFIG
from rqueue.cli.output.tables import Columns, Printer, note
from rqueue.cli.session import VARIABLE, complete_queue, named_queues, needed_queue, shared_options
from rqueue.errors import ConfigError
from rqueue.settings.load import (
    FILE,
    Settings,
    from_environment,
    from_file,
    merged,
    profile_defaults,
    variable_of,
)

PASSWORD = re.compile(r"(://[^:@/?]*):.*@")
# Settings that may hold a password.
URLS = ("url", "judge_url", "postgres_url")
OPTION = re.compile(r"([?&]password=)[^&]*")


@dataclass(frozen=True, slots=True)
class Setting:
    """The effective value of a setting and its source."""

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
    """Check or show the settings."""


@config.command()
@click.option("--queue", envvar=VARIABLE, shell_complete=complete_queue, help="Only this queue.")
@click.option("--url", metavar="URL", help="The server. [default: RQUEUE_REDIS_URL]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(queue: str | None, url: str | None, as_json: bool) -> None:
    """Check the settings of every queue that rqueue.yaml names; exit 5 if one is invalid."""
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
    """The first error in a queue's settings, or None."""
    try:
        server = Settings.load(name, url=url).server()
        if not isinstance(server, Path):
            from rqueue.store.url import parse  # noqa: PLC0415 - imports the driver

            parse(server)
    except ConfigError as error:
        return str(error)
    return None


@config.command()
@shared_options
def show(queue: str | None, url: str | None, as_json: bool) -> None:
    """Show the effective value and the source of every setting; passwords are masked."""
    found = settings_of(needed_queue(queue), url)
    found[0] = Setting("name", found[0].value, source_of_queue())
    Printer(as_json).rows(found, COLUMNS, document_of)


def document_of(setting: Setting) -> dict[str, object]:
    """A setting as a JSON document."""
    return {"setting": setting.name, "value": setting.value, "from": setting.source}


def source_of_queue() -> str:
    """The source of the queue's name."""
    match click.get_current_context().get_parameter_source("queue"):
        case ParameterSource.COMMANDLINE:
            return "--queue"
        case ParameterSource.ENVIRONMENT:
            return VARIABLE
        case _:
            return FILE


def settings_of(name: str, url: str | None) -> list[Setting]:
    """Every setting of a queue with its source."""
    settings = Settings.load(name, url=url)
    given: dict[str, object] = {} if url is None else {"url": url}
    sources = [given, from_environment(Settings), *from_file(Settings, name)]
    titles = ["--url", "", f"{FILE}: queues.{name}", FILE]
    effective = merged(sources)
    preset = profile_defaults(settings.preset)
    found = []
    for field, value in settings.model_dump(mode="json").items():
        source = f"profile {settings.profile}" if field in preset else "default"
        if field in effective:
            at = next(at for at, part in enumerate(sources) if field in part)
            source = titles[at] or variable_of(field)
        found.append(Setting(field, masked(value) if field in URLS else value, source))
    return found


def masked(url: object) -> object:
    """A URL with its password masked. Everything up to the last @ may belong to the password."""
    if not isinstance(url, str):
        return url
    return OPTION.sub(r"\1***", PASSWORD.sub(r"\1:***@", url))
