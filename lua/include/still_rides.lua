-- Whether a breaker's probe, "<task> <token>", is still under way: it rides the lease of the one
-- task that was handed out, and goes with it, however that ends.
local function still_rides(root, probe)
  local id, token = string.match(probe or "", "^(%S+) (%S+)$")
  if not id then
    return false
  end
  local row = redis.call("HMGET", root .. "task:" .. id, "state", "token")
  return row[2] == token
    and (row[1] == "CLAIMED" or row[1] == "RUNNING" or row[1] == "VALIDATING")
end
