"""Two clients: any move of one, then any move of the other.

Moves are atomic, so these are all single steps of two clients: from every state, every move of
one, then every move of the other. The model agrees, and the invariants hold.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from rqueue.store.library import Library
from rqueue.task.lane import Lane
from tests.machine.pairs import LANE, MOVES, STATES, TENANT_LANE, scenario_in
from tests.machine.server_shard import ServerShard, library_with_clock
from tests.machine.snapshots import check_all_pairs
from tests.servers import Server


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return library_with_clock(tmp_path_factory.mktemp("pairs") / "lua")


@pytest.fixture
def server_shard(valkey: Server, library: Library) -> Iterator[ServerShard]:
    with redis.Redis.from_url(valkey.plain_url, protocol=2) as client:
        yield ServerShard(client, library)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("state", STATES)
def test_any_two_scripts_agree_with_the_model_from(state: str, server_shard: ServerShard) -> None:
    check_all_pairs(scenario_in(state, server_shard), server_shard, MOVES)


@pytest.mark.parametrize("lane", [LANE, TENANT_LANE], ids=["plain", "keyed"])
@pytest.mark.parametrize("state", STATES)
def test_every_script_agrees_with_the_model_from(
    state: str, lane: Lane, server_shard: ServerShard
) -> None:
    for name in MOVES:
        scenario = scenario_in(state, server_shard, lane)
        scenario.shard.start_comparing()

        scenario.move(name)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", STATES)
def test_any_two_scripts_agree_about_tenants_from(state: str, server_shard: ServerShard) -> None:
    check_all_pairs(scenario_in(state, server_shard, TENANT_LANE), server_shard, MOVES)
