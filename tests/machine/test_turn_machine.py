"""Turns, limits of tenants and priorities between tenants, compared with the model.

`RQUEUE_MACHINE=nightly` runs more examples. A failure prints its steps and its seed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis.stateful import run_state_machine_as_test
from redis.exceptions import ResponseError

from rqueue.store.library import PACKAGE
from tests.machine.server_shard import library_with_clock
from tests.machine.tenant_mutations import TURN_MUTATIONS
from tests.machine.test_machine import NIGHTLY, PROFILE
from tests.machine.test_mutations import FINDER
from tests.machine.turn_machine import turn_machine
from tests.servers import Server


@pytest.mark.timeout(0 if NIGHTLY else 300)
def test_claims_with_turns_match_the_model(valkey: Server, tmp_path: Path) -> None:
    library = library_with_clock(tmp_path / "lua")

    run_state_machine_as_test(turn_machine(valkey, library), settings=PROFILE)


@pytest.mark.parametrize("name", TURN_MUTATIONS)
def test_the_source_contains_the_text_to_mutate(name: str) -> None:
    mutation = TURN_MUTATIONS[name]

    assert mutation.old in ((PACKAGE.parent / "lua") / mutation.file).read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", TURN_MUTATIONS)
def test_the_turn_machine_detects_the_mutation(valkey: Server, tmp_path: Path, name: str) -> None:
    library = library_with_clock(tmp_path / "lua", TURN_MUTATIONS[name])

    with pytest.raises((AssertionError, ResponseError)):
        run_state_machine_as_test(turn_machine(valkey, library), settings=FINDER)
