"""The keys that a move touches, found in its code: through helpers, tables and callers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.lua.arguments import UnknownKeys
from tools.lua.touches import EVERY_KEY, Touched, touched_in, touches

HEADER = """-- {verb}: no move
--
-- Does something.
--
-- KEYS  1 ready       stream  routes the call to the shard
-- ARGV  1 root        prefix of every key of the shard
--       2 task        its id
-- {more}
-- REPLY OK

local root, task = ARGV[1], ARGV[2]
"""


def library(folder: Path, code: str, modules: dict[str, str], more: str = "FLAGS") -> Path:
    """A folder of Lua with one move and some modules."""
    lua = folder / "lua"
    (lua / "lib" / "room").mkdir(parents=True)
    (lua / "noun").mkdir()
    (lua / "noun" / "verb.lua").write_text(HEADER.format(verb="verb", more=more) + code)
    for name, text in modules.items():
        (lua / "lib" / "room" / f"{name}.lua").write_text(text)
    return lua


def found(tmp_path: Path, code: str, more: str = "FLAGS", **modules: str) -> dict[str, str]:
    """What the move with this code touches, by pattern."""
    touched = touched_in(library(tmp_path, code, modules, more))["noun/verb"]
    return {name: " ".join(sorted(commands)) for name, commands in touched.keys.items()}


READ = "function values.read(key)\n  return redis.call('HGETALL', key)\nend\n"


@pytest.mark.parametrize(
    ("code", "touched"),
    [
        ("redis.call('HGET', root .. 'task:' .. task, 'state')", {"task": "HGET"}),
        ("redis.pcall('XLEN', KEYS[1])", {"ready": "XLEN"}),
        ("local key = root .. 'task:' .. task\nredis.call('HDEL', key, 'a')", {"task": "HDEL"}),
        ("redis.call('DEL', root .. 'dead', root .. 'short')", {"dead": "DEL", "short": "DEL"}),
        ("redis.call('XGROUP', 'CREATE', KEYS[1], 'g', '0')", {"ready": "XGROUP|CREATE"}),
        (
            "redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'STREAMS', KEYS[1], '>')",
            {"ready": "XREADGROUP"},
        ),
        ("redis.call('RENAME', root .. 'dead', root .. 'blocked')",
         {"dead": "RENAME", "blocked": "RENAME"}),
        ("redis.call('ZUNIONSTORE', root .. 'dead', 1, root .. 'blocked')",
         {"dead": "ZUNIONSTORE", "blocked": "ZUNIONSTORE"}),
        ("redis.call(task and 'SADD' or 'SREM', root .. 'short', 1)", {"short": "SADD SREM"}),
        ("redis.call('LRANGE', root .. (task and 'logs:' or 'failures:') .. task, 0, -1)",
         {"logs": "LRANGE", "failures": "LRANGE"}),
        ("redis.call('HGET', root .. 'budget:day', 'spent')", {"budget": "HGET"}),
        ("local call = redis.call\ncall('GET', root .. 'def:' .. task)", {"definition": "GET"}),
        ("redis.call('TIME')", {}),
    ],
)  # fmt: skip
def test_a_key_is_found_where_it_is_built(
    tmp_path: Path, code: str, touched: dict[str, str]
) -> None:
    assert found(tmp_path, code) == touched


def test_a_helper_touches_the_key_of_each_caller(tmp_path: Path) -> None:
    lua = library(tmp_path, "values.read(root .. 'task:' .. task)", {"values": READ})
    other = HEADER.format(verb="other", more="FLAGS") + "values.read(root .. 'stats')"
    (lua / "noun" / "other.lua").write_text(other)

    touched = touched_in(lua)

    assert set(touched["noun/verb"].keys) == {"task"}
    assert set(touched["noun/other"].keys) == {"stats"}


def test_a_key_is_followed_through_modules_results_and_callbacks(tmp_path: Path) -> None:
    code = """
local function each(list, act)
  for _, one in ipairs(list) do act(one) end
