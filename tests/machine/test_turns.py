"""Turns, limits of keys and what they lend each other, beside the model.

`RQUEUE_MACHINE=nightly` looks longer. A failure prints the steps that led to it, and its seed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis.stateful import run_state_machine_as_test
from redis.exceptions import ResponseError

from rqueue.store.library import PACKAGE
from tests.machine.key_mutations import TURN_MUTATIONS
from tests.machine.test_machine import NIGHTLY, PROFILE
from tests.machine.test_mutations import FINDER
from tests.machine.turn_rules import turn_machine
from tests.machine.wire import clockwork
from tests.servers import Server


@pytest.mark.timeout(0 if NIGHTLY else 300)
def test_claims_take_the_turns_that_the_model_takes(valkey: Server, tmp_path: Path) -> None:
    scripts = clockwork(tmp_path / "lua")

    run_state_machine_as_test(turn_machine(valkey, scripts), settings=PROFILE)


@pytest.mark.parametrize("name", TURN_MUTATIONS)
def test_what_is_to_be_broken_is_there(name: str) -> None:
    mutation = TURN_MUTATIONS[name]

    assert mutation.old in ((PACKAGE.parent / "lua") / mutation.file).read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", TURN_MUTATIONS)
def test_the_machine_of_turns_notices_that(valkey: Server, tmp_path: Path, name: str) -> None:
    scripts = clockwork(tmp_path / "lua", TURN_MUTATIONS[name])

    with pytest.raises((AssertionError, ResponseError)):
        run_state_machine_as_test(turn_machine(valkey, scripts), settings=FINDER)
