"""The machine of graphs is worth its time: with a script broken on purpose, it fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis.stateful import run_state_machine_as_test
from redis.exceptions import ResponseError

from rqueue.store.library import PACKAGE
from tests.machine.graph_rules import graph_machine
from tests.machine.test_mutations import FINDER
from tests.machine.wire import Mutation, clockwork
from tests.servers import Server

MUTATIONS = {
    "a paused DAG is handed out": Mutation(
        "lib/claim/take.lua", "not row[2] and not row[3]", "not row[3]"
    ),
    "a DAG that is given up is handed out": Mutation(
        "lib/claim/take.lua", "not row[2] and not row[3]", "not row[2]"
    ),
    "what a paused DAG frees enters its lane": Mutation(
        "lib/lane/indexes.lua", "if dag then", "if false then"
    ),
    "a DAG never runs": Mutation("lib/claim/take.lua", '"status", "running"', '"status", row[1]'),
    "fail_fast goes on": Mutation("lib/dag/status.lua", 'row[5] == "fail_fast"', "false"),
    "a revival beside a dead task is given up": Mutation(
        "lib/dag/status.lua", "if died and row[5]", "if row[5]"
    ),
    "a death is a cancel for who waits": Mutation(
        "lib/lease/fail.lua", '"on_failure") == "continue" then', '"status") then'
    ),
    "a death is not told to who waits for it": Mutation(
        "lib/lease/fail.lua", "unblock.later(root, id, row.flags)", ""
    ),
    "who waits for a failure waits for ever": Mutation(
        "lib/dag/unblock.lua", "return last", "return false"
    ),
    "who waits for a failure runs without one": Mutation(
        "lib/dag/unblock.lua", 'if kind == "all_done" then', "if kind then"
    ),
    "a cascade ends at the first task": Mutation(
        "lib/dag/cancel.lua", "cancel.one(root, now, child, why, rule, how)", ""
    ),
    "who waits for what it spawned is cancelled with it": Mutation(
        "lib/dag/cancel.lua",
        ' or redis.call("HEXISTS", root .. "task:" .. child, "suspended") == 1',
        "",
    ),
    "what ends before a wait begins is waited for": Mutation(
        "lib/dag/unblock.lua",
        'values.remove_members(root .. "gather:" .. id, met)',
        "",
    ),
    "a suspended task keeps its lease": Mutation(
        "lib/dag/spawn.lua", "  indexes.delete_entry(root, entry)\n", ""
    ),
    "a DAG never ends": Mutation(
        "lib/dag/status.lua", "elseif open == 0 then", "elseif false then"
    ),
    "a revived DAG stays failed": Mutation(
        "lib/dag/status.lua", 'redis.call("HSET", key, "status", "running")', ""
    ),
    "a cancel is not counted": Mutation(
        "lib/dag/cancel.lua", 'status.tally(how, row.flags, "open", "cancelled")', ""
    ),
    "what is held back is not counted": Mutation(
        "lib/dag/paused.lua",
        'redis.call("HINCRBY", root .. "stats", lane .. ":READY", 1)',
        "",
    ),
    "a cancelled task stays held back": Mutation(
        "lib/lane/indexes.lua", "paused.unhold(root, id, lane)", ""
    ),
    "a part sent again counts its edges again": Mutation(
        "lib/dag/edges.lua", "return fresh", "return #parents"
    ),
    "what nobody sees can be cancelled": Mutation(
        "lib/dag/cancel.lua", " or not tasks.is_visible(root, row)", ""
    ),
    "what was lost before its commit waits for ever": Mutation(
        "lib/dag/status.lua", "if row[5] then", "if false then"
    ),
    "a revival does not stop a cascade": Mutation(
        "lib/dag/status.lua",
        'redis.call("HDEL", root .. "cancelling", "children " .. task)',
        "",
    ),
    "a producer's id is lost with who was dropped": Mutation(
        "lib/dag/create.lua", 'redis.call("SET", name, before)', ""
    ),
    "what a cancelled parent waits for goes on": Mutation(
        "lib/dag/cancel.lua", "\n    cancel.awaited(root, id, row)", ""
    ),
    "a DAG that is given up takes tasks": Mutation(
        "lib/dag/status.lua", "row[2] or row[3] or", "row[2] or"
    ),
    "a circle is not seen": Mutation("lib/dag/edges.lua", "if id == target then", "if false then"),
    "what is being given up is revived": Mutation(
        "lib/dead/revive.lua", '"cancel " .. dag) == 1', '"cancel " .. dag) == 2'
    ),
    "a commit leaves the rest of its DAG behind": Mutation(
        "lib/dag/status.lua",
        'redis.call("HSET", unfinished, name, at + limit)',
        'redis.call("HDEL", unfinished, name)',
    ),
    "a DAG of another size is committed": Mutation(
        "dag/commit.lua", "and row[2] ~= total", "and false"
    ),
    "one that is alone in waiting for another is never told": Mutation(
        "lib/dag/create.lua", ', "down", new.below)', ")"
    ),
    "a suspended task that is sent again is lost": Mutation(
        "dag/spawn.lua", 'calls.settled_by(root, parent, token, "suspend")', "false"
    ),
    "a spawned task is not counted": Mutation(
        "lib/dag/spawn.lua", 'redis.call("HINCRBY", root .. "stats", "submitted", #fresh)', ""
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_to_be_broken_is_there(name: str) -> None:
    mutation = MUTATIONS[name]

    assert mutation.old in ((PACKAGE.parent / "lua") / mutation.file).read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTATIONS)
def test_the_machine_of_graphs_notices_that(valkey: Server, tmp_path: Path, name: str) -> None:
    scripts = clockwork(tmp_path / "lua", MUTATIONS[name])

    with pytest.raises((AssertionError, ResponseError)):
        run_state_machine_as_test(graph_machine(valkey, scripts), settings=FINDER)
