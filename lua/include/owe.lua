-- @include holder_of
-- A run has lost its lease while it ran: it may still say once what it has cost, see settle_debt.
-- The last ten are remembered, each with the number of its last note.
local function owe(root, id, token)
  local key = root .. "task:" .. id
  local _, _, owner = holder_of(redis.call("HGET", key, "holder") or "")
  local run, seq = string.match(redis.call("HGET", root .. "notes:" .. id, "noted") or "",
    "^(%S+) (%d+)$")
  local lines = { token .. " " .. (run == token and seq or 0) .. " " .. (owner or "nobody") }
  for line in string.gmatch(redis.call("HGET", key, "owed") or "", "[^\n]+") do
    lines[#lines + 1] = #lines < 10 and line or nil
  end
  redis.call("HSET", key, "owed", table.concat(lines, "\n"))
end
