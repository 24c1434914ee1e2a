"""What a server says it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redis.asyncio import RedisCluster

if TYPE_CHECKING:
    from rqueue.store.address import Client


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What the server says it is."""

    name: str
    version: tuple[int, int]
    run_id: str
    cluster: bool


async def ask_info(client: Client) -> dict[str, Any]:
    """INFO, from one node of a cluster or from the server."""
    if isinstance(client, RedisCluster):
        answer = await client.info(target_nodes=RedisCluster.DEFAULT_NODE)
    else:
        answer = await client.info()
    return dict(answer)


def read_info(facts: dict[str, Any]) -> ServerInfo:
    """The facts we look at, among all that INFO says."""
    name = str(facts.get("server_name", "redis")).lower()
    text = facts.get("valkey_version") or facts.get("redis_version") or "0.0"
    major, minor = (int(number) for number in str(text).split(".")[:2])
    return ServerInfo(
        name=name,
        version=(major, minor),
        run_id=str(facts.get("run_id", "")),
        cluster=bool(facts.get("cluster_enabled", 0)),
    )
