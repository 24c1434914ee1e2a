"""The state machine of DAGs fails with each move that was broken on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis.stateful import run_state_machine_as_test
from redis.exceptions import ResponseError

from rqueue.store.library import PACKAGE
from tests.machine.dags.dag_machine import dag_machine
from tests.machine.server_shard import Mutation, library_with_clock
from tests.machine.test_mutations import FINDER
from tests.servers import Server

MUTATIONS = {
    "tasks of a paused DAG are claimed": Mutation(
        "lib/claim/take.lua", "not row[2] and not row[3]", "not row[3]"
    ),
    "tasks of a cancelled DAG are claimed": Mutation(
        "lib/claim/take.lua", "not row[2] and not row[3]", "not row[2]"
    ),
    "tasks unblocked in a paused DAG enter their lanes": Mutation(
        "lib/lane/indexes.lua", "if dag then", "if false then"
    ),
    "a DAG never becomes running": Mutation(
        "lib/claim/take.lua", '"status", "running"', '"status", row[1]'
    ),
    "fail_fast cancels nothing": Mutation("lib/dag/status.lua", 'row[5] == "fail_fast"', "false"),
    "a retry beside a dead task cancels the DAG": Mutation(
        "lib/dag/status.lua", "if died and row[5]", "if row[5]"
    ),
    "a dead task cancels its dependents": Mutation(
        "lib/lease/fail.lua", '"on_failure") == "continue" then', '"status") then'
    ),
    "a dead task does not resolve its end dependents": Mutation(
        "lib/lease/fail.lua", "unblock.later(root, id, row.flags)", ""
    ),
    "a one_failed dependent is never resolved": Mutation(
        "lib/dag/unblock.lua", "return last", "return false"
    ),
    "a one_failed dependent runs without a failure": Mutation(
        "lib/dag/unblock.lua", 'if kind == "all_done" then', "if kind then"
    ),
    "a cascade stops after the first task": Mutation(
        "lib/dag/cancel.lua", "cancel.one(root, now, dependent, why, rule, how)", ""
    ),
    "a suspended task is cancelled with its child": Mutation(
        "lib/dag/cancel.lua",
        '\n      or redis.call("HEXISTS", root .. "task:" .. dependent, "suspended") == 1',
        "",
    ),
    "a child that ended before the wait is waited for": Mutation(
        "lib/dag/unblock.lua",
        'values.remove_members(root .. "gather:" .. id, met)',
        "",
    ),
    "a suspended task keeps its stream entry": Mutation(
        "lib/dag/spawn.lua", "  indexes.delete_entry(root, entry)\n", ""
    ),
    "a DAG never ends": Mutation(
        "lib/dag/status.lua", "elseif open == 0 then", "elseif false then"
    ),
    "a revived DAG stays failed": Mutation(
        "lib/dag/status.lua", 'redis.call("HSET", key, "status", "running")', ""
    ),
    "a cancelled task is not counted": Mutation(
        "lib/dag/cancel.lua", 'status.tally(how, row.flags, "open", "cancelled")', ""
    ),
    "held tasks are not counted": Mutation(
        "lib/dag/paused.lua",
        'redis.call("HINCRBY", root .. "stats", lane .. ":READY", 1)',
        "",
    ),
    "a cancelled task stays held": Mutation(
        "lib/lane/indexes.lua", "paused.release_task(root, id, lane)", ""
    ),
    "a repeated part counts its edges again": Mutation(
        "lib/dag/edges.lua", "return fresh", "return #dependencies"
    ),
    "hidden tasks can be cancelled": Mutation(
        "lib/dag/cancel.lua", " or not tasks.is_visible(root, row)", ""
    ),
    "a task doomed before its commit waits forever": Mutation(
        "lib/dag/status.lua", "if row[5] then", "if false then"
    ),
    "a retry does not stop a cascade": Mutation(
        "lib/dag/status.lua",
        'redis.call("HDEL", root .. "cancelling", "children " .. task)',
        "",
    ),
    "dropping a DAG loses the external id of an earlier task": Mutation(
        "lib/dag/create.lua", 'redis.call("SET", name, before)', ""
    ),
    "children of a cancelled suspended task continue": Mutation(
        "lib/dag/cancel.lua", "\n    cancel.awaited(root, id, row)", ""
    ),
    "a cancelled DAG accepts tasks": Mutation(
        "lib/dag/status.lua", "row[2] or row[3] or", "row[2] or"
    ),
    "a cycle is not detected": Mutation(
        "lib/dag/edges.lua", "if id == target then", "if false then"
    ),
    "a task of a DAG that is being cancelled is retried": Mutation(
        "lib/dead/revive.lua", '"cancel " .. dag) == 1', '"cancel " .. dag) == 2'
    ),
    "a commit with a limit is not continued": Mutation(
        "lib/dag/status.lua",
        'redis.call("HSET", unfinished, name, at + limit)',
        'redis.call("HDEL", unfinished, name)',
    ),
    "a DAG of another size is committed": Mutation(
        "dag/commit.lua", "and row[2] ~= total", "and false"
    ),
    "a single dependent is never unblocked": Mutation(
        "lib/dag/create.lua", ', "down", new.below)', ")"
    ),
    "a repeated spawn of a suspended task is LOST": Mutation(
        "dag/spawn.lua", 'calls.settled_by(root, parent, token, "suspend")', "false"
    ),
    "a spawned task is not counted": Mutation(
        "lib/dag/spawn.lua", 'redis.call("HINCRBY", root .. "stats", "submitted", #fresh)', ""
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_source_contains_the_text_to_mutate(name: str) -> None:
    mutation = MUTATIONS[name]

    assert mutation.old in ((PACKAGE.parent / "lua") / mutation.file).read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTATIONS)
def test_the_dag_machine_detects_the_mutation(valkey: Server, tmp_path: Path, name: str) -> None:
    library = library_with_clock(tmp_path / "lua", MUTATIONS[name])

    with pytest.raises((AssertionError, ResponseError)):
        run_state_machine_as_test(dag_machine(valkey, library), settings=FINDER)
