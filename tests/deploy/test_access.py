"""The users of deploy/redis/users.acl: what each may do, and what each is refused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import NoPermissionError

from rqueue import Queue
from rqueue.errors import ConfigError, FunctionsMissing
from rqueue.store.connection import connect
from rqueue.store.functions import USED, list_functions, load_functions, record_use
from rqueue.store.keys import Keys
from rqueue.store.library import library
from tests import servers
from tests.deploy.access import FILE, PASSWORD, admin, client_of, lines, names, url_of
from tests.harness import NAME
from tests.servers import Server
from tools.acl import PREFIX, ROLES, Role, unassigned
from tools.keys import patterns
from tools.lua.commands import COMMANDS
from tools.lua.touches import touches

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "deploy.md"
KEYS = Keys("rq", NAME)
EVERY_ROLE = [role.name for role in ROLES]
OF_QUEUE = [role.name for role in ROLES if role.moves]
OWN = library()
REFUSED = [
    ("EVAL", "return 1", "0"),
    ("EVAL_RO", "return 1", "0"),
    ("EVALSHA", "0" * 40, "0"),
    ("SCRIPT", "LOAD", "return 1"),
    ("SCRIPT", "FLUSH"),
    ("FUNCTION", "FLUSH"),
    ("FLUSHALL",),
    ("FLUSHDB",),
    ("KEYS", "*"),
    ("CONFIG", "GET", "*"),
    ("ACL", "LIST"),
    ("SHUTDOWN", "NOSAVE"),
    ("MONITOR",),
    ("PUBLISH", "a", "b"),
    ("XADD", "rq:{another}:inbox", "*", "task", "{}"),
    ("HGETALL", "rq:{another}:stats"),
    ("DEL", "rq:{another}:ready"),
    ("HGET", "something else", "field"),
    ("DEL", USED),
]
# Refused to all but the migrator, and refused to the migrator.
LOADING = [("FUNCTION", "LOAD", OWN.source), ("FUNCTION", "DELETE", OWN.name), ("FUNCTION", "LIST")]
OF_A_QUEUE = [("HGETALL", KEYS.stats()), ("DEL", KEYS.ready()), ("FCALL", "f", "1", KEYS.ready())]
WRITES = [
    ("HSET", KEYS.task("t"), "state", "READY"),
    ("DEL", KEYS.ready()),
    ("DEL", KEYS.task("t")),
    ("XADD", KEYS.inbox(), "*", "task", "{}"),
    ("XADD", KEYS.ready(), "*", "task", "t"),
    ("ZADD", KEYS.lane(1), "1", "t"),
    ("SET", KEYS.archiving(), "1"),
    ("HDEL", KEYS.stats(), "submitted"),
    ("SCAN", "0"),
]
# How many arguments a command needs for the server to check its rights.
BEHIND = {
    "GETRANGE": 2, "HDEL": 1, "HEXISTS": 1, "HGET": 1, "HINCRBY": 2, "HMGET": 1, "HSET": 2,
    "HSETNX": 2, "LINDEX": 1, "LRANGE": 2, "LTRIM": 2, "PEXPIRE": 1, "RPUSH": 1, "SADD": 1,
    "SET": 1, "SISMEMBER": 1, "SREM": 1, "SSCAN": 1, "XACK": 2, "XADD": 3, "XAUTOCLAIM": 4,
    "XCLAIM": 4, "XDEL": 1, "XGROUP|CREATE": 2, "XGROUP|DELCONSUMER": 2, "XINFO|CONSUMERS": 1,
    "XPENDING": 1, "XRANGE": 2, "XREVRANGE": 2, "XTRIM": 2, "ZADD": 2, "ZCOUNT": 2, "ZMSCORE": 1,
    "ZRANGE": 2, "ZRANGEBYSCORE": 2, "ZRANK": 1, "ZREM": 1, "ZREMRANGEBYRANK": 2,
    "ZREMRANGEBYSCORE": 2, "ZREVRANGE": 2, "ZREVRANGEBYSCORE": 2, "ZSCAN": 1, "ZSCORE": 1,
}  # fmt: skip


def test_every_move_is_called_by_some_role() -> None:
    assert unassigned() == []
    assert names() == [PREFIX + role.name for role in ROLES]


def test_no_user_of_the_file_can_log_in() -> None:
    for line in FILE.read_text("utf-8").splitlines():
        _, _, switch, *rules = line.split()
        assert switch == "off"
        assert "nopass" not in rules
        assert not [rule for rule in rules if rule[0] in ">#<!"]


@pytest.mark.parametrize("word", ["eval", "evalsha", "script", "@all", "allkeys", "allcommands"])
def test_no_rule_grants_more_than_named_commands(word: str) -> None:
    granted = {rule.strip("()") for line in lines() for rule in line.split()}

    assert not {f"+{word}", word} & granted
    assert "~*" not in granted
    assert not [rule for rule in granted if rule.startswith("+script")]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_each_move_has_the_rights_it_needs(acl_server: Server, role: Role) -> None:
    """Includes moves that the life of a few tasks does not call."""
    with admin(acl_server) as client:
        for name in sorted(role.moves):
            move = OWN.moves[name]
            keys = [getattr(KEYS, key)() for key in move.keys]
            assert may(client, role, move.verb, "f", str(len(keys)), *keys)
            for pattern, commands in touches()[name].keys.items():
                for command in commands:
                    words = example(pattern, command)
                    assert may(client, role, *words), (name, words)


def example(pattern: str, command: str) -> list[str]:
    """A command for a key of a pattern."""
    short = {one.name: one.short for one in patterns()}.get(pattern, "task:<task>")
    key, words = KEYS.root + short, command.split("|")
    if command == "XREADGROUP":
        return [*words, "GROUP", "g", "c", "STREAMS", key, ">"]
    if command == "ZUNIONSTORE":
        return [*words, key, "1", key]
    keys = [key] * 2 if COMMANDS[words[0]].keys == 2 else [key]
    return [*words, *keys, *["1"] * BEHIND.get(command, 0)]


def may(client: redis.Redis, role: Role, *words: str) -> bool:
    """Whether the server permits a command to a role."""
    found: Any = client.execute_command("ACL", "DRYRUN", PREFIX + role.name, *words)
    return bool(found == b"OK")


def refuses(server: Server, role: str, commands: list[tuple[str, ...]]) -> None:
    """Checks that a role is refused each of these commands."""
    with client_of(server, role) as client:
        for words in commands:
            with pytest.raises(NoPermissionError):
                client.execute_command(*words)


@pytest.mark.parametrize("role", EVERY_ROLE)
def test_dangerous_commands_are_refused_to_every_role(acl_server: Server, role: str) -> None:
    refuses(acl_server, role, REFUSED)


@pytest.mark.parametrize("role", OF_QUEUE)
def test_only_the_migrator_loads_and_deletes_functions(acl_server: Server, role: str) -> None:
    refuses(acl_server, role, LOADING)


async def test_the_migrator_can_load_functions_but_not_access_a_queue(
    acl_server: Server,
) -> None:
    refuses(acl_server, "migrator", [*OF_A_QUEUE, *WRITES])
    connection = connect(url_of(acl_server, "migrator"))
    try:
        assert await load_functions(connection, OWN) == (1, 0)
        await record_use(connection, OWN)
        (found,) = await list_functions(connection)
    finally:
        await connection.aclose()

    assert (found.name, found.idle_days) == (OWN.name, 0)


async def test_the_reader_cannot_write(acl_server: Server) -> None:
    refuses(acl_server, "reader", WRITES)
    with admin(acl_server) as client:
        client.function_load(OWN.source)
    async with Queue(NAME, url=url_of(acl_server, "producer")) as queue:
        task = await queue.enqueue("code")
    async with Queue(NAME, url=url_of(acl_server, "reader")) as queue:
        for call in (queue.enqueue("code"), queue.cancel(task.id), queue.pause()):
            with pytest.raises(ConfigError, match="ACL forbids this user"):
                await call
        assert (await queue.counts())["READY"] == 1


@pytest.mark.parametrize("role", OF_QUEUE)
async def test_missing_functions_raise_an_error_with_the_command(
    acl_server: Server, role: str
) -> None:
    async with Queue(NAME, url=url_of(acl_server, role)) as queue:
        with pytest.raises(FunctionsMissing, match="`rqueue functions load`") as caught:
            await (queue.counts() if role == "reader" else queue.enqueue("code"))

    assert caught.value.library == OWN.name
    assert caught.value.reason == "this user may not load them"


def test_the_page_lists_the_keys_that_the_reader_may_write() -> None:
    (reader,) = (line for line in FILE.read_text("utf-8").splitlines() if "-reader " in line)
    written = re.findall(r"\(~rq:\{queue\}:(\S+) \+(?!fcall)\w+\)", reader)
    (told,) = re.findall(r"so it may write (.*?), each", PAGE.read_text("utf-8"), re.DOTALL)

    assert sorted(written) == sorted(re.findall(r"`(.*?)`", told))


@pytest.fixture
def shell(redis7: Server, tmp_path: Path) -> Callable[[str], str]:
    """Runs a line of the page in the repository; redis-cli connects to this server."""
    program = shutil.which("redis-cli")
    if program is None:
        pytest.skip("redis-cli is not on PATH")
    cli = tmp_path / "redis-cli"
    cli.write_text(f'#!/bin/sh\nexec {program} -s {redis7.url.removeprefix("unix://")} "$@"\n')
    cli.chmod(0o700)

    def run(line: str) -> str:
        there = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "WORKER_PASSWORD": PASSWORD}
        words = ["sh", "-ec", line.replace("/etc/redis/", f"{tmp_path}/")]
        found = subprocess.run(
            words, cwd=ROOT, env=there, check=True, capture_output=True, text=True
        )
        return found.stdout

    return run


def test_the_commands_of_the_page_create_the_users(
    shell: Callable[[str], str], redis7: Server, tmp_path: Path
) -> None:
    """The commands to paste, and of the alternative those that need no `aclfile`."""
    section = PAGE.read_text("utf-8").partition("## Access")[2].partition("\n## ")[0]
    append, _, switch_on, _, paste = re.findall(r"^\$ (.*)$", section, re.MULTILINE)

    shell(append)
    assert shell(paste).split() == ["OK"] * len(ROLES)
    assert shell(switch_on).split() == ["OK"]

    pasted = {line.split()[1]: line.split() for line in shell("redis-cli ACL LIST").splitlines()}
    assert pasted["rqueue-worker"][2] == "on"
    assert "~rq:{orders}:*" in pasted["rqueue-worker"]
    assert [pasted[name][2] for name in names()].count("off") == len(ROLES) - 1
    appended = (tmp_path / "users.acl").read_text().splitlines()
    assert [line.split()[1] for line in appended] == names()
    assert not [line for line in appended if "{queue}" in line]
    shell(f"redis-cli ACL DELUSER {' '.join(names())}")


@pytest.mark.parametrize("kind", ["valkey", "redis7"])
async def test_the_acl_file_can_be_loaded_unchanged(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.write_text("user default on nopass ~* &* +@all\n")
    server = servers.start(kind, tmp_path / kind, "--aclfile", str(path))
    try:
        path.write_text("".join(f"{line}\n" for line in [path.read_text().strip(), *lines()]))
        with admin(server) as client:
            client.execute_command("ACL", "LOAD")
            for name in names():
                client.execute_command("ACL", "SETUSER", name, "on", f">{PASSWORD}")
            client.execute_command("ACL", "SAVE")
            client.execute_command("ACL", "LOAD")
            client.function_load(OWN.source)
        async with Queue(NAME, url=url_of(server, "producer")) as queue:
            await queue.enqueue("code")
            assert (await queue.counts())["READY"] == 1
    finally:
        server.stop()
