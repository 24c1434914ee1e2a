"""The check of the moves against MONITOR fails where it must."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from rqueue.store.library import build
from tests.harness import NAME
from tests.monitored import Monitor, Watch, named, seen_in, unnamed
from tests.servers import Server
from tools.lua.arguments import UnknownKeys
from tools.lua.touches import LUA, touched_in, touches

MOVE = "queue/counts"
ROOT = f"rq:{{{NAME}}}:"


@pytest.fixture
def lua(tmp_path: Path) -> Path:
    """A copy of the Lua sources, to be changed."""
    return Path(shutil.copytree(LUA, tmp_path / "lua"))


@pytest.fixture
def client(valkey: Server) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey.url) as client:
        yield client


def add(lua: Path, line: str) -> None:
    """Adds a line to a move, before its return."""
    path = lua / f"{MOVE}.lua"
    head, found, rest = path.read_text().rpartition("\nreturn ")
    path.write_text(f"{head}\n{line}{found}{rest}")


@pytest.fixture
def check(client: redis.Redis, valkey: Server, lua: Path) -> Callable[..., list[str]]:
    """Adds lines to a move, calls it, and returns the result of the check."""

    def checked(*lines: str) -> list[str]:
        for line in lines:
            add(lua, line)
        changed = build(lua)
        move = changed.moves[MOVE]
        args = dict.fromkeys(move.args, "[]") | {"root": ROOT}
        words = move.pack(dict.fromkeys(move.keys, f"{ROOT}ready"), args)
        client.function_load(changed.source)
        monitor = Monitor(valkey)
        client.execute_command(move.verb, move.function, *words)
        client.function_delete(changed.name)
        return unnamed(seen_in(monitor.lines()))

    return checked


def test_a_move_may_touch_what_its_page_names(check: Callable[..., list[str]]) -> None:
    assert check("redis.call('SMEMBERS', root .. 'paused')") == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('redis.call("HGET", root .. "leader", "owner")', "HGET to leader"),
        ('redis.call("EXISTS", root .. "paused")', "EXISTS to paused"),
        ('redis.call("GET", root .. "unheard of")', "GET to unheard of"),
        ('redis.call("GET", "elsewhere")', "GET to elsewhere"),
        ('redis.call("TOUCH", root .. "stats")', "TOUCH to ?"),
    ],
)
def test_a_key_added_to_a_move_is_reported(
    check: Callable[..., list[str]], line: str, said: str
) -> None:
    assert check(line) == [f"queue/counts sends {said}, which docs/functions.md does not name"]


def test_a_key_added_to_a_move_makes_its_page_stale_or_is_refused(lua: Path) -> None:
    add(lua, 'redis.call("HGET", root .. "leader", "owner")')
    assert touched_in(lua)[MOVE] != touches()[MOVE]

    add(lua, 'redis.call("GET", root .. "unheard of")')
    with pytest.raises(
        UnknownKeys, match=r"lua/queue/counts.lua:\d+: GET of rq:\{queue\}:unheard of"
    ):
        touched_in(lua)


def test_commands_of_other_clients_are_not_moves(client: redis.Redis, valkey: Server) -> None:
    monitor = Monitor(valkey)
    client.set('a" "b', b"\x00\r\n")
    client.eval("return redis.call('GET', KEYS[1])", 1, "elsewhere")

    lines = monitor.lines()

    assert len(lines) >= 3
    assert seen_in(lines) == {}


def test_the_page_names_every_move() -> None:
    assert set(named()) == set(touches())
    assert ("task:<task>", "HSET") in named()["task/start"]
    assert ("*", "TYPE") in named()["repair/mentions"]


def watch(*left_out: str, whole: bool = True) -> Watch:
    """A run that has called all moves except these."""
    found = Watch(whole=whole)
    found.seen = set(named()) - set(left_out)
    return found


def test_a_complete_run_must_call_every_move() -> None:
    assert watch().missing() == []
    assert watch("task/start").missing() == ["task/start"]
    assert watch("task/start", whole=False).missing() == []


def test_processes_report_their_moves() -> None:
    class Node:
        workeroutput: dict[str, Any]

    found = Watch(whole=True)
    for moves in ({"task/start"}, set(named()) - {"task/start"}):
        node = Node()
        node.workeroutput = {"watched": sorted(moves)}
        found.pytest_testnodedown(node)

    assert found.missing() == []
