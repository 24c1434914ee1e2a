"""Two clients: whatever one of them does, the other may do anything before and after it.

Scripts are atomic, so this is the whole space of two clients' single steps: from every state,
every script of one, then every script of the other; the model agrees, the guarantees hold.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from rqueue.store.library import Library
from rqueue.task.lane import Lane
from tests.machine.again import any_two
from tests.machine.pairs import LANE, MOVES, OF_KEYS, STATES, scene_in
from tests.machine.wire import Wire, clockwork
from tests.servers import Server


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return clockwork(tmp_path_factory.mktemp("pairs") / "lua")


@pytest.fixture
def wire(valkey: Server, scripts: Library) -> Iterator[Wire]:
    with redis.Redis.from_url(valkey.plain_url, protocol=2) as client:
        yield Wire(client, scripts)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("state", STATES)
def test_any_two_scripts_agree_with_the_model_from(state: str, wire: Wire) -> None:
    any_two(scene_in(state, wire), wire, MOVES)


@pytest.mark.parametrize("lane", [LANE, OF_KEYS], ids=["plain", "keyed"])
@pytest.mark.parametrize("state", STATES)
def test_every_script_agrees_with_the_model_from(state: str, lane: Lane, wire: Wire) -> None:
    for name in MOVES:
        scene = scene_in(state, wire, lane)
        scene.twin.look()

        scene.move(name)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", STATES)
def test_any_two_scripts_agree_about_keys_from(state: str, wire: Wire) -> None:
    any_two(scene_in(state, wire, OF_KEYS), wire, MOVES)
