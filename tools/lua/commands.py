"""The Redis commands that moves call: the positions of their keys, and whether they write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

EVERY = "every word"
STREAMS = "after STREAMS"
NUMBERED = "the first, and those after their number"


@dataclass(frozen=True, slots=True)
class Command:
    """One command; `kind` is the type of its keys, None where it takes any."""

    kind: str | None
    writes: bool
    # The number of keys after the command's name, or one of the forms above.
    keys: int | str = 1
    # Whether the word after the name is a subcommand.
    has_subcommands: bool = False


def several(kind: str | None, reads: str = "", writes: str = "") -> dict[str, Command]:
    """Commands with one key, which is the first argument."""
    found = {name: Command(kind, writes=False) for name in reads.split()}
    return found | {name: Command(kind, writes=True) for name in writes.split()}


COMMANDS = {
    **several("string", "GET GETRANGE STRLEN", "SET GETDEL INCRBY"),
    **several(
        "hash",
        "HEXISTS HGET HGETALL HKEYS HLEN HMGET HRANDFIELD HSCAN",
        "HDEL HINCRBY HSET HSETNX",
    ),
    **several("list", "LINDEX LLEN LRANGE", "LPOP LPUSH LTRIM RPOP RPUSH"),
    **several("set", "SCARD SISMEMBER SMEMBERS SMISMEMBER SRANDMEMBER SSCAN", "SADD SPOP SREM"),
    **several(
        "zset",
        "ZCARD ZCOUNT ZMSCORE ZRANGE ZRANGEBYSCORE ZRANK ZREVRANGE ZREVRANGEBYSCORE ZSCAN ZSCORE",
        "ZADD ZINCRBY ZPOPMIN ZREM ZREMRANGEBYRANK ZREMRANGEBYSCORE",
    ),
    **several("stream", "XLEN XPENDING XRANGE XREVRANGE", "XACK XADD XAUTOCLAIM XCLAIM XDEL XTRIM"),
    **several(None, "PTTL TYPE", "PERSIST PEXPIRE"),
    "DEL": Command(None, writes=True, keys=EVERY),
    "EXISTS": Command(None, writes=False, keys=EVERY),
    "RENAME": Command(None, writes=True, keys=2),
    "SCAN": Command(None, writes=False, keys=0),
    "TIME": Command(None, writes=False, keys=0),
    "XGROUP": Command("stream", writes=True, has_subcommands=True),
    "XINFO": Command("stream", writes=False, has_subcommands=True),
    "XREADGROUP": Command("stream", writes=True, keys=STREAMS),
    "ZUNIONSTORE": Command("zset", writes=True, keys=NUMBERED),
}


def keys_of(words: Sequence[str]) -> list[str]:
    """The keys of a command as it was sent."""
    command = COMMANDS[words[0].upper()]
    rest: Sequence[Any] = words[1:]
    match command.keys:
        case "every word":
            return list(rest)
        case "after STREAMS":
            streams = rest[[word.upper() for word in rest].index("STREAMS") + 1 :]
            return list(streams[: len(streams) // 2])
        case "the first, and those after their number":
            return [rest[0], *rest[2 : 2 + int(rest[1])]]
    first = int(command.has_subcommands)
    return list(rest[first : first + int(command.keys)])


def name_of(words: Sequence[str]) -> str:
    """A command's name as in ACL rules, in upper case: `XGROUP|CREATE`."""
    name = words[0].upper()
    if COMMANDS[name].has_subcommands:
        return f"{name}|{words[1].upper()}"
    return name
