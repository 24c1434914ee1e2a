"""Real servers for the tests: started once, in their own directories, without persistence."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from redis import asyncio as aredis

from rqueue import embedded
from rqueue.store.connection import Connection, connect
from tests.guard import guarded

KINDS = ("valkey", "redis7", "cluster")
START_SEC = 60.0
NO_PERSISTENCE = ("--save", "", "--appendonly", "no")


@dataclass(slots=True)
class Server:
    """One running server."""

    kind: str
    url: str
    process: subprocess.Popen[bytes]

    @property
    def is_cluster(self) -> bool:
        return self.kind == "cluster"

    def client(self) -> aredis.Redis | aredis.RedisCluster:
        """A plain client in bytes mode; the caller closes it."""
        if self.is_cluster:
            return aredis.RedisCluster.from_url(self.plain_url, protocol=2)
        return aredis.Redis.from_url(self.plain_url, protocol=2)

    def connection(self, *, timeout_sec: float = 40) -> Connection:
        """An rqueue connection; the caller closes it."""
        return connect(self.url, timeout_sec=timeout_sec)

    @property
    def plain_url(self) -> str:
        return self.url.replace("redis+cluster://", "redis://")

    def flush(self) -> None:
        """Deletes all data."""
        with redis.Redis.from_url(self.plain_url, protocol=2) as client:
            client.flushall()

    def stop(self) -> None:
        """Ends the server without saving."""
        self.process.kill()
        self.process.wait()


def start(kind: str, folder: Path, *options: str) -> Server:
    """A new server of a kind: `valkey`, `redis7` or `cluster`; options as on its command line."""
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "cluster":
        return start_cluster(folder, options)
    program = str(embedded.binary()) if kind == "valkey" else redis_program()
    path = folder / "server.sock"
    where = ("--port", "0", "--unixsocket", str(path), "--unixsocketperm", "700")
    process = launch(program, folder, *where, *options)
    return ready(Server(kind, f"unix://{path}", process))


def start_port(kind: str, folder: Path, port: int, *options: str) -> Server:
    """A new server on a TCP port; a configuration file may be the first option."""
    program = str(embedded.binary()) if kind == "valkey" else redis_program()
    config = [word for word in options[:1] if not word.startswith("--")]
    rest = options[len(config) :]
    # Sentinel has no persistence options.
    keep = () if "--sentinel" in rest else NO_PERSISTENCE
    where = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder))
    process = spawn([program, *config, *where, *keep, *rest], folder)
    return ready(Server(kind, f"redis://127.0.0.1:{port}", process))


def start_cluster(folder: Path, options: tuple[str, ...]) -> Server:
    """A cluster of one node that holds every slot: enough to detect keys of different slots."""
    program = shutil.which("redis-server") or str(embedded.binary())
    port, bus = free_ports(2)
    where = ("--port", str(port), "--bind", "127.0.0.1")
    cluster = ("--cluster-enabled", "yes", "--cluster-port", str(bus))
    process = launch(program, folder, *where, *cluster, *options)
    server = ready(Server("cluster", f"redis+cluster://127.0.0.1:{port}", process))
    with redis.Redis.from_url(server.plain_url, protocol=2) as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait(lambda: b"cluster_state:ok" in raw(client, "CLUSTER", "INFO"), server)
    return server


def raw(client: redis.Redis, *words: str) -> bytes:
    """The reply of a command as bytes, in whatever form redis-py returns it."""
    answer = client.execute_command(*words)
    if isinstance(answer, dict):
        return b"\n".join(f"{name}:{value}".encode() for name, value in answer.items())
    return bytes(answer)


def launch(program: str, folder: Path, *options: str) -> subprocess.Popen[bytes]:
    return spawn([program, *NO_PERSISTENCE, "--dir", str(folder), *options], folder)


def spawn(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "server.log").open("ab") as log:
        quiet = subprocess.DEVNULL
        return guarded(subprocess.Popen(command, stdin=quiet, stdout=log, stderr=log))


def ready(server: Server) -> Server:
    """Waits until the server answers."""
    with redis.Redis.from_url(server.plain_url, protocol=2) as client:
        wait(lambda: pings(client), server)
    return server


def pings(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def wait(true: object, server: Server) -> None:
    assert callable(true)
    until = time.monotonic() + START_SEC
    while not true():
        if server.process.poll() is not None or time.monotonic() > until:
            server.stop()
            raise RuntimeError(f"the {server.kind} server did not start")
        time.sleep(0.02)


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    lines = [socket.socket() for _ in range(count)]
    for line in lines:
        line.bind(("127.0.0.1", 0))
    ports = [int(line.getsockname()[1]) for line in lines]
    for line in lines:
        line.close()
    return ports


def redis_program() -> str:
    """Redis 7: it may be missing on a laptop, not in CI."""
    program = shutil.which("redis-server")
    if program is None:
        if os.environ.get("RQUEUE_TEST_REDIS") == "required" or os.environ.get("CI") == "true":
            pytest.fail("redis-server is required here and is not on PATH")
        pytest.skip("redis-server is not on PATH")
    return program
