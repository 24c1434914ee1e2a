"""`rqueue notifier`, and the command line of subprocesses."""

from __future__ import annotations

from rqueue.cli.processes.commands import without_options
from tests.cli.conftest import Shell
from tests.harness import Harness


async def test_a_notifier_without_sinks_is_exit_5(harness: Harness, shell: Shell) -> None:
    found = await shell.run("notifier")

    assert found.exit_code == 5
    assert "sinks: there are none" in found.stderr


async def test_a_notifier_without_its_secret_is_exit_5(harness: Harness, shell: Shell) -> None:
    hook = '[{"kind":"webhook","name":"h","url":"https://e.org","secret_env":"NO_SUCH_SECRET"}]'
    shell.env["RQUEUE_SINKS"] = hook

    found = await shell.run("notifier")

    assert found.exit_code == 5
    assert "sinks.h.secret_env: the variable NO_SUCH_SECRET is not set" in found.stderr


def test_options_of_the_supervisor_are_removed_for_its_subprocesses() -> None:
    words = ["worker", "a:q", "--processes", "2", "--reload", "--metrics-port=9100", "--grace", "3"]

    left = without_options(words, ["--processes", "--metrics-port"], ["--reload"])

    assert left == ["worker", "a:q", "--grace", "3"]
