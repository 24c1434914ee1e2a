"""Mutations of the Lua modules of limits, tenants and turns."""

from __future__ import annotations

from tests.machine.server_shard import Mutation

TENANT_MUTATIONS = {
    "a limit permits one more start": Mutation(
        "lib/limits/limits.lua", "return limit[2] - used", "return limit[2] + 1 - used"
    ),
    "a limit does not count starts": Mutation(
        "lib/limits/gates.lua", "elseif gate.rate > 0 then", "elseif false then"
    ),
    "a limit permits one more lease": Mutation(
        "lib/limits/limits.lua", "at_once - running_of_type(root, what)", "at_once + 1"
    ),
    "a limit of a tenant permits one more lease": Mutation(
        "lib/limits/limits.lua", "at_once - running_of_tenant(root, type, tenant)", "at_once + 1"
    ),
    "claims that wait for capacity are not answered": Mutation(
        "lib/limits/wake.lua", 'redis.call("ZADD", root .. "wakes", 0, what)', ""
    ),
    "claims that wait for a window are not answered": Mutation(
        "lib/limits/limits.lua", 'redis.call("ZADD", root .. "wakes", "LT", opens, what)', ""
    ),
    "a claim that used the last capacity and waits is not answered": Mutation(
        "lib/limits/gates.lua", "limits.gate(root, now, gate.words)", ""
    ),
    "an ended task counts as leased by its tenant": Mutation(
        "lib/lane/tenants.lua", 'redis.call("ZREM", root .. "hand:" .. tenant, unpack(own))', ""
    ),
    "a tenant that was full stays closed": Mutation(
        "lib/lane/tenants.lua", 'redis.call("SREM", root .. "full", tenant) == 1', "false"
    ),
    "a tenant whose time has come stays closed": Mutation(
        "lib/lane/tenants.lua", '"-inf", now, "LIMIT"', '"-inf", 0, "LIMIT"'
    ),
    "a tenant is closed in one lane and counted in another": Mutation(
        "lib/limits/limits.lua", "by_tenant[what] or tenant_gate", "tenant_gate"
    ),
    "a turn does not advance a tenant": Mutation(
        "lib/lane/turns.lua", "tenant.step * (1 + missed)", "0"
    ),
    "a turn advances all tenants by the same step": Mutation(
        "lib/lane/turns.lua", "rules.steps[name] or rules.step", "rules.step"
    ),
    "a returning tenant has accumulated turns": Mutation(
        "lib/lane/tenants.lua",
        'math.max(tonumber(times[1] or "0"), tonumber(times[i + 1] or "0"))',
        'tonumber(times[i + 1] or "0")',
    ),
    "a returning tenant has lost its progress": Mutation(
        "lib/lane/turns.lua", "if at > now then", "if false then"
    ),
    "a tenant that was behind makes up for all missed turns": Mutation(
        "lib/lane/turns.lua", "(1 + missed)", "1"
    ),
    "a tenant that was behind advances too far": Mutation(
        "lib/lane/turns.lua",
        "math.min(at + tenant.step * (1 + missed), math.max(group.now, at) + tenant.step)",
        "at + tenant.step * (1 + missed)",
    ),
    "a lane ignores the turns of another lane": Mutation(
        "lib/lane/turns.lua", " or not tenant and more", ""
    ),
    "a lane ignores the turns of another lane in the same call": Mutation(
        "lib/lane/turns.lua", "tenant and tenant.at < (advanced[tenant.name] or tenant.at)", "false"
    ),
    "a lane checks a tenant without its turns in other lanes": Mutation(
        "lib/lane/turns.lua", "math.max(at, group.at[name] or at)", "at"
    ),
    "lanes with tenants take no turns with each other": Mutation(
        "lib/lane/turns.lua", "tenant.at < other.at or tenant.at == other.at and", "true or"
    ),
    "lanes with tenants compete by their turns": Mutation(
        "lib/lane/turns.lua", "math.min(value, best.points), best", "best.points, best"
    ),
    "an urgent task waits for the turn of its tenant": Mutation(
        "lib/lane/heads.lua", "not id and cursor.ended or id and score >= best", "true"
    ),
    "a task that became first in the call waits for the turn of its tenant": Mutation(
        "lib/lane/heads.lua", "lane.group.rivals and gates.open(tenant.gates)", "false"
    ),
    "the progress of turns is deleted while tasks are ready": Mutation(
        "repair/tidy.lua", "or no_tenant_is_ready()", "or true"
    ),
    "a closed tenant has turns": Mutation(
        "lib/lane/tenants.lua", "if not first[1] or closed[i] then", "if not first[1] then"
    ),
    "a task that leaves its lane stays listed at its tenant": Mutation(
        "lib/lane/lanes.lua", "found == 1 and tasks.has_tenant(lane)", "false"
    ),
    "a leased task stays listed at its tenant": Mutation(
        "lib/lane/turns.lua",
        'redis.call("ZREM", root .. "keyed:" .. lane.number .. ":" .. tenant.name, '
        "unpack(tenant.picked))",
        "",
    ),
    "a rescored task keeps its old score at its tenant": Mutation(
        "lib/lane/lanes.lua", "tenants.rescore(root, lane, score, id)", ""
    ),
    "a released task is not listed at its tenant": Mutation(
        "lib/lane/lanes.lua", "tenants.enter(root, lane, scores, known or {})", ""
    ),
    "a rate limit of a tenant slows its type down": Mutation(
        "task/park.lua",
        'tasks.has_tenant(row[3]) and "@" .. tasks.tenant_of(root, id) or type',
        "type",
    ),
    "a tenant that is slowed down is served": Mutation(
        "lib/limits/limits.lua", 'redis.call("EXISTS", root .. "slowed") == 1', "false"
    ),
}
# For the state machine of turns only: the other one finds these too seldom.
TURN_MUTATIONS = {
    "a full tenant counts for the priority of its lane": Mutation(
        "lib/lane/heads.lua", "if gates.open(own) then", "if true then"
    ),
    "a tenant that became full counts for the priority of its lane": Mutation(
        "lib/lane/heads.lua",
        "cursor.checked == id and gates.open(cursor.gates)",
        "cursor.checked == id",
    ),
    "a former head stays listed as head": Mutation(
        "lib/lane/heads.lua", "if first ~= id then", "if false then"
    ),
}
