"""The function library on a cluster of three primaries, on replicas, and after a failover."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from rqueue import Queue
from rqueue.store.connection import connect
from rqueue.store.functions import delete_functions, list_functions, load_functions
from rqueue.store.library import library
from tests.servers import Server, free_ports, start_port, wait

SLOTS = ((0, 5460), (5461, 10922), (10923, 16383))
OWN = library().name
# A user that may run functions and may not load them.
LIMITED = ("limited", "on", ">pw", "~*", "+@all", "-function|load")


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a cluster, and a client of this node."""

    server: Server
    client: redis.Redis
    port: int
    bus: int

    @property
    def id(self) -> str:
        return str(self.client.execute_command("CLUSTER MYID").decode())

    @property
    def url(self) -> str:
        return self.server.url.replace("redis://", "redis+cluster://")

    @property
    def libraries(self) -> list[str]:
        return names(self.client)

    def fact(self, name: str) -> str:
        """A field of CLUSTER INFO."""
        found = self.client.execute_command("CLUSTER INFO")
        if isinstance(found, dict):
            return str(found[name])
        return str(dict(line.split(":", 1) for line in found.decode().split())[name])


def names(client: redis.Redis) -> list[str]:
    """The libraries of one server."""
    rows = client.execute_command("FUNCTION LIST")
    return [row[row.index(b"library_name") + 1].decode() for row in rows]


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Node]]:
    """Starts a node outside of any cluster."""
    started: list[Node] = []

    def node() -> Node:
        port, bus = free_ports(2)
        folder = tmp_path / str(len(started))
        folder.mkdir()
        options = ("--cluster-enabled", "yes", "--cluster-port", str(bus))
        server = start_port("valkey", folder, port, *options, "--repl-diskless-sync-delay", "0")
        started.append(Node(server, redis.Redis.from_url(server.url, protocol=2), port, bus))
        return started[-1]

    try:
        yield node
    finally:
        for one in started:
            one.client.close()
            one.server.stop()


@pytest.fixture
def nodes(start: Callable[[], Node]) -> list[Node]:
    """A cluster of three primaries."""
    found = [start() for _ in SLOTS]
    for at, node in enumerate(found):
        node.client.execute_command("CLUSTER ADDSLOTSRANGE", *SLOTS[at])
        node.client.execute_command("CLUSTER SET-CONFIG-EPOCH", at + 1)
    for node in found[1:]:
        meet(found[0], node)
    until(lambda: all(is_ready(node) for node in found))
    return found


def is_ready(node: Node) -> bool:
    return node.fact("cluster_state") == "ok" and node.fact("cluster_size") == "3"


def meet(node: Node, other: Node) -> None:
    node.client.execute_command("CLUSTER MEET", "127.0.0.1", other.port, other.bus)


def joined(nodes: list[Node], other: Node) -> None:
    """Adds a node to the cluster."""
    meet(nodes[0], other)
    everyone = [*nodes, other]
    until(lambda: all(one.fact("cluster_known_nodes") == str(len(everyone)) for one in everyone))
    until(lambda: all(one.fact("cluster_state") == "ok" for one in everyone))


def owner_of(nodes: list[Node], slot: int) -> Node:
    """The primary that owns a slot."""
    return next(node for node, (low, high) in zip(nodes, SLOTS, strict=True) if low <= slot <= high)


def slot_of(node: Node, queue: str) -> int:
    return int(node.client.execute_command("CLUSTER KEYSLOT", f"{{{queue}}}"))


