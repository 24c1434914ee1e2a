-- @include more_of
-- @include free_key
-- @include holder_row
-- Writes the lease into the task's hash and returns what its holder needs to know. `row` is
-- entry, lane, token, flags, def0, def1, def2.
local function write_claim(root, now, id, row, who)
  local epoch = row[3] and string.match(row[3], "^%d+") + 1 or "1"
  local token = epoch .. ":" .. who.bits
  if who.started then
    redis.call("HSET", root .. "task:" .. id, "state", "RUNNING", "token", token,
      "holder", now .. " " .. now .. " " .. who.consumer)
    if row[4] then
      local more = more_of(root, id, row[4])
      if more.unique == "until_start" then
        free_key(root, id, more)
      end
    end
  else
    redis.call("HSET", root .. "task:" .. id, "state", "CLAIMED", "token", token,
      "holder", now .. " 0 " .. who.consumer)
  end
  local plain = not row[3] and not row[4] and row[5] and not row[7]
  return holder_row(root, id, token, row[1], plain and row[5] .. (row[6] or ""))
end
