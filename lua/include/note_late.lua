-- @include settle_debt
-- @include note_cost
-- @include flag
-- A run that has lost its lease says what it has cost: kept once, if it ran under this token.
local function note_late(root, now, id, token, seq, flags, cost)
  local owner = cost[1] ~= "0" and settle_debt(root, id, token, seq)
  if not owner then
    return
  end
  note_cost(root, now, id, flags, owner, cost, true)
  flag(root, id, "n")
  -- What has ended is kept for a time: so long are its notes.
  local left = redis.call("PTTL", root .. "task:" .. id)
  if left > 0 then
    redis.call("PEXPIRE", root .. "notes:" .. id, left)
  end
end
