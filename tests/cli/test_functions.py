"""`rqueue functions list, load, prune`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from rqueue.store.functions import DAY_MS, USED
from rqueue.store.library import library
from tests.cli.conftest import Shell
from tests.harness import NAME
from tests.servers import Server

OWN = library().name


@contextmanager
def plain(server: Server) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.plain_url, protocol=2) as client:
        yield client


@pytest.fixture
def client(server: Server) -> Iterator[redis.Redis]:
    """A client of a server that has no library."""
    with plain(server) as found:
        found.function_flush("SYNC")
        yield found
        found.function_flush("SYNC")


def add(client: redis.Redis, name: str, days: int | None) -> None:
    """A library of another release that was last recorded so many days ago."""
    text = f"redis.register_function('{name}_none', function() return 1 end)"
    client.function_load(f"#!lua name={name}\n{text}")
    if days is not None:
        now_ms = client.time()[0] * 1000
        client.hset(USED, name, str(now_ms - days * DAY_MS))


def names(client: redis.Redis) -> set[str]:
    found = client.execute_command("FUNCTION LIST")
    return {row[row.index(b"library_name") + 1].decode() for row in found}


async def test_load_prints_the_number_of_primaries(client: redis.Redis, shell: Shell) -> None:
    (line,) = await shell.lines("functions", "load")
    (again,) = await shell.json("functions", "load")

    assert line == f"{OWN} loaded on 1 of 1 primaries"
    assert again == {"library": OWN, "loaded": 0, "present": 1}
    assert names(client) == {OWN}


async def test_libraries_are_listed_with_their_last_use(client: redis.Redis, shell: Shell) -> None:
    found = await shell.run("functions", "list")
    assert f"{OWN} of this release is not loaded" in found.stderr
    await shell.lines("functions", "load")
    add(client, "rqueue_old", 40)
    add(client, "rqueue_unknown", None)
    add(client, "elsewhere", None)

    rows = {row["library"]: row for row in await shell.json("functions", "list")}

    assert set(rows) == {OWN, "rqueue_old", "rqueue_unknown"}
    assert rows[OWN] == {
        "library": OWN,
        "functions": len(library().moves),
        "primaries": 1,
        "idle_days": 0,
        "this_release": True,
    }
    assert rows["rqueue_old"]["idle_days"] == 40
    assert rows["rqueue_unknown"]["idle_days"] is None
    lines = await shell.lines("functions", "list")
    assert any(line.startswith(f"*  {OWN}") for line in lines)
    assert any("rqueue_unknown" in line and line.endswith("never") for line in lines)


async def test_prune_deletes_libraries_that_no_client_recorded_for_the_time(
    client: redis.Redis, shell: Shell
) -> None:
    await shell.lines("functions", "load")
    client.hset(USED, OWN, "1")
    for name, days in (("rqueue_old", 30), ("rqueue_new", 29), ("rqueue_unknown", None)):
        add(client, name, days)
    add(client, "elsewhere", None)
    kept = {OWN, "rqueue_new", "rqueue_unknown", "elsewhere"}

    assert await shell.lines("functions", "prune", "--dry-run") == ["rqueue_old would be deleted"]
    assert names(client) == {*kept, "rqueue_old"}
    refused = await shell.run("functions", "prune")
    assert refused.exit_code == 2
    assert "1 library would be deleted: add --yes, or --dry-run" in refused.stderr
    assert names(client) == {*kept, "rqueue_old"}

    (row,) = await shell.json("functions", "prune", "--yes")
    assert (row["library"], row["deleted"]) == ("rqueue_old", True)
    assert names(client) == kept
    assert not client.hexists(USED, "rqueue_old")
    nothing = await shell.run("functions", "prune", "--yes")
    assert nothing.exit_code == 1

    await shell.lines("functions", "prune", "--yes", "--unrecorded", "--days", "2")
    assert names(client) == {OWN, "elsewhere"}


@pytest.mark.parametrize("command", [("counts",), ("functions", "load")])
async def test_a_user_without_the_right_gets_one_line_and_exit_5(
    server: Server, client: redis.Redis, empty_dir: Path, command: tuple[str, ...]
) -> None:
    rules = ("on", ">pw", "~*", "+@all", "-function|load")
    client.execute_command("ACL", "SETUSER", "probe", *rules)
    try:
        url = f"{server.url}?username=probe&password=pw"
        result = await Shell({"RQUEUE_REDIS_URL": url, "RQUEUE_QUEUE": NAME}).run(*command)
    finally:
        client.execute_command("ACL", "DELUSER", "probe")

    assert result.exit_code == 5
    assert "run `rqueue functions load` as a user with FUNCTION LOAD" in result.stderr
    assert result.stderr.count("\n") == 1