def hand_over(slot: int, nodes: list[Node], source: Node, target: Node) -> None:
    """Moves a slot with its keys."""
    target.client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", source.id)
    source.client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", target.id)
    keys = source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, 1000)
    words = ("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
    source.client.execute_command(*words)
    for node in (target, source, *nodes):
        node.client.execute_command("CLUSTER SETSLOT", slot, "NODE", target.id)


async def test_the_first_call_loads_the_library_on_every_primary(nodes: list[Node]) -> None:
    async with Queue("many", url=nodes[0].url) as queue:
        await queue.enqueue("code")
        assert (await queue.counts())["READY"] == 1

    assert [node.libraries for node in nodes] == [[OWN]] * 3


async def test_the_first_call_to_a_primary_without_the_library_loads_it(nodes: list[Node]) -> None:
    async with Queue("many", url=nodes[0].url) as queue:
        await queue.enqueue("code")
        for node in nodes:
            node.client.function_flush("SYNC")
            await queue.enqueue("code")
        assert (await queue.counts())["READY"] == 4


async def test_the_first_call_to_a_primary_that_joined_loads_the_library(
    nodes: list[Node], start: Callable[[], Node]
) -> None:
    async with Queue("many", url=nodes[0].url) as queue:
        await queue.enqueue("code")
        newcomer, slot = start(), slot_of(nodes[0], "many")
        joined(nodes, newcomer)
        assert newcomer.libraries == []
        hand_over(slot, nodes, owner_of(nodes, slot), newcomer)

        await queue.enqueue("code")
        assert (await queue.counts())["READY"] == 2

    assert newcomer.libraries == [OWN]


async def test_a_cluster_is_listed_loaded_and_pruned_as_a_whole(nodes: list[Node]) -> None:
    connection = connect(nodes[0].url)
    try:
        assert await load_functions(connection, library()) == (3, 0)
        nodes[2].client.function_flush("SYNC")
        (row,) = await list_functions(connection)
        assert (row.name, row.primaries) == (OWN, 2)
        assert await load_functions(connection, library()) == (1, 2)
        await delete_functions(connection, OWN)
    finally:
        await connection.aclose()

    assert [node.libraries for node in nodes] == [[]] * 3


async def test_a_failover_of_a_cluster_needs_no_load(
    nodes: list[Node], start: Callable[[], Node]
) -> None:
    primary, replica = owner_of(nodes, slot_of(nodes[0], "many")), start()
    joined(nodes, replica)
    replica.client.execute_command("CLUSTER REPLICATE", primary.id)
    until(lambda: replica.client.info("replication").get("master_link_status") == "up")
    connection = connect(nodes[0].url)
    assert await load_functions(connection, library()) == (3, 0)
    await connection.aclose()
    for node in (*nodes, replica):
        node.client.execute_command("ACL SETUSER", *LIMITED)

    url = nodes[0].url.replace("//", "//limited:pw@")
    async with Queue("many", url=url) as queue:
        await queue.enqueue("code")
        until(lambda: replica.libraries == [OWN])
        replica.client.execute_command("CLUSTER FAILOVER")
        until(lambda: replica.client.info("replication")["role"] == "master")
        await queue.enqueue("code")
        assert (await queue.counts())["READY"] == 2


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """A primary and its replica."""
    ports = free_ports(2)
    options = (("--repl-diskless-sync-delay", "0"), ("--replicaof", f"127.0.0.1 {ports[0]}"))
    started: list[Server] = []
    try:
        for port, more in zip(ports, options, strict=True):
            (tmp_path / str(port)).mkdir()
            started.append(start_port("valkey", tmp_path / str(port), port, *more))
        first, second = started
        with redis.Redis.from_url(second.url, protocol=2) as client:
            wait(lambda: client.info("replication")["master_link_status"] == "up", second)
        yield first, second
    finally:
        for server in started:
            server.stop()


async def test_a_replica_has_the_library_and_answers_reads(pair: tuple[Server, Server]) -> None:
    first, second = pair
    async with Queue("safe", url=first.url, wait_replicas=1) as queue:
        await queue.enqueue("code")
        shard = queue._internals.shard
    move = library().moves["queue/counts"]
    words = move.pack(
        shard.move_keys[move.name], {**dict.fromkeys(move.args, "[]"), "root": shard.root}
    )
    assert move.verb == "FCALL_RO"

    with (
        redis.Redis.from_url(first.url, protocol=2) as primary,
        redis.Redis.from_url(second.url, protocol=2) as replica,
    ):
        assert names(replica) == [OWN]
        reply = replica.execute_command("FCALL_RO", move.function, *words)
        assert reply == primary.execute_command("FCALL_RO", move.function, *words)
    assert reply[:2] == [b"OK", [b"submitted", b"1"]]


async def test_a_promoted_replica_needs_no_load(pair: tuple[Server, Server]) -> None:
    first, second = pair
    async with Queue("safe", url=first.url, wait_replicas=1) as queue:
        await queue.enqueue("code")
    first.stop()
    with redis.Redis.from_url(second.url, protocol=2) as client:
        client.execute_command("REPLICAOF", "NO", "ONE")
        client.execute_command("ACL SETUSER", *LIMITED)

    async with Queue("safe", url=second.url.replace("//", "//limited:pw@")) as queue:
        await queue.enqueue("code")
        assert (await queue.counts())["READY"] == 2
