"""Two clients and one DAG: from every state, every script of one, then every script of the other;
the model agrees, the guarantees hold.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from rqueue.store.library import Library
from tests.machine.again import any_two
from tests.machine.graph_pairs import MOVES, STATES, graph_scene
from tests.machine.wire import Wire, clockwork
from tests.servers import Server

# What a death means is a matter of the policy; nothing else is.
SCENES = [(state, "hold") for state in STATES]
SCENES += [(s, p) for s in ("running", "dead", "suspended") for p in ("fail_fast", "continue")]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return clockwork(tmp_path_factory.mktemp("pairs") / "lua")


@pytest.fixture
def wire(valkey: Server, scripts: Library) -> Iterator[Wire]:
    with redis.Redis.from_url(valkey.plain_url, protocol=2) as client:
        yield Wire(client, scripts)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("state", "policy"), SCENES)
def test_any_two_scripts_agree_with_the_model_of_a_dag(state: str, policy: str, wire: Wire) -> None:
    any_two(graph_scene(state, policy, wire), wire, MOVES)
