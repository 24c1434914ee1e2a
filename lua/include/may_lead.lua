-- @include key_of
-- @include key_gates
-- @include may_pass
-- What the tasks of a key must pass whose first is this one, of the heads of a lane; false where
-- it is not, or the key may not go on. One that was first before leaves the heads, so that no claim
-- looks at it again: it comes back when it is. A key that lets nothing pass counts as looked at,
-- and is shut when the call ends; the first of one that is shut is no head.
local function may_lead(root, now, lane, id)
  local number, key = lane.number, key_of(root, id)
  local first = redis.call("ZRANGE", root .. "keyed:" .. number .. ":" .. key, 0, 0)[1]
  if first ~= id then
    redis.call("ZREM", root .. "heads:" .. number, id)
    lane.leads.from = lane.leads.from - 1
    return false
  end
  local known = lane.known[key]
  local gates = known and known.gates or key_gates(root, now, lane.rules, lane.doors, key)
  if may_pass(gates) then
    return gates
  elseif not known then
    known = { key = key, came = 0, gates = gates, members = {}, heads = {}, pos = 1, picked = {} }
    lane.known[key], lane.seen[#lane.seen + 1] = known, known
  end
  return false
end
