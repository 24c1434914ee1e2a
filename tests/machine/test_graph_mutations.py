"""The machine of graphs is worth its time: with a script broken on purpose, it fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis.stateful import run_state_machine_as_test
from redis.exceptions import ResponseError

from rqueue.store.scripts import folder
from tests.machine.graph_rules import graph_machine
from tests.machine.test_mutations import FINDER
from tests.machine.wire import Mutation, clockwork
from tests.servers import Server

MUTATIONS = {
    "a paused DAG is handed out": Mutation(
        "include/dag_gate.lua", "not row[2] and not row[3]", "not row[3]"
    ),
    "a DAG that is given up is handed out": Mutation(
        "include/dag_gate.lua", "not row[2] and not row[3]", "not row[2]"
    ),
    "what a paused DAG frees enters its lane": Mutation(
        "include/free_task.lua", "if dag then", "if false then"
    ),
    "a DAG never runs": Mutation("include/dag_gate.lua", '"status", "running"', '"status", row[1]'),
    "fail_fast goes on": Mutation("include/fail_dag.lua", 'row[5] == "fail_fast"', "false"),
    "a revival beside a dead task is given up": Mutation(
        "include/fail_dag.lua", "if died and row[5]", "if row[5]"
    ),
    "a death is a cancel for who waits": Mutation(
        "include/bury_task.lua", '"on_failure") == "continue" then', '"status") then'
    ),
    "a death is not told to who waits for it": Mutation(
        "include/bury_task.lua", "tell_later(root, id, row.flags)", ""
    ),
    "who waits for a failure waits for ever": Mutation(
        "include/skip_heir.lua", "return last", "return false"
    ),
    "who waits for a failure runs without one": Mutation(
        "include/tell_heirs.lua", 'if kind == "all_done" then', "if kind then"
    ),
    "a cascade ends at the first task": Mutation(
        "include/cancel_children.lua", "cancel_one(root, now, child, why, rule, how)", ""
    ),
    "who waits for what it spawned is cancelled with it": Mutation(
        "include/cancel_children.lua",
        ' or redis.call("HEXISTS", root .. "task:" .. child, "suspended") == 1',
        "",
    ),
    "what ends before a wait begins is waited for": Mutation(
        "include/unblock_task.lua",
        'take_off(root .. "gather:" .. id, met)',
        "",
    ),
    "a suspended task keeps its lease": Mutation(
        "include/suspend_task.lua", "  free_entry(root, entry)\n", ""
    ),
    "a DAG never ends": Mutation(
        "include/tally_dag.lua", "elseif open == 0 then", "elseif false then"
    ),
    "a revived DAG stays failed": Mutation(
        "include/tally_dag.lua", 'redis.call("HSET", key, "status", "running")', ""
    ),
    "a cancel is not counted": Mutation(
        "include/cancel_task.lua", 'tally(how, row.flags, "open", "cancelled")', ""
    ),
    "what is held back is not counted": Mutation(
        "include/hold_task.lua",
        'redis.call("HINCRBY", root .. "stats", lane .. ":READY", 1)',
        "",
    ),
    "a cancelled task stays held back": Mutation(
        "include/leave_indexes.lua", "unhold_task(root, id, lane)", ""
    ),
    "a part sent again counts its edges again": Mutation(
        "include/link_task.lua", "return fresh", "return #parents"
    ),
    "what nobody sees can be cancelled": Mutation(
        "include/cancel_one.lua", " or not is_visible(root, row)", ""
    ),
    "what was lost before its commit waits for ever": Mutation(
        "include/commit_task.lua", "if row[5] then", "if false then"
    ),
    "a revival does not stop a cascade": Mutation(
        "include/revive_dag.lua",
        'redis.call("HDEL", root .. "cancelling", "children " .. task)',
        "",
    ),
    "a producer's id is lost with who was dropped": Mutation(
        "include/return_name.lua", 'redis.call("SET", name, before)', ""
    ),
    "what a cancelled parent waits for goes on": Mutation(
        "include/cancel_one.lua", "cancel_awaited(root, id, row)", ""
    ),
    "a DAG that is given up takes tasks": Mutation(
        "include/join_dag.lua", "row[2] or row[3] or", "row[2] or"
    ),
    "a circle is not seen": Mutation(
        "include/reaches.lua", "if id == target then", "if false then"
    ),
    "what is being given up is revived": Mutation(
        "include/stays_dead.lua", '"cancel " .. dag) == 1', '"cancel " .. dag) == 2'
    ),
    "a commit leaves the rest of its DAG behind": Mutation(
        "include/next_page.lua",
        'redis.call("HSET", unfinished, name, at + limit)',
        'redis.call("HDEL", unfinished, name)',
    ),
    "a DAG of another size is committed": Mutation(
        "dag/commit.lua", "and row[2] ~= total", "and false"
    ),
    "one that is alone in waiting for another is never told": Mutation(
        "include/create_sole.lua", ', "down", new.below)', ")"
    ),
    "a suspended task that is sent again is lost": Mutation(
        "dag/spawn.lua", 'settled_by(root, parent, token, "suspend")', "false"
    ),
    "a spawned task is not counted": Mutation(
        "include/spawn_tasks.lua", 'redis.call("HINCRBY", root .. "stats", "submitted", #fresh)', ""
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_to_be_broken_is_there(name: str) -> None:
    mutation = MUTATIONS[name]

    assert mutation.old in (folder() / mutation.file).read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTATIONS)
def test_the_machine_of_graphs_notices_that(valkey: Server, tmp_path: Path, name: str) -> None:
    scripts = clockwork(tmp_path / "lua", MUTATIONS[name])

    with pytest.raises((AssertionError, ResponseError)):
        run_state_machine_as_test(graph_machine(valkey, scripts), settings=FINDER)
