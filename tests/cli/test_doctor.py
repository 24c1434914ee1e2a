"""`rqueue ping` and `rqueue doctor` on real servers with real restrictions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from rqueue.core.workers import Registration
from rqueue.process.scheduler import lead
from rqueue.store.library import library
from tests import servers
from tests.cli.conftest import Shell
from tests.harness import NAME, Harness, build
from tests.lua.worker.registered import register_worker
from tests.servers import Server


async def findings(shell: Shell, *words: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code of `rqueue doctor`, and its findings by subject."""
    result = await shell.run("doctor", "--json", *words)
    rows: list[dict[str, Any]] = [json.loads(line) for line in result.stdout.splitlines()]
    return result.exit_code, {row["what"]: row for row in rows}


@contextmanager
def plain(server: Server) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.plain_url, protocol=2) as client:
        yield client


@contextmanager
def restricted(server: Server, *rules: str) -> Iterator[Shell]:
    """A shell whose user has all rights except those that the rules remove."""
    with plain(server) as client:
        client.execute_command("ACL", "SETUSER", "probe", "on", ">pw", "~rq:*", "+@all", *rules)
        try:
            url = f"{server.url}?username=probe&password=pw"
            yield Shell({"RQUEUE_REDIS_URL": url, "RQUEUE_QUEUE": NAME})
        finally:
            client.execute_command("ACL", "DELUSER", "probe")


async def test_ping_of_a_running_server_succeeds(shell: Shell) -> None:
    (line,) = await shell.lines("ping")
    (document,) = await shell.json("ping")

    assert " answered after " in line
    assert document["took_ms"] > 0


async def test_an_unavailable_server_is_exit_4(unset_shell: Shell) -> None:
    url = "unix:///nowhere/at/all.sock"

    result = await unset_shell.run("ping", "--timeout", "0.1", "--url", url)

    assert result.exit_code == 4
    assert result.stderr.startswith(f"rqueue: the server did not answer: {url}")
    assert result.stderr.count("\n") == 1


async def test_a_queue_without_a_scheduler_is_a_failure(harness: Harness, shell: Shell) -> None:
    await harness.queue.enqueue("code")

    code, found = await findings(shell)

    assert code == 1
    assert found[f"queue {NAME}: scheduler"]["level"] == "fail"
    assert "rqueue scheduler" in found[f"queue {NAME}: scheduler"]["advice"]


async def test_a_healthy_server_passes(harness: Harness, shell: Shell) -> None:
    await register_worker(harness, "w1", "w1/a", Registration(types=("code",)))
    await harness.queue.enqueue("code")
    await lead(harness.queue._internals.shard, "s1", ttl_ms=60_000)

    code, found = await findings(shell)

    assert code == 0
    assert {what: row["level"] for what, row in found.items()} == {
        "version": "ok",
        "memory": "ok",
        "persistence": "warn",
        "clock": "ok",
        "functions": "ok",
        "permissions": "ok",
        f"queue {NAME}: scheduler": "ok",
        f"queue {NAME}: lag": "ok",
    }
    assert found[f"queue {NAME}: scheduler"]["found"] == "leader is s1"
    assert found["persistence"]["found"] == "off: a restart loses every task"
    assert any(line.startswith("warn  persistence") for line in await shell.lines("doctor"))


async def test_tasks_that_no_live_worker_can_run_are_reported_with_their_needs(
    harness: Harness, shell: Shell
) -> None:
    await register_worker(harness, "w1", "w1/a", Registration(types=("code",)))
    for _ in range(2):
        await harness.queue.enqueue("code", required_capabilities=["gpu"])

    _, found = await findings(shell)

    line = found[f"queue {NAME}: unserved"]
    assert line["level"] == "warn"
    assert line["found"] == "2 ready tasks that no live worker can run: type code, capabilities gpu"
    assert "rqueue worker" in line["advice"]


async def test_without_a_name_every_queue_is_checked(harness: Harness, shell: Shell) -> None:
    await harness.queue.enqueue("code")
    await harness.queue.pause()
    shell.env["RQUEUE_QUEUE"] = None

    _, found = await findings(shell)

    assert found[f"queue {NAME}: paused"]["found"] == "queue"


async def test_a_server_without_queues_is_checked(harness: Harness, shell: Shell) -> None:
    shell.env["RQUEUE_QUEUE"] = None

    code, found = await findings(shell)

    assert code == 0
    assert not any(what.startswith("queue") for what in found)


