-- @include holder_of
-- A run leaves its lease while its code may go on: it may still say once what it has cost, see
-- settle_debt.
-- The last ten are remembered, each with the number of its last note.
local function owe(root, id, token)
  local key = root .. "task:" .. id
  local known = redis.call("HMGET", key, "holder", "owed")
  local _, _, owner = holder_of(known[1] or "")
  local run, seq = string.match(redis.call("HGET", root .. "notes:" .. id, "noted") or "",
    "^(%S+) (%d+)$")
  local lines = { token .. " " .. (run == token and seq or 0) .. " " .. (owner or "nobody") }
  for line in string.gmatch(known[2] or "", "[^\n]+") do
    lines[#lines + 1] = #lines < 10 and line or nil
  end
  redis.call("HSET", key, "owed", table.concat(lines, "\n"))
end
