-- @include complete_special rarely
-- @include handoff
-- @include dag_of
-- @include is_keyed
-- Ends a held task well. Its entry and its outbox value are added to the lists of `how`.
local function complete_task(root, finished, id, row, result, how)
  local key, lane = root .. "task:" .. id, row[3]
  redis.call("HSET", key, "state", "COMPLETED", "finished", finished)
  if result ~= "" then
    if how.archive or dag_of(row[5]) then
      redis.call("SET", root .. "result:" .. id, result)
    else
      redis.call("SET", root .. "result:" .. id, result, "PX", how.ttl)
    end
  end
  local value = "1 COMPLETED"
  if row[5] then
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
  local n = #how.entries + 1
  how.entries[n], how.ended[2 * n - 1], how.ended[2 * n] = row[4], id, value
  local states = how.lanes[lane] or {}
  states[row[1]] = (states[row[1]] or 0) + 1
  how.lanes[lane] = states
end
