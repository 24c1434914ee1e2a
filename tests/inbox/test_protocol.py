"""docs/protocol.md is the contract: its lines are sent unchanged and have the documented effect."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
from redis import asyncio as aredis
from redis.exceptions import NoPermissionError

from rqueue import Queue
from rqueue.clock import SYSTEM
from rqueue.inbox.reader import Inbox
from rqueue.runtime import assemble
from rqueue.settings.load import Settings
from rqueue.store.connection import Connection
from rqueue.task.forms import view
from tests.servers import Server

PAGE = Path(__file__).parent.parent.parent / "docs" / "protocol.md"
BLOCKS = re.compile(r"^```console\n(.*?)^```\n\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = "$ redis-cli "
INBOX, REJECTED = "rq:{work}:inbox", "rq:{work}:rejected"


class Vector(NamedTuple):
    """Lines of the page, and their effect."""

    lines: list[str]
    tasks: list[dict[str, Any]]
    rejected: list[dict[str, str]]

    @property
    def commands(self) -> list[list[str]]:
        return [shlex.split(line)[2:] for line in self.lines]


def vectors() -> list[Vector]:
    found = []
    for sent, expected in BLOCKS.findall(PAGE.read_text("utf-8")):
        outcome = json.loads(expected)
        assert set(outcome) <= {"tasks", "rejected"}
        lines = [line for line in sent.splitlines() if line]
        found.append(Vector(lines, outcome.get("tasks", []), outcome.get("rejected", [])))
    return found


@pytest.fixture
async def work(connection: Connection) -> AsyncIterator[Queue]:
    """The queue that the page uses."""
    settings = Settings(name="work", url="redis://nowhere")
    queue = Queue("work", runtime=assemble(settings, connection))
    yield queue
    await queue.aclose()


async def tick(queue: Queue) -> None:
    await Inbox(queue._internals.shard, queue.settings, clock=SYSTEM, reader="r1").tick()


async def check(queue: Queue, client: Any, vector: Vector) -> None:
    """Asserts that the queue has exactly what the page documents."""
    tasks = sorted([view(task) async for task in queue.find()], key=lambda task: str(task["id"]))
    rows = [row for _, row in await client.xrange(REJECTED)]
    rejected = [{name.decode(): row[name].decode() for name in row} for row in rows]
    assert [part(*pair) for pair in zip(tasks, vector.tasks, strict=True)] == vector.tasks
    assert [part(*pair) for pair in zip(rejected, vector.rejected, strict=True)] == vector.rejected


def part(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """The fields that the page names."""
    return {name: found[name] for name in expected}


def test_the_vectors_of_the_page_are_plain_commands() -> None:
    found = vectors()

    assert len(found) >= 12
    assert all(line.startswith(PROMPT) for vector in found for line in vector.lines)
    assert {tuple(words[:2]) for vector in found for words in vector.commands} == {("XADD", INBOX)}


@pytest.mark.parametrize("number", range(len(vectors())))
async def test_a_line_of_the_page_has_the_documented_effect(
    work: Queue, client: aredis.Redis, number: int
) -> None:
    vector = vectors()[number]
    for words in vector.commands:
        await client.execute_command(*words)

    await tick(work)

    await check(work, client, vector)
    assert await client.execute_command("XLEN", INBOX) == 0


async def test_a_repeated_entry_with_its_id_creates_no_second_task(
    work: Queue, client: aredis.Redis
) -> None:
    vector = vectors()[0]
    (words,) = vector.commands
    entry = await client.execute_command(*words)
    await tick(work)
    await client.delete(INBOX)
    await client.execute_command(*words[:2], entry, *words[3:])

    await tick(work)

    await check(work, client, vector)


@pytest.mark.parametrize("number", range(len(vectors())))
def test_the_shell_and_redis_cli_parse_a_line_like_the_test(
    redis7: Server, tmp_path: Path, number: int
) -> None:
    program = shutil.which("redis-cli")
    if program is None:
        pytest.skip("redis-cli is not on PATH")
    here = tmp_path / "redis-cli"
    here.write_text(f'#!/bin/sh\nexec {program} -s {redis7.url.removeprefix("unix://")} "$@"\n')
    here.chmod(0o700)
    vector = vectors()[number]
    lines = [line.removeprefix("$ ") for line in vector.lines]

    subprocess.run(
        ["sh", "-ec", f'PATH="{tmp_path}:$PATH"\n' + "\n".join(lines)],
        check=True,
        capture_output=True,
    )

    assert [words for _, words in entries(redis7)] == [words[3:] for words in vector.commands]


def entries(server: Server) -> list[tuple[str, list[str]]]:
    """The inbox as the server returns it: redis-py would keep one field of each name."""
    with redis.Redis.from_url(server.url, protocol=2, decode_responses=True) as client:
        client.set_response_callback("XRANGE", lambda reply, **_: reply)
        return list(client.execute_command("XRANGE", INBOX, "-", "+"))


async def test_the_documented_permission_is_sufficient_and_minimal(redis7: Server) -> None:
    (line,) = (line for line in PAGE.read_text("utf-8").splitlines() if "ACL SETUSER" in line)
    path = redis7.url.removeprefix("unix://")
    async with redis7.client() as client:
        await client.execute_command(*shlex.split(line)[2:])
        async with aredis.Redis(
            unix_socket_path=path, username="producer", password="secret", protocol=2
        ) as producer:
            assert await producer.execute_command("XADD", INBOX, "*", "task", "{}")
            with pytest.raises(NoPermissionError):
                await producer.execute_command("XRANGE", INBOX, "-", "+")
            with pytest.raises(NoPermissionError):
                await producer.execute_command("XADD", REJECTED, "*", "task", "{}")
        await client.execute_command("ACL", "DELUSER", "producer")
