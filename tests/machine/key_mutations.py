"""Scripts broken on purpose where they know of limits, keys and turns."""

from __future__ import annotations

from tests.machine.wire import Mutation

KEY_MUTATIONS = {
    "a limit lets one more begin": Mutation(
        "lib/limits/limits.lua", "return limit[2] - used", "return limit[2] + 1 - used"
    ),
    "a limit forgets what began": Mutation(
        "lib/limits/gates.lua", "elseif gate.rate > 0 then", "elseif false then"
    ),
    "a limit lets one more be in hand": Mutation(
        "lib/limits/limits.lua", "at_once - running_of_type(root, what)", "at_once + 1"
    ),
    "a limit of a key lets one more be in hand": Mutation(
        "lib/limits/limits.lua", "at_once - running_of_tenant(root, type, key)", "at_once + 1"
    ),
    "who waits for a place is forgotten": Mutation(
        "lib/limits/wake.lua", 'redis.call("ZADD", root .. "wakes", 0, what)', ""
    ),
    "who waits for a window is forgotten": Mutation(
        "lib/limits/limits.lua", 'redis.call("ZADD", root .. "wakes", "LT", opens, what)', ""
    ),
    "who takes the last place and waits is forgotten": Mutation(
        "lib/limits/gates.lua", "limits.gate(root, now, gate.words)", ""
    ),
    "what has ended is in hand for its key": Mutation(
        "lib/lane/tenants.lua", 'redis.call("ZREM", root .. "hand:" .. tenant, unpack(own))', ""
    ),
    "a key that was full stays shut": Mutation(
        "lib/lane/tenants.lua", 'redis.call("SREM", root .. "full", tenant) == 1', "false"
    ),
    "a key whose time has come stays shut": Mutation(
        "lib/lane/tenants.lua", '"-inf", now, "LIMIT"', '"-inf", 0, "LIMIT"'
    ),
    "a key is shut in one lane and counted in another": Mutation(
        "lib/limits/limits.lua", "by_tenant[what] or tenant_gate", "tenant_gate"
    ),
    "a turn moves nothing": Mutation("lib/lane/turns.lua", "tenant.step * (1 + missed)", "0"),
    "a turn costs all keys the same": Mutation(
        "lib/lane/turns.lua", "rules.steps[name] or rules.step", "rules.step"
    ),
    "a key that comes back has saved turns up": Mutation(
        "lib/lane/tenants.lua",
        'math.max(tonumber(times[1] or "0"), tonumber(times[i + 1] or "0"))',
        'tonumber(times[i + 1] or "0")',
    ),
    "a key that comes back has lost its turns": Mutation(
        "lib/lane/turns.lua", "if at > now then", "if false then"
    ),
    "a key that was behind makes up for all of it": Mutation(
        "lib/lane/turns.lua", "(1 + missed)", "1"
    ),
    "a key that was behind goes too far": Mutation(
        "lib/lane/turns.lua",
        "math.min(at + tenant.step * (1 + missed), math.max(group.now, at) + tenant.step)",
        "at + tenant.step * (1 + missed)",
    ),
    "a lane does not know what another has given": Mutation(
        "lib/lane/turns.lua", " or not tenant and more", ""
    ),
    "a lane does not know what another gives in the same call": Mutation(
        "lib/lane/turns.lua", "tenant and tenant.at < (advanced[tenant.name] or tenant.at)", "false"
    ),
    "a lane looks at a key as if no other had given it something": Mutation(
        "lib/lane/turns.lua", "math.max(at, group.at[name] or at)", "at"
    ),
    "lanes of keys take no turns with each other": Mutation(
        "lib/lane/turns.lua", "tenant.at < other.at or tenant.at == other.at and", "true or"
    ),
    "lanes of keys compete by their turns": Mutation(
        "lib/lane/turns.lua", "math.min(value, best.points), best", "best.points, best"
    ),
    "what is urgent waits for the turn of its key": Mutation(
        "lib/lane/heads.lua", "not id and cursor.ended or id and score >= best", "true"
    ),
    "what became first in the call waits for the turn of its key": Mutation(
        "lib/lane/heads.lua", "lane.group.rivals and gates.open(tenant.gates)", "false"
    ),
    "the turns go while there is something to give": Mutation(
        "repair/tidy.lua", "or no_tenant_is_ready()", "or true"
    ),
    "a key that is shut has turns": Mutation(
        "lib/lane/tenants.lua", "if not first[1] or closed[i] then", "if not first[1] then"
    ),
    "a task that leaves its lane stays in its key": Mutation(
        "lib/lane/lanes.lua", "found == 1 and tasks.has_tenant(lane)", "false"
    ),
    "a task that is given stays in its key": Mutation(
        "lib/lane/turns.lua",
        'redis.call("ZREM", root .. "keyed:" .. lane.number .. ":" .. tenant.name, '
        "unpack(tenant.picked))",
        "",
    ),
    "a task that moves in its lane stays where it was in its key": Mutation(
        "lib/lane/lanes.lua", "tenants.rescore(root, lane, score, id)", ""
    ),
    "a task given back is in its lane alone": Mutation(
        "lib/lane/lanes.lua", "tenants.enter(root, lane, scores, known or {})", ""
    ),
    "a limited service slows the type of a key down": Mutation(
        "task/park.lua",
        'tasks.has_tenant(row[3]) and "@" .. tasks.tenant_of(root, id) or type',
        "type",
    ),
    "a key that is slowed down is served": Mutation(
        "lib/limits/limits.lua", 'redis.call("EXISTS", root .. "slowed") == 1', "false"
    ),
}
# For the machine that does nothing but turns: what is broken here shows too seldom in the other.
TURN_MUTATIONS = {
    "a key that is full lends its priority": Mutation(
        "lib/lane/heads.lua", "if gates.open(own) then", "if true then"
    ),
    "a key that is full by now lends its priority": Mutation(
        "lib/lane/heads.lua",
        "cursor.checked == id and gates.open(cursor.gates)",
        "cursor.checked == id",
    ),
    "a task that is no head any more stays among them": Mutation(
        "lib/lane/heads.lua", "if first ~= id then", "if false then"
    ),
}
