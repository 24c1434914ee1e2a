"""The state machine fails with each move that was broken on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from redis.exceptions import ResponseError

from rqueue.store.library import PACKAGE
from tests.machine.machine import machine
from tests.machine.server_shard import Mutation, library_with_clock
from tests.machine.tenant_mutations import TENANT_MUTATIONS
from tests.servers import Server

MUTATIONS = {
    "the token is not checked": Mutation(
        "lib/lease/lease.lua", "is_leased and row[2] == token", "is_leased"
    ),
    "the memo of a seq is dropped": Mutation(
        "lib/claim/waiting.lua", "elseif seq == last then", "elseif false then"
    ),
    "a late claim is executed": Mutation(
        "lib/claim/waiting.lua", "if seq < last then", "if false then"
    ),
    "deliveries are not carried over": Mutation(
        "lib/claim/waiting.lua",
        'delivered ~= "" and carry_over(root, claim, delivered) or {}',
        "{}",
    ),
    "a claimed task stays in its lane": Mutation(
        "lib/claim/take.lua",
        'redis.call("ZREM", root .. "lane:"',
        'redis.call("ZSCORE", root .. "lane:"',
    ),
    "reap does not check the idle time": Mutation(
        "task/reap.lua",
        'redis.call("XPENDING", ready, "workers", "IDLE", idle_ms, entry, entry, 1)',
        "{ 1 }",
    ),
    "renew does not renew": Mutation("task/renew.lua", "if #kept > 0 then", "if false then"),
    "renew has no time limit": Mutation(
        "task/renew.lua", 'limit + grace_ms and "timeout"', 'limit + grace_ms and "OK"'
    ),
    "an idempotency key is not read": Mutation(
        "lib/submit/special.lua", 'redis.call("GET", root .. "idem:" .. more.idem)', "nil"
    ),
    "a cancelled task keeps its idempotency key": Mutation(
        "lib/dag/cancel.lua", "identity.release(root, id, row.more)", ""
    ),
    "a repeated submit is accepted again": Mutation(
        "task/submit.lua", 'redis.call("EXISTS", unpack(keys)) > 0', "false"
    ),
    "a repeated submit of one task is accepted again": Mutation(
        "lib/submit/plain.lua", ' or redis.call("EXISTS", key) == 1', ""
    ),
    "a task with open dependencies is unblocked": Mutation(
        "lib/dag/unblock.lua", 'redis.call("EXISTS", waits) == 1', "false"
    ),
    "a delivery record remains after the start": Mutation(
        "lib/lease/lease.lua",
        'redis.call("ZREM", root .. "handoffs", tasks.delivery_member(id, token))',
        "",
    ),
    "a released task stays in the pending list": Mutation(
        "lib/lease/lease.lua", 'redis.call("XACK", root .. "ready", "workers", row[4])', ""
    ),
    "a release does not answer waiting claims": Mutation(
        "task/release.lua", "answer.freed(root, now, how, most)", "false"
    ),
    "a paused lane is served": Mutation(
        "lib/limits/gates.lua", 'if not (paused["queue"]', 'if true or not (paused["queue"]'
    ),
    "an open breaker permits tasks": Mutation(
        "lib/limits/breaker.lua", "tonumber(row[2]) > now then", "false then"
    ),
    "a breaker has more than one probe": Mutation(
        "lib/limits/breaker.lua", "breaker.probe_running(root, row[3])", "false"
    ),
    "a failed probe opens no breaker": Mutation(
        "lib/limits/breaker.lua", 'row[1] == "half-open" and row[2] == lease', "false"
    ),
    "a completion does not close the breaker": Mutation(
        "lib/lease/complete.lua", "    reopen_gates(root, how)\n", ""
    ),
    "a lost task runs beside others": Mutation(
        "lib/claim/exclusive.lua", "if claim.idle and picked == 0 then", "if true then"
    ),
    "a new task is delivered while the queue is paused": Mutation(
        "lib/claim/answer.lua", 'root .. "paused", ', ""
    ),
    "a new task is delivered before an older one": Mutation(
        "lib/claim/answer.lua", 'blockers[#blockers + 1] = root .. "lane:" .. lane[1]', ""
    ),
    "a new task is delivered to a worker with an exclusive task": Mutation(
        "lib/claim/answer.lua", "if worker[1] or worker[2] then", "if false then"
    ),
    "an expired claim is answered": Mutation(
        "lib/claim/answer.lua",
        'profile or tonumber(record["until"]) <= now then',
        "profile then",
    ),
    "a delivered task is not counted": Mutation(
        "lib/claim/answer.lua", 'lanes.count(root, lane, started and "RUNNING" or "CLAIMED", 1)', ""
    ),
    "ageing rates are ignored": Mutation(
        "lib/lane/heads.lua", "lane.rate * (now / 60000) or", "(now / 60000) or"
    ),
    "retries are promoted early": Mutation(
        "task/promote.lua", '"-inf", now, "LIMIT"', '"-inf", "+inf", "LIMIT"'
    ),
    "a claim does not return the workers that failed the task": Mutation(
        "lib/core/tasks.lua", 'fields.failed_by or ""', '""'
    ),
    "a new life keeps the blame of the last one": Mutation(
        "lib/dead/revive.lua", ', "failed_by", "poison"', ""
    ),
    "a new life keeps the review of the last one": Mutation(
        "lib/dead/revive.lua", ', "reviewed", "resolution"', ""
    ),
    "a retry stores no review": Mutation(
        "task/revive.lua",
        'revive.add_review(root, now, task, life, review, "retry", terms.reviews)',
        "",
    ),
    "a repeated retry is decided again": Mutation(
        "task/revive.lua", "life and calls.remembered(root, request)", "nil"
    ),
    "a repeated discard is decided again": Mutation(
        "task/discard.lua", "calls.remembered(root, request)", "nil"
    ),
    "a repeated escalation stores another review": Mutation(
        "task/escalate.lua", "calls.remembered(root, request)", "nil"
    ),
    "a decision ignores the life": Mutation(
        "lib/dead/revive.lua", "(not life or lives == life)", "true"
    ),
    "a second reviewer gets STATE instead of DECIDED": Mutation(
        "lib/dead/revive.lua", 'return "DECIDED"', 'return "STATE"'
    ),
    "an attempt's record has no cost": Mutation(
        "lib/lease/fail.lua", "reported[1] - reported[4]", "0"
    ),
    "an attempt's record includes earlier costs": Mutation(
        "lib/lease/fail.lua", '"recorded_usd", reported[1], "recorded_tokens", tokens', '"x", 1'
    ),
    "a retry does not start a new life": Mutation(
        "lib/dead/revive.lua", "more.life = (more.life or 1) + 1", ""
    ),
    "a retried task takes an idempotency key of another task": Mutation(
        "lib/dead/revive.lua", 'if other and other ~= "COMPLETED" then', "if false then"
    ),
    "a cancelled task keeps its stream entry": Mutation(
        "lib/lane/indexes.lua", "    indexes.delete_entry(root, entry)\n  elseif", "  elseif"
    ),
    "a cascade stops after the first task": Mutation(
        "lib/dag/cancel.lua", "cancel.one(root, now, dependent, why, rule, how)", ""
    ),
    "a parked task is not counted": Mutation(
        "lib/lease/lease.lua", 'lanes.count(root, lane, "RETRYING", 1)', ""
    ),
    "ended tasks are not sent to the outbox": Mutation(
        "task/fail.lua", "event.send_to_outbox(root, archive, how.ended)", ""
    ),
    **TENANT_MUTATIONS,
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
def test_the_source_contains_the_text_to_mutate(name: str) -> None:
    mutation = MUTATIONS[name]

    assert mutation.old in ((PACKAGE.parent / "lua") / mutation.file).read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTATIONS)
def test_the_machine_detects_the_mutation(valkey: Server, tmp_path: Path, name: str) -> None:
    library = library_with_clock(tmp_path / "lua", MUTATIONS[name])

    with pytest.raises((AssertionError, ResponseError)):
        run_state_machine_as_test(machine(valkey, library), settings=FINDER)
