"""Two clients and one DAG: from every state, every move of one, then every move of the other.
The model agrees, and the invariants hold.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from rqueue.store.library import Library
from tests.machine.dags.dag_pairs import MOVES, STATES, dag_scenario
from tests.machine.server_shard import ServerShard, library_with_clock
from tests.machine.snapshots import check_all_pairs
from tests.servers import Server

# Only failures depend on the policy.
SCENARIOS = [(state, "hold") for state in STATES]
SCENARIOS += [(s, p) for s in ("running", "dead", "suspended") for p in ("fail_fast", "continue")]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return library_with_clock(tmp_path_factory.mktemp("pairs") / "lua")


@pytest.fixture
def server_shard(valkey: Server, library: Library) -> Iterator[ServerShard]:
    with redis.Redis.from_url(valkey.plain_url, protocol=2) as client:
        yield ServerShard(client, library)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("state", "policy"), SCENARIOS)
def test_any_two_scripts_agree_with_the_model_of_a_dag(
    state: str, policy: str, server_shard: ServerShard
) -> None:
    check_all_pairs(dag_scenario(state, policy, server_shard), server_shard, MOVES)
