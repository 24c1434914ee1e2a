"""No order of completions, deaths, cancels, pauses and revivals leaves a DAG hanging.

`RQUEUE_MACHINE=nightly` looks longer. A failure prints the steps that led to it, and its seed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.graph_rules import graph_machine
from tests.machine.test_machine import NIGHTLY, PROFILE
from tests.machine.wire import clockwork
from tests.servers import Server


@pytest.mark.timeout(0 if NIGHTLY else 300)
def test_graphs_do_what_the_model_does_and_nothing_hangs(valkey: Server, tmp_path: Path) -> None:
    scripts = clockwork(tmp_path / "lua")

    run_state_machine_as_test(graph_machine(valkey, scripts), settings=PROFILE)
