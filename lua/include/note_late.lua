-- @include settle_debt
-- @include note_cost
-- @include flag
-- @include more_of
-- @include tell_cost
-- A `run` { id, token, flags, seq, model } that has lost its lease says what it has cost: once.
-- Whether that is counted, also if it is sent again: `told` is the last note that was.
-- What one of a life before this has cost does not count against what this life may. The archive
-- is told at once, beside all lives: `late` is what of this life's cost it was told so.
local function note_late(root, now, run, cost, archive)
  local id, notes = run.id, root .. "notes:" .. run.id
  if cost[1] == "0" and cost[2] == "0" and cost[3] == "0" then
    return false
  end
  local said = run.token .. " " .. run.seq
  local owner, past = settle_debt(root, id, run.token, run.seq)
  if not owner then
    return run.seq ~= "" and redis.call("HGET", notes, "told") == said
  end
  run.owner = owner
  run.life = past or string.format("%.0f", more_of(root, id, run.flags).life or 1)
  note_cost(root, now, id, run.flags, owner, cost, true)
  local name = past and "before" or archive and "late"
  for i, part in ipairs(name and { name, name .. "_in", name .. "_out" } or {}) do
    redis.call("HINCRBY", notes, part, cost[i])
  end
  -- Its record is written: what it says now is not the next one's.
  redis.call("HINCRBY", notes, "recorded_usd", cost[1])
  redis.call("HINCRBY", notes, "recorded_tokens", cost[2] + cost[3])
  redis.call("HSET", notes, "told", said)
  flag(root, id, "n")
  -- What has ended is kept for a time: so long are its notes.
  local left = redis.call("PTTL", root .. "task:" .. id)
  if left > 0 then
    redis.call("PEXPIRE", notes, left)
  end
  tell_cost(root, now, run, cost, archive)
  return true
end
