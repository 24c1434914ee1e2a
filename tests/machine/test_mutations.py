"""The machine is worth its time: with a script broken on purpose, it fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from redis.exceptions import ResponseError

from rqueue.store.library import PACKAGE
from tests.machine.course import machine
from tests.machine.key_mutations import KEY_MUTATIONS
from tests.machine.wire import Mutation, clockwork
from tests.servers import Server

MUTATIONS = {
    "the token is not checked": Mutation(
        "lib/lease/lease.lua", "in_hand and row[2] == token", "in_hand"
    ),
    "the memo of a seq is dropped": Mutation(
        "lib/claim/waiting.lua", "elseif seq == last then", "elseif false then"
    ),
    "a late claim is served": Mutation(
        "lib/claim/waiting.lua", "if seq < last then", "if false then"
    ),
    "mail is not carried over": Mutation(
        "lib/claim/waiting.lua",
        'delivered ~= "" and carry_over(root, ask, delivered) or {}',
        "{}",
    ),
    "a claimed task stays in its lane": Mutation(
        "lib/claim/take.lua",
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
        "lib/submit/special.lua", 'redis.call("GET", root .. "idem:" .. more.idem)', "nil"
    ),
    "an ended task keeps its key": Mutation(
        "lib/dag/cancel.lua", "identity.release(root, id, row.more)", ""
    ),
    "a submit sent again is taken again": Mutation(
        "task/submit.lua", 'redis.call("EXISTS", unpack(keys)) > 0', "false"
    ),
    "a single submit sent again is taken again": Mutation(
        "lib/submit/plain.lua", ' or redis.call("EXISTS", key) == 1', ""
    ),
    "a dependency is a matter of luck": Mutation(
        "lib/dag/unblock.lua", 'redis.call("EXISTS", waits) == 1', "false"
    ),
    "a hand-off outlives its start": Mutation(
        "lib/lease/lease.lua",
        'redis.call("ZREM", root .. "handoffs", tasks.delivery_member(id, token))',
        "",
    ),
    "what is given back stays pending": Mutation(
        "lib/lease/lease.lua", 'redis.call("XACK", root .. "ready", "workers", row[4])', ""
    ),
    "a released task waits for a sweep": Mutation(
        "task/release.lua", "answer.freed(root, now, how, most)", "false"
    ),
    "a pause is not obeyed": Mutation(
        "lib/limits/gates.lua", 'if not (paused["queue"]', 'if true or not (paused["queue"]'
    ),
    "a breaker that is open lets pass": Mutation(
        "lib/limits/breaker.lua", "tonumber(row[2]) > now then", "false then"
    ),
    "more than one try a breaker": Mutation(
        "lib/limits/breaker.lua", "breaker.probe_running(root, row[3])", "false"
    ),
    "a failed probe opens no breaker": Mutation(
        "lib/limits/breaker.lua", 'row[1] == "half-open" and row[2] == lease', "false"
    ),
    "a success is not heeded": Mutation(
        "lib/lease/complete.lua", "    reopen_gates(root, how)\n", ""
    ),
    "a lost task runs beside others": Mutation(
        "lib/claim/exclusive.lua", "if claim.idle and picked == 0 then", "if true then"
    ),
    "a new task is brought while all is paused": Mutation(
        "lib/claim/answer.lua", 'root .. "paused", ', ""
    ),
    "a new task is brought past an older one": Mutation(
        "lib/claim/answer.lua", 'blockers[#blockers + 1] = root .. "lane:" .. lane[1]', ""
    ),
    "a new task is brought to who must run alone": Mutation(
        "lib/claim/answer.lua", "if worker[1] or worker[2] then", "if false then"
    ),
    "a claim is answered after its time": Mutation(
        "lib/claim/answer.lua",
        'profile or tonumber(record["until"]) <= now then',
        "profile then",
    ),
    "a brought task is not counted": Mutation(
        "lib/claim/answer.lua", 'lanes.count(root, lane, started and "RUNNING" or "CLAIMED", 1)', ""
    ),
    "ages are compared wrongly": Mutation(
        "lib/lane/heads.lua", "lane.rate * (now / 60000) or", "(now / 60000) or"
    ),
    "retries come early": Mutation(
        "task/promote.lua", '"-inf", now, "LIMIT"', '"-inf", "+inf", "LIMIT"'
    ),
    "who failed a task is not told": Mutation("lib/core/tasks.lua", 'fields.failed_by or ""', '""'),
    "a new life is blamed for the last one": Mutation(
        "lib/dead/revive.lua", ', "failed_by", "poison"', ""
    ),
    "a new life is reviewed": Mutation("lib/dead/revive.lua", ', "reviewed", "resolution"', ""),
    "a revival is not reviewed": Mutation(
        "task/revive.lua",
        'revive.add_review(root, now, task, life, said, "retry", terms.reviews)',
        "",
    ),
    "a revival sent again is judged anew": Mutation(
        "task/revive.lua", "life and calls.remembered(root, request)", "nil"
    ),
    "a discard sent again is judged anew": Mutation(
        "task/discard.lua", "calls.remembered(root, request)", "nil"
    ),
    "an escalation sent again is reviewed again": Mutation(
        "task/escalate.lua", "calls.remembered(root, request)", "nil"
    ),
    "a decision is about any life": Mutation(
        "lib/dead/revive.lua", "(not life or lives == life)", "true"
    ),
    "a second reviewer is told of a state": Mutation(
        "lib/dead/revive.lua", 'return "DECIDED"', 'return "STATE"'
    ),
    "a record has no price": Mutation("lib/lease/fail.lua", "said[1] - said[4]", "0"),
    "a record pays for those before it": Mutation(
        "lib/lease/fail.lua", '"recorded_usd", said[1], "recorded_tokens", tokens', '"x", 1'
    ),
    "a new life is the old one": Mutation(
        "lib/dead/revive.lua", "more.life = (more.life or 1) + 1", ""
    ),
    "a revived task takes a key that another has": Mutation(
        "lib/dead/revive.lua", 'if other and other ~= "COMPLETED" then', "if false then"
    ),
    "a cancelled task keeps its entry": Mutation(
        "lib/lane/indexes.lua", "    indexes.delete_entry(root, entry)\n  elseif", "  elseif"
    ),
    "a cascade ends at the first task": Mutation(
        "lib/dag/cancel.lua", "cancel.one(root, now, child, why, rule, how)", ""
    ),
    "a park spends nothing and counts nothing": Mutation(
        "lib/lease/lease.lua", 'lanes.count(root, lane, "RETRYING", 1)', ""
    ),
    "what ended is not told to the archive": Mutation(
        "task/fail.lua", "event.send_to_outbox(root, archive, how.ended)", ""
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

    assert mutation.old in ((PACKAGE.parent / "lua") / mutation.file).read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", MUTATIONS)
def test_the_machine_notices_that(valkey: Server, tmp_path: Path, name: str) -> None:
    scripts = clockwork(tmp_path / "lua", MUTATIONS[name])

    with pytest.raises((AssertionError, ResponseError)):
        run_state_machine_as_test(machine(valkey, scripts), settings=FINDER)