async def test_the_lag_is_the_age_of_the_oldest_unclaimed_task(
    harness: Harness, shell: Shell
) -> None:
    await harness.running()
    await harness.client.xadd(harness.keys.ready(), {"task": "x"})

    _, found = await findings(shell)
    assert found[f"queue {NAME}: lag"]["level"] == "ok"

    await harness.client.delete(harness.keys.ready())
    await harness.client.xadd(harness.keys.ready(), {"task": "x"}, id="1-1")
    _, found = await findings(shell)
    assert found[f"queue {NAME}: lag"]["level"] == "warn"
    assert "rqueue workers" in found[f"queue {NAME}: lag"]["advice"]


async def test_a_server_that_evicts_is_a_failure(valkey: Server, empty_dir: Path) -> None:
    shell = Shell({"RQUEUE_REDIS_URL": valkey.url})
    with plain(valkey) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            code, found = await findings(shell)
        finally:
            client.config_set("maxmemory-policy", "noeviction")

    assert code == 1
    assert found["memory"]["advice"] == "CONFIG SET maxmemory-policy noeviction"


@pytest.mark.parametrize(
    ("rule", "what", "text"),
    [
        ("-xadd", "permissions", "refused: XADD"),
        ("-blpop", "permissions", "refused: BLPOP"),
        ("-xgroup|create", "permissions", "refused: XGROUP|CREATE"),
        ("-fcall_ro", "permissions", "this user may not call functions on the queue's keys"),
        ("-function|load", "functions", "the server does not have the functions rqueue_"),
    ],
)
async def test_a_forbidden_command_is_named(
    server: Server, empty_dir: Path, rule: str, *, what: str, text: str
) -> None:
    with plain(server) as client:
        client.function_flush("SYNC")
    with restricted(server, rule) as shell:
        code, found = await findings(shell)

    assert code == 1
    assert found[what]["level"] == "fail"
    assert found[what]["found"].startswith(text)
    assert found[what]["advice"]


async def test_forbidden_keys_are_reported(server: Server, empty_dir: Path) -> None:
    with restricted(server, "resetkeys", "~other:*") as shell:
        code, found = await findings(shell)

    assert code == 1
    assert found["permissions"]["level"] == "fail"
    assert "~<namespace>:*" in found["permissions"]["advice"]
    assert found["queues"]["level"] == "warn"


async def test_checking_permissions_does_not_crash_the_server(
    server: Server, empty_dir: Path
) -> None:
    """An ACL DRYRUN with too few arguments crashes Redis 7.0.15 and Valkey 9.1.2 for such users."""
    with restricted(server) as shell:
        for _ in range(20):
            _, found = await findings(shell)
            assert found["permissions"]["level"] == "ok"

    with plain(server) as client:
        assert client.ping()


async def test_facts_that_the_user_may_not_read_are_warnings(
    valkey: Server, empty_dir: Path
) -> None:
    harness = build(valkey.connection(), valkey.client())
    await lead(harness.queue._internals.shard, "s1", ttl_ms=60_000)
    with restricted(valkey, "-info", "-config") as shell:
        code, found = await findings(shell)
    await harness.queue.aclose()
    await harness.client.aclose()

    assert code == 0
    for what in ("version", "memory", "persistence"):
        assert found[what]["level"] == "warn"
        assert found[what]["found"] == "this user may not read it"


async def test_without_the_right_to_scan_queues_are_a_warning(
    valkey: Server, empty_dir: Path
) -> None:
    with restricted(valkey, "-scan") as shell:
        shell.env["RQUEUE_QUEUE"] = None
        _, found = await findings(shell)
        listed = await shell.run("queues")

    assert found["queues"]["level"] == "warn"
    assert listed.exit_code == 5
    assert "ACL forbids this user a command: " in listed.stderr


async def test_a_replica_is_a_failure(valkey: Server, empty_dir: Path, tmp_path: Path) -> None:
    (port,) = servers.free_ports(1)
    replica = servers.start_port("valkey", tmp_path, port)
    with plain(replica) as client:
        client.function_load(library().source)
        # Its primary does not exist: it refuses writes like any replica.
        client.replicaof("127.0.0.1", "1")
    shell = Shell({"RQUEUE_REDIS_URL": replica.url, "RQUEUE_QUEUE": NAME})
    try:
        code, found = await findings(shell)
    finally:
        replica.stop()

    assert code == 1
    assert found["role"]["level"] == "fail"
    assert f"queue {NAME}: scheduler" in found


@pytest.mark.parametrize("answer", [b"+OK\r\n", b"$2\r\nOK\r\n"])
async def test_a_server_that_is_not_redis_is_exit_4(empty_dir: Path, answer: bytes) -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while await reader.read(65536):
                writer.write(answer)
        writer.close()

    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        shell = Shell({"RQUEUE_REDIS_URL": f"redis://127.0.0.1:{port}"})
        result = await shell.run("doctor")

    assert result.exit_code == 4
    assert result.stderr.count("\n") == 1