end
local kinds = { "sink:", "wanted:" }
each(kinds, function(kind) redis.call("DEL", root .. kind .. task) end)
redis.call("HSET", keys.of(root, task), "a", 1)
"""
    module = "function keys.of(root, id)\n  return root .. 'task:' .. id, 1\nend\n"

    assert found(tmp_path, code, keys=module) == {"sink": "DEL", "wanted": "DEL", "task": "HSET"}


@pytest.mark.parametrize(
    "code",
    [
        "local t = {}\nt[root .. 'task:' .. task] = 1\nfor k in pairs(t) do put(k) end",
        "local t = { [root .. 'task:' .. task] = 1 }\nfor k, v in pairs(t) do put(k) end",
        "local t = { key = root .. 'task:' .. task }\nput(t.key)",
        "local t = { 1, root .. 'task:' .. task }\nlocal _, k = unpack(t)\nput(k)",
        "local t = {}\nt.n = { root .. 'task:' .. task }\nfor _, k in ipairs(t.n) do put(k) end",
        "local t = {}\nt[#t + 1] = root .. 'task:' .. task\nput(t[1])",
        "local t = {}\ntable.insert(t, root .. 'task:' .. task)\nput(table.remove(t))",
        "local sums = {}\nsums['task:' .. task] = 1\nfor n in pairs(sums) do put(root .. n) end",
    ],
)
def test_a_key_is_followed_through_tables(tmp_path: Path, code: str) -> None:
    put = "local function put(key) redis.call('HSET', key, 'a', 1) end\n"

    assert found(tmp_path, put + code) == {"task": "HSET"}


def test_the_arguments_of_a_command_may_be_collected_before(tmp_path: Path) -> None:
    code = """
local call = { "XCLAIM", KEYS[1], "workers", task, 0 }
for i = 1, 3 do call[i + 5] = ARGV[i + 2] end
call[#call + 1] = "JUSTID"
redis.pcall(unpack(call))
local keys = {}
for i = 3, #ARGV do keys[i] = root .. "lane:" .. ARGV[i] end
redis.call("EXISTS", unpack(keys))
"""
    assert found(tmp_path, code) == {"ready": "XCLAIM", "lane": "EXISTS"}


def test_a_key_from_an_argument_is_one_of_the_header(tmp_path: Path) -> None:
    more = "EACH  name        of a key after the root: lane:<n> dead, or of all lanes hand:<key>"
    code = "for at = 3, #ARGV do redis.call('DEL', root .. ARGV[at]) end"

    assert found(tmp_path, code, more) == {"lane": "DEL", "dead": "DEL", "hand": "DEL"}


def test_the_result_of_a_scan_may_be_any_key(tmp_path: Path) -> None:
    code = """
local page = redis.call("SCAN", 0, "MATCH", root .. "*")
for _, key in ipairs(page[2]) do redis.call("TYPE", key) end
"""
    assert found(tmp_path, code) == {EVERY_KEY: "TYPE"}


def test_code_that_no_move_calls_touches_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, "return { 'OK' }", values=READ) == {}


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("redis.call('GET', task)", "GET of a key that does not begin with the root: ..."),
        ("redis.call('GET', root .. task)",
         "GET of rq:{queue}:..., which is not in rqueue/store/keys.py"),
        ("redis.call('GET', root .. 'other:' .. task)",
         "GET of rq:{queue}:other:..., which is not in rqueue/store/keys.py"),
        ("redis.call('GET', root .. 'task:' .. task)", "GET of task:<task>, which is a hash"),
        ("redis.call('BITCOUNT', root .. 'task:')", "BITCOUNT is not in tools/lua/commands.py"),
        ("redis.call(task, KEYS[1])", "the command is not a literal"),
        ("redis.call('XGROUP', task, KEYS[1])", "the subcommand of XGROUP is not a literal"),
        ("local nowhere\nredis.call('GET', nowhere)", "GET of a key that has no value"),
        ("task()", "calls a value that is not a known function"),
        ("values.read(root)", "reads values, which is not defined"),
        ("total = 1", "sets a global"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_an_error_with_its_line(tmp_path: Path, code: str, why: str) -> None:
    line = HEADER.count("\n") + code.count("\n") + 1

    with pytest.raises(UnknownKeys) as caught:
        found(tmp_path, code)

    assert f"lua/noun/verb.lua:{line}: {why}" in str(caught.value).splitlines()


def test_a_key_of_a_header_must_be_in_the_key_catalogue(tmp_path: Path) -> None:
    lua = library(tmp_path, "", {})
    move = lua / "noun" / "verb.lua"
    move.write_text(move.read_text().replace("1 ready ", "1 lists "))

    with pytest.raises(UnknownKeys, match=r"lua/noun/verb\.lua: KEYS names lists"):
        touched_in(lua)


def test_any_key_permits_each_key_with_its_commands() -> None:
    touched = Touched({"task": {"HGET"}, EVERY_KEY: {"TYPE"}}, {"TIME"})

    assert touched.allows("task", "HGET")
    assert touched.allows("dead", "TYPE")
    assert not touched.allows("dead", "HGET")
    assert touched.commands == {"HGET", "TYPE", "TIME"}


def test_the_moves_of_this_tree_touch_the_expected_keys() -> None:
    start, walk = touches()["task/start"], touches()["repair/walk"]

    assert start.allows("task", "HSET")
    assert start.allows("ready", "XCLAIM")
    assert not start.allows("leader", "HSET")
    assert walk.keys == {}
    assert walk.commands == {"SCAN"}
