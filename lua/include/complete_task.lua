-- @include complete_special rarely
-- @include flagged
-- @include handoff
-- @include dag_of
-- @include is_keyed
-- Ends a held task well. Its entry and its outbox value are added to the lists of `how`.
local function complete_task(root, finished, id, row, result, how)
  local key, lane = root .. "task:" .. id, row[3]
  redis.call("HSET", key, "state", "COMPLETED", "finished", finished)
  if result ~= "" and (how.archive or dag_of(row[5])) then
    redis.call("SET", root .. "result:" .. id, result)
  elseif result ~= "" then
    redis.call("SET", root .. "result:" .. id, result, "PX", how.ttl)
  end
  local value = "1 COMPLETED"
  if row[5] then
    if flagged(row[5], "c") then
      local kept, texts = redis.call("HGET", key, "reserved") or "", how.refunds[row[5]] or {}
      texts[kept], how.refunds[row[5]] = (texts[kept] or 0) + 1, texts
    end
    value = complete_special(root, id, row, how) .. " COMPLETED"
  elseif not how.archive then
    redis.call("PEXPIRE", key, how.ttl)
    redis.call("PEXPIRE", root .. "def:" .. id, how.ttl)
  end
  if how.handed then
    redis.call("ZREM", root .. "handoffs", handoff(id, row[2]))
  end
  if how.leases then
    how.leases[id .. " " .. row[2]] = true
  end
  if is_keyed(lane) then
    how.keyed[#how.keyed + 1] = id
  end
  local n, states = #how.entries + 1, how.lanes[lane] or {}
  how.entries[n], how.ended[2 * n - 1], how.ended[2 * n] = row[4], id, value
  states[row[1]], how.lanes[lane] = (states[row[1]] or 0) + 1, states
end
