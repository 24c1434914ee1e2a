"""All moves in any order, with every fault that a queue must tolerate, compared with the model.

`RQUEUE_MACHINE=nightly` runs more examples. A failure prints its steps and its seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.machine import machine
from tests.machine.server_shard import library_with_clock
from tests.servers import Server

NIGHTLY = os.environ.get("RQUEUE_MACHINE") == "nightly"
PROFILE = settings(
    max_examples=5000 if NIGHTLY else 200,
    stateful_step_count=100 if NIGHTLY else 30,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(0 if NIGHTLY else 300)
def test_the_scripts_match_the_model(valkey: Server, tmp_path: Path) -> None:
    library = library_with_clock(tmp_path / "lua")

    run_state_machine_as_test(machine(valkey, library), settings=PROFILE)
