"""The machine is worth its time: with a script broken on purpose, it fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from redis.exceptions import ResponseError

from rqueue.store.scripts import folder
from tests.machine.course import machine
from tests.machine.key_mutations import KEY_MUTATIONS
from tests.machine.wire import Mutation, clockwork
from tests.servers import Server

MUTATIONS = {
    "the token is not checked": Mutation(
        "include/lease_held.lua", "in_hand and row[2] == token", "in_hand"
    ),
    "the memo of a seq is dropped": Mutation(
        "include/claim_tasks.lua", "elseif ask.seq == last then", "elseif false then"
    ),
    "a late claim is served": Mutation(
        "include/claim_tasks.lua", "if ask.seq < last then", "if false then"
    ),
    "mail is not carried over": Mutation(
        "include/claim_tasks.lua",
        'mailed ~= "" and carry_over(root, now, mailed, ask.start) or {}',
        "{}",
    ),
    "a claimed task stays in its lane": Mutation(
        "include/leave_lane.lua",
        'redis.call("ZREM", root .. "lane:"',
        'redis.call("ZSCORE", root .. "lane:"',
    ),
    "reap does not look again": Mutation(
        "task/reap.lua",
        'redis.call("XPENDING", ready, "workers", "IDLE", idle_ms, entry, entry, 1)',
        "{ 1 }",
    ),
    "renew does not renew": Mutation("task/renew.lua", "if #kept > 0 then", "if false then"),
    "renew keeps a task for ever": Mutation(
        "task/renew.lua", 'limit + grace_ms and "timeout"', 'limit + grace_ms and "OK"'
    ),
    "an idempotency key is not read": Mutation(
        "include/submit_special.lua", 'redis.call("GET", root .. "idem:" .. more.idem)', "nil"
    ),
    "an ended task keeps its key": Mutation(
        "include/end_task.lua", "free_key(root, id, row.more)", ""
    ),
    "a submit sent again is taken again": Mutation(
        "task/submit.lua", 'redis.call("EXISTS", unpack(keys)) > 0', "false"
    ),
    "a single submit sent again is taken again": Mutation(
        "include/submit_alone.lua", ' or redis.call("EXISTS", key) == 1', ""
    ),
    "a dependency is a matter of luck": Mutation(
        "include/unblock_task.lua", 'redis.call("EXISTS", waits) == 1', "false"
    ),
    "a hand-off outlives its start": Mutation(
        "include/start_task.lua", 'redis.call("ZREM", root .. "handoffs", handoff(id, token))', ""
    ),
    "what is given back stays pending": Mutation(
        "include/give_back.lua", 'redis.call("XACK", root .. "ready", "workers", row[4])', ""
    ),
    "a released task waits for a sweep": Mutation(
        "task/release.lua", "answer_freed(root, now, how, most)", "false"
    ),
    "a pause is not obeyed": Mutation(
        "include/gates_of.lua", 'if not (paused["queue"]', 'if true or not (paused["queue"]'
    ),
    "a breaker that is open lets pass": Mutation(
        "include/breaker_gate.lua", "tonumber(row[2]) > now then", "false then"
    ),
    "more than one try a breaker": Mutation(
        "include/breaker_gate.lua", "still_rides(root, row[3])", "false"
    ),
    "a failed probe opens no breaker": Mutation(
        "include/trip_breaker.lua", 'row[1] == "half-open" and row[2] == lease', "false"
    ),
    "a success is not heeded": Mutation(
        "include/complete_tasks.lua", "    heed_success(root, all)\n", ""
    ),
    "a lost task runs beside others": Mutation(
        "include/may_run_alone.lua", "if who.solo and picked == 0 then", "if true then"
    ),
    "a new task is brought while all is paused": Mutation(
        "include/bring_task.lua", 'root .. "paused", ', ""
    ),
    "a new task is brought past an older one": Mutation(
        "include/bring_task.lua", 'before[#before + 1] = root .. "lane:" .. lane[1]', ""
    ),
    "a new task is brought to who must run alone": Mutation(
        "include/bring_task.lua", "if mark[1] or mark[2] then", "if false then"
    ),
    "a claim is answered after its time": Mutation(
        "include/bring_task.lua", ' or tonumber(record["until"]) <= now', ""
    ),
    "a brought task is not counted": Mutation(
        "include/bring_task.lua", 'count(root, lane, started and "RUNNING" or "CLAIMED", 1)', ""
    ),
    "ages are compared wrongly": Mutation(
        "include/next_head.lua", "lane.rate * (now / 60000) or", "(now / 60000) or"
    ),
    "retries come early": Mutation(
        "task/promote.lua", '"-inf", now, "LIMIT"', '"-inf", "+inf", "LIMIT"'
    ),
    "who failed a task is not told": Mutation(
        "include/holder_row.lua", 'fields.failed_by or ""', '""'
    ),
    "a new life is blamed for the last one": Mutation(
        "include/begin_life.lua", ', "failed_by", "poison"', ""
    ),
    "a new life is reviewed": Mutation("include/begin_life.lua", ', "reviewed", "resolution"', ""),
    "a revival is not reviewed": Mutation(
        "task/revive.lua", 'add_review(root, now, task, life, said, "retry", terms.reviews)', ""
    ),
    "a revival sent again is judged anew": Mutation(
        "task/revive.lua", "life and answered(root, request)", "nil"
    ),
    "a discard sent again is judged anew": Mutation(
        "task/discard.lua", "answered(root, request)", "nil"
    ),
    "an escalation sent again is reviewed again": Mutation(
        "task/escalate.lua", "answered(root, request)", "nil"
    ),
    "a decision is about any life": Mutation(
        "include/decided_first.lua", "(not life or lives == life)", "true"
    ),
    "a second reviewer is told of a state": Mutation(
        "include/decided_first.lua", 'return "DECIDED"', 'return "STATE"'
    ),
    "a record has no price": Mutation("include/keep_failure.lua", "said[1] - said[4]", "0"),
    "a record pays for those before it": Mutation(
        "include/keep_failure.lua", '"recorded_usd", said[1], "recorded_tokens", tokens', '"x", 1'
    ),
    "a new life is the old one": Mutation(
        "include/begin_life.lua", "more.life = (more.life or 1) + 1", ""
    ),
    "a revived task takes a key that another has": Mutation(
        "include/stays_dead.lua", 'if other and other ~= "COMPLETED" then', "if false then"
    ),
    "a cancelled task keeps its entry": Mutation(
        "include/leave_indexes.lua", "    free_entry(root, entry)\n  elseif", "  elseif"
    ),
    "a cascade ends at the first task": Mutation(
        "include/cancel_children.lua", "cancel_one(root, now, child, why, rule, how)", ""
    ),
    "a park spends nothing and counts nothing": Mutation(
        "include/retry_later.lua", 'count(root, lane, "RETRYING", 1)', ""
    ),
    "what ended is not told to the archive": Mutation(
        "task/fail.lua", "send_to_outbox(root, archive, how.ended)", ""
    ),
    **KEY_MUTATIONS,
}
FINDER = settings(
    max_examples=3000,
    stateful_step_count=30,
    deadline=None,
    database=None,
    derandomize=False,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_to_be_broken_is_there(name: str) -> None:
    mutation = MUTATIONS[name]

    assert mutation.old in (folder() / mutation.file).read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTATIONS)
def test_the_machine_notices_that(valkey: Server, tmp_path: Path, name: str) -> None:
    scripts = clockwork(tmp_path / "lua", MUTATIONS[name])

    with pytest.raises((AssertionError, ResponseError)):
        run_state_machine_as_test(machine(valkey, scripts), settings=FINDER)
