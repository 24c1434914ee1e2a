"""Every order of completions, failures, cancels, pauses and retries ends all DAGs.

`RQUEUE_MACHINE=nightly` runs more examples. A failure prints its steps and its seed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.dags.dag_machine import dag_machine
from tests.machine.server_shard import library_with_clock
from tests.machine.test_machine import NIGHTLY, PROFILE
from tests.servers import Server


@pytest.mark.timeout(0 if NIGHTLY else 300)
def test_dags_match_the_model_and_every_dag_ends(valkey: Server, tmp_path: Path) -> None:
    library = library_with_clock(tmp_path / "lua")

    run_state_machine_as_test(dag_machine(valkey, library), settings=PROFILE)
